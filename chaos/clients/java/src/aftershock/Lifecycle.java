package aftershock;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;

/** Writes `lifecycle` for one incarnation of a client, and sends the events that belong to it. */
final class Lifecycle {
    private final Spec spec;
    private final Channel channel;
    private final String role;
    private final Table table;

    Lifecycle(Spec spec, Channel channel, String role) throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.role = role;
        table = new Table(spec, "lifecycle");
    }

    /** Writes a row; for started and stopped, sends an event as well. */
    void event(String event, Map<String, ?> detail) {
        write(spec.incarnation(), event, detail);
        if (event.equals("started") || event.equals("stopped")) {
            channel.send(event, Map.of());
        }
    }

    /** Writes that another incarnation ended without a stop. */
    void crashed(long incarnation, Map<String, ?> detail) {
        write(incarnation, "crashed", detail);
    }

    private void write(long incarnation, String event, Map<String, ?> detail) {
        table.write(new Batch()
                .put("client", spec.client())
                .put("role", role)
                .put("incarnation", incarnation)
                .put("event", event)
                .put("detail", Json.text(detail))
                .put("at_us", Clock.nowUs()));
    }

    /** Reports an error as a row, an event and a line in the log. */
    void error(String message, boolean fatal) {
        Map<String, Object> detail = new LinkedHashMap<>();
        detail.put("error", message);
        if (fatal) {
            detail.put("fatal", true);
        }
        event("error", detail);
        channel.send("error", Map.of("detail", message));
        Log.line(message);
    }
}
