package aftershock;

import java.util.Collection;

/** One line of a ledger file: columns with one value for all rows, or with one value for each row. */
final class Batch {
    private final StringBuilder text = new StringBuilder(1024).append('{');

    private StringBuilder column(String name) {
        return text.append(text.length() > 1 ? ",\"" : "\"").append(name).append("\":");
    }

    /** Adds a column with one value for all rows, or with a list of values. */
    Batch put(String name, Object value) {
        Json.write(column(name), value);
        return this;
    }

    /** Adds a column of numbers; `MISSING` becomes null. */
    Batch put(String name, Longs values) {
        column(name).append('[');
        for (int i = 0; i < values.size(); i++) {
            text.append(i > 0 ? "," : "");
            if (values.get(i) == Longs.MISSING) {
                text.append("null");
            } else {
                text.append(values.get(i));
            }
        }
        text.append(']');
        return this;
    }

    /** Adds a column as one value if all its values are equal, else as a list. */
    Batch putFolded(String name, Collection<?> values) {
        Object first = values.iterator().next();
        boolean same = values.stream().allMatch(value -> java.util.Objects.equals(value, first));
        return put(name, same ? first : values);
    }

    /** Returns the line. All lists have to have the same length. */
    String line() {
        return text + "}\n";
    }
}
