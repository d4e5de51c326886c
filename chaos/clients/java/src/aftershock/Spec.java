package aftershock;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The spec of a client, or a part of it: fields by name, as in chaos.clients.protocol. */
final class Spec {
    private final Map<String, Object> fields;

    private Spec(Map<String, Object> fields) {
        this.fields = fields;
    }

    @SuppressWarnings("unchecked")
    static Spec load(String path) throws IOException {
        return new Spec((Map<String, Object>) Json.parse(Files.readString(Path.of(path))));
    }

    @SuppressWarnings("unchecked")
    static Spec of(String json) {
        return new Spec((Map<String, Object>) Json.parse(json));
    }

    /** Returns a copy in which a field has another value. */
    Spec with(String name, Object value) {
        Map<String, Object> copy = new HashMap<>(fields);
        copy.put(name, value);
        return new Spec(copy);
    }

    /** Returns all fields as JSON. */
    String json() {
        return Json.text(fields);
    }

    boolean has(String name) {
        return fields.get(name) != null;
    }

    /** Returns a text; null if it is left out. */
    String text(String name) {
        return (String) fields.get(name);
    }

    long number(String name) {
        return ((Number) fields.get(name)).longValue();
    }

    /** Returns a number in seconds; 0 if it is left out. */
    double seconds(String name) {
        return has(name) ? ((Number) fields.get(name)).doubleValue() : 0;
    }

    boolean flag(String name) {
        return Boolean.TRUE.equals(fields.get(name));
    }

    /** Returns a part; null if it is left out. */
    @SuppressWarnings("unchecked")
    Spec part(String name) {
        return has(name) ? new Spec((Map<String, Object>) fields.get(name)) : null;
    }

    @SuppressWarnings("unchecked")
    Map<String, Object> map(String name) {
        return has(name) ? (Map<String, Object>) fields.get(name) : Map.of();
    }

    @SuppressWarnings("unchecked")
    List<String> texts(String name) {
        return (List<String>) fields.get(name);
    }

    /** Returns the topic to which a client writes the record with a seq. */
    String topicOf(long seq) {
        List<String> inTurn = has("in_turn") ? texts("in_turn") : List.of();
        return inTurn.isEmpty() ? text("topic") : inTurn.get((int) (seq % inTurn.size()));
    }

    /** Returns the specs of the clients in this process: one for each of `threads`, or only this one. */
    List<Spec> clients() {
        if (!has("threads") || texts("threads").isEmpty()) {
            return List.of(this);
        }
        List<Spec> clients = new ArrayList<>();
        for (String client : texts("threads")) {
            clients.add(with("client", client));
        }
        return clients;
    }

    /** Returns the name of the ledger files of an incarnation of this client. */
    String writer(long incarnation) {
        return text("client").replace('/', '-') + "." + incarnation;
    }

    /** Returns the names in the columns that identify a client. */
    String client() {
        return text("client");
    }

    long incarnation() {
        return number("incarnation");
    }
}
