package aftershock;

import java.util.Arrays;

/** A growing list of numbers. */
final class Longs {
    /** The number for a value that does not exist. */
    static final long MISSING = Long.MIN_VALUE;

    private long[] values;
    private int size;

    Longs() {
        this(64);
    }

    /** capacity: numbers that it holds before it grows. */
    Longs(int capacity) {
        values = new long[Math.max(1, capacity)];
    }

    void add(long value) {
        if (size == values.length) {
            values = Arrays.copyOf(values, 2 * size);
        }
        values[size++] = value;
    }

    long get(int index) {
        return values[index];
    }

    boolean contains(long value) {
        for (int i = 0; i < size; i++) {
            if (values[i] == value) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether all numbers are equal. */
    boolean areEqual() {
        for (int i = 1; i < size; i++) {
            if (values[i] != values[0]) {
                return false;
            }
        }
        return size > 0;
    }

    /** Returns whether each number is the one before it and 1. */
    boolean areConsecutive() {
        for (int i = 1; i < size; i++) {
            if (values[i] != values[0] + i) {
                return false;
            }
        }
        return size > 0;
    }

    int size() {
        return size;
    }

    void clear() {
        size = 0;
    }
}
