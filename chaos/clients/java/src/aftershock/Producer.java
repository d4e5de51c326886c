package aftershock;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * The producer: it sends one seq after the other, at a steady rate or at full speed, plainly or in transactions.
 *
 * <p>With mode `synchronous` it waits for each answer. `fire_and_forget` differs from `callback` only in what an
 * application would do with an answer; the ledger needs it in both cases.
 */
final class Producer extends Sender {
    private static final int CHUNK = 500;
    private static final double CATCH_UP_S = 0.25;

    private final long records;
    private final String mode;
    private final String partitioner;
    private final double rate;
    private final byte[][] keys;
    private double rateSince = Clock.monotonic();
    private long paced;

    Producer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        super(spec, channel, lifecycle);
        records = spec.number("records");
        mode = spec.text("mode");
        partitioner = spec.text("partitioner");
        rate = spec.seconds("rate");
        keys = new byte[spec.has("keys") ? (int) spec.number("keys") : 0][];
        for (int i = 0; i < keys.length; i++) {
            keys[i] = ("k" + i).getBytes(StandardCharsets.US_ASCII);
        }
    }

    @Override
    public boolean run() throws IOException {
        initTransactions();
        while (spec.flag("hold") && !channel.started && !ending()) {
            serve(TICK_S);
        }
        rateSince = Clock.monotonic();
        while (transactions != null && next < records && !ending()) {
            beginTransaction();
            sendUntil(Math.min(next + transactions.number("records"), records));
            endTransaction(() -> true);
        }
        if (transactions == null) {
            sendUntil(records);
        }
        while (!ending()) {
            serve(inFlight() > 0 ? TICK_S : 0.05);
        }
        limit();
        while (inFlight() > 0 && !givingUp()) {
            serve(TICK_S);
        }
        return finish();
    }

    private boolean ending() {
        return channel.stopping || fatal;
    }

    private void sendUntil(long end) {
        boolean synchronous = mode.equals("synchronous");
        while (next < end && !ending() && !mustAbort()) {
            long due = Math.min(rate > 0 ? due() : CHUNK, end - next);
            for (long i = 0; i < due && !ending() && !mustAbort(); i++) {
                sendNext();
                paced++;
                if (synchronous) {
                    waitForAnswers();
                }
            }
            serve(rate > 0 ? TICK_S : 0);
        }
    }

    private void sendNext() {
        int number = keys.length == 0 ? -1 : keyNumber(next, spec.number("seed"), keys.length);
        Integer partition = null;
        if ("round_robin".equals(partitioner)) {
            partition = (int) (next % spec.number("partitions"));
        } else if ("by_key_number".equals(partitioner)) {
            partition = (int) (number % spec.number("partitions"));
        }
        send(number < 0 ? null : keys[number], partition, null);
    }

    /** Returns the number of records to send now. After a stall, up to `CATCH_UP_S` of it is caught up. */
    private long due() {
        long due = (long) ((Clock.monotonic() - rateSince) * rate) - paced;
        long limit = Math.max(1, (long) (rate * CATCH_UP_S));
        if (due > limit) {
            rateSince += (due - limit) / rate;
            due = limit;
        }
        return Math.max(0, due);
    }

    /** Returns the key of a seq: spread by the seed, and the same in every incarnation. */
    private static int keyNumber(long seq, long seed, int count) {
        long x = seq + (seed << 32);
        x = (x ^ (x >>> 30)) * 0xBF58476D1CE4E5B9L; // the finalizer of splitmix64
        x = (x ^ (x >>> 27)) * 0x94D049BB133111EBL;
        return (int) Long.remainderUnsigned(x ^ (x >>> 31), count);
    }

    @Override
    void addProgress(Map<String, Object> fields) {
        fields.put("done", next >= records && !open && inFlight() == 0);
    }
}
