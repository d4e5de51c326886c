package aftershock;

/** The key and the partition of each seq of a producer, the same in every incarnation. */
final class Keys {
    private final String[] keys;
    private final long seed;
    private final long partitions;
    private final String partitioner;

    Keys(Spec spec) {
        keys = new String[spec.has("keys") ? (int) spec.number("keys") : 0];
        for (int i = 0; i < keys.length; i++) {
            keys[i] = "k" + i;
        }
        seed = spec.number("seed");
        partitions = spec.number("partitions");
        partitioner = spec.text("partitioner");
    }

    /** Returns the key of a seq; null without keys. */
    String of(long seq) {
        return keys.length == 0 ? null : keys[number(seq)];
    }

    /** Returns the partition that the application chooses; null if it leaves the choice to the library. */
    Integer partition(long seq) {
        if ("round_robin".equals(partitioner)) {
            return (int) (seq % partitions);
        }
        return "by_key_number".equals(partitioner) ? Integer.valueOf((int) (number(seq) % partitions)) : null;
    }

    /** Spreads keys by the seed. */
    private int number(long seq) {
        long x = seq + (seed << 32);
        x = (x ^ (x >>> 30)) * 0xBF58476D1CE4E5B9L; // the finalizer of splitmix64
        x = (x ^ (x >>> 27)) * 0x94D049BB133111EBL;
        return (int) Long.remainderUnsigned(x ^ (x >>> 31), keys.length);
    }
}
