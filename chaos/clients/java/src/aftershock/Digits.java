package aftershock;

/** Decimal digits, without a division for each: the first-tier compiler does not replace divisions by multiplications. */
final class Digits {
    private static final int AT_ONCE = 8;
    private static final int BASE = 100_000_000;
    private static final int LONGEST = 19;

    private Digits() {}

    /** Returns the number of digits of a number, which is not negative. */
    static int count(long number) {
        int count = 1;
        for (long limit = 10; count < LONGEST && number >= limit; limit *= 10) {
            count++;
        }
        return count;
    }

    /** Writes the last digits of a number, which is not negative, with zeros before them. */
    static void put(byte[] text, int from, int count, long number) {
        long left = number;
        for (int at = from + count; at > from; ) {
            int part = (int) left;
            if (left >= BASE) {
                part = (int) (left % BASE);
                left /= BASE;
            } else {
                left = 0;
            }
            for (int first = Math.max(from, at - AT_ONCE); at > first; ) {
                int tenth = (int) (part * 3_435_973_837L >>> 35);
                text[--at] = (byte) ('0' + part - 10 * tenth);
                part = tenth;
            }
        }
    }

    /** Returns the number that a text of digits has; -1 if it has another character. */
    static long parse(byte[] text, int from, int count) {
        long number = 0;
        int wrong = 0;
        for (int i = from; i < from + count; i++) {
            int digit = text[i] - '0';
            wrong |= digit | 9 - digit;
            number = 10 * number + digit;
        }
        return wrong < 0 ? -1 : number;
    }
}
