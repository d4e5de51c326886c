package aftershock;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON without a library: objects as maps, arrays as lists, whole numbers as Long, other numbers as Double. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Returns the value of a text. Throws IllegalArgumentException if it is not JSON. */
    static Object parse(String text) {
        Json json = new Json(text);
        try {
            Object value = json.value();
            json.skip();
            if (json.at < text.length()) {
                throw new IllegalArgumentException("text after the value");
            }
            return value;
        } catch (StringIndexOutOfBoundsException e) {
            throw new IllegalArgumentException("the text is cut off");
        }
    }

    private Object value() {
        skip();
        switch (text.charAt(at)) {
            case '{':
                return object();
            case '[':
                return array();
            case '"':
                return string();
            default:
                return word();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        while (!closes('}', !found.isEmpty())) {
            skip();
            String name = string();
            skip();
            expect(':');
            found.put(name, value());
        }
        return found;
    }

    private List<Object> array() {
        List<Object> found = new ArrayList<>();
        at++;
        while (!closes(']', !found.isEmpty())) {
            found.add(value());
        }
        return found;
    }

    /** Returns whether an object or an array ends here; else steps over the comma before its next part. */
    private boolean closes(char end, boolean needsComma) {
        skip();
        if (text.charAt(at) == end) {
            at++;
            return true;
        }
        if (needsComma) {
            expect(',');
        }
        return false;
    }

    private void expect(char c) {
        if (text.charAt(at++) != c) {
            throw new IllegalArgumentException("no " + c + " at " + (at - 1));
        }
    }

    private String string() {
        expect('"');
        StringBuilder found = new StringBuilder();
        for (char c; (c = text.charAt(at++)) != '"'; ) {
            found.append(c == '\\' ? escaped() : c);
        }
        return found.toString();
    }

    private char escaped() {
        char c = text.charAt(at++);
        switch (c) {
            case 'n':
                return '\n';
            case 't':
                return '\t';
            case 'r':
                return '\r';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'u':
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            default:
                return c;
        }
    }

    private Object word() {
        int from = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(from, at);
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                return number(word);
        }
    }

    private static Object number(String word) {
        if (word.indexOf('.') < 0 && word.indexOf('e') < 0 && word.indexOf('E') < 0) {
            return Long.parseLong(word);
        }
        return Double.parseDouble(word);
    }

    private void skip() {
        while (at < text.length() && text.charAt(at) <= ' ') {
            at++;
        }
    }

    /** Appends a value: null, a number, a boolean, a map, a collection, or the text of anything else. */
    static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                write(out.append(separator), entry.getKey());
                write(out.append(':'), entry.getValue());
                separator = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Collection<?> items) {
            String separator = "[";
            for (Object item : items) {
                write(out.append(separator), item);
                separator = ",";
            }
            out.append(items.isEmpty() ? "[]" : "]");
        } else {
            quote(out, value.toString());
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /** Returns a value as JSON. */
    static String text(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }
}
