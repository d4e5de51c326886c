package aftershock;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.Objects;

/**
 * One line of a ledger file: columns with one value for all rows, or with one value for each row.
 *
 * <p>A column of numbers is written as its first number and the steps between them: they are shorter, and consecutive
 * numbers need no list.
 */
final class Batch {
    private static final int LONGEST_NUMBER = 20;

    private byte[] line = new byte[1024];
    private int size;

    Batch() {
        line[size++] = '{';
    }

    /** Adds a column with one value for all rows, or with a list of values. */
    Batch put(String name, Object value) {
        column(name);
        text(Json.text(value));
        return this;
    }

    /** Adds a column of numbers; `MISSING` becomes null. */
    Batch put(String name, Longs values) {
        column(name);
        if (values.size() == 0 || values.contains(Longs.MISSING)) {
            list(values);
        } else if (values.areConsecutive()) {
            consecutive(values.get(0), values.size());
        } else {
            steps(values);
        }
        return this;
    }

    /** Adds a column of consecutive numbers. */
    Batch putConsecutive(String name, long first, int rows) {
        column(name);
        consecutive(first, rows);
        return this;
    }

    /** Adds a column of numbers as one number if they are equal. Another column has to give the number of rows. */
    Batch putFolded(String name, Longs values) {
        if (!values.areEqual()) {
            return put(name, values);
        }
        long value = values.get(0);
        return put(name, value == Longs.MISSING ? null : Long.valueOf(value));
    }

    /** Adds a column as one value if all its values are equal, else as a list. */
    Batch putFolded(String name, Collection<?> values) {
        Object first = values.iterator().next();
        for (Object value : values) {
            if (value != first && !Objects.equals(value, first)) {
                return put(name, values);
            }
        }
        return put(name, first);
    }

    /** Returns the line in UTF-8. All lists have to have the same length. */
    ByteBuffer line() {
        put('}');
        put('\n');
        return ByteBuffer.wrap(line, 0, size);
    }

    private void list(Longs values) {
        put('[');
        for (int i = 0; i < values.size(); i++) {
            if (i > 0) {
                put(',');
            }
            if (values.get(i) == Longs.MISSING) {
                text("null");
            } else {
                number(values.get(i));
            }
        }
        put(']');
    }

    private void consecutive(long first, int rows) {
        text("{\"first\":");
        number(first);
        text(",\"step\":1,\"rows\":");
        number(rows);
        put('}');
    }

    private void steps(Longs values) {
        text("{\"first\":");
        number(values.get(0));
        text(",\"steps\":[");
        for (int i = 1; i < values.size(); i++) {
            if (i > 1) {
                put(',');
            }
            number(values.get(i) - values.get(i - 1));
        }
        text("]}");
    }

    private void column(String name) {
        if (size > 1) {
            put(',');
        }
        put('"');
        text(name);
        put('"');
        put(':');
    }

    private void text(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        grow(bytes.length);
        System.arraycopy(bytes, 0, line, size, bytes.length);
        size += bytes.length;
    }

    private void number(long number) {
        if (number == Long.MIN_VALUE) {
            text(Long.toString(number)); // has no positive number
            return;
        }
        grow(LONGEST_NUMBER);
        long rest = Math.abs(number);
        int digits = Digits.count(rest);
        if (number < 0) {
            line[size++] = '-';
        }
        Digits.put(line, size, digits, rest);
        size += digits;
    }

    private void put(char ascii) {
        grow(1);
        line[size++] = (byte) ascii;
    }

    private void grow(int more) {
        if (size + more > line.length) {
            line = Arrays.copyOf(line, Math.max(2 * line.length, size + more));
        }
    }
}
