package aftershock;

import java.util.Arrays;

/** A growing list of numbers. */
final class Longs {
    /** The number for a value that does not exist. */
    static final long MISSING = Long.MIN_VALUE;

    private long[] values = new long[64];
    private int size;

    void add(long value) {
        if (size == values.length) {
            values = Arrays.copyOf(values, 2 * size);
        }
        values[size++] = value;
    }

    long get(int index) {
        return values[index];
    }

    int size() {
        return size;
    }

    void clear() {
        size = 0;
    }
}
