package aftershock;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** The orders that a client received and the events that it sends, usually on stdout; see chaos.clients. */
final class Channel {
    private static final double PROGRESS_EVERY_S = 0.1;
    private static final OutputStream STDOUT = new FileOutputStream(FileDescriptor.out);

    volatile boolean started;
    volatile boolean stopping;
    volatile boolean orphaned;
    volatile boolean ignoringReports;
    volatile double perRecordS;
    final Queue<Map<String, Object>> seeks = new ConcurrentLinkedQueue<>();

    private final String client;
    private final OutputStream out;
    private String lastProgress = "";
    private double nextProgress;

    /** client: its name if the process runs several clients, else null. */
    Channel(String client) {
        this(client, STDOUT);
    }

    Channel(String client, OutputStream out) {
        this.client = client;
        this.out = out;
    }

    /** Returns whether an order is for this client. named: the client in the order; null in orders to all. */
    boolean accepts(Object named) {
        return named == null || client == null || client.equals(named);
    }

    /** Applies an order. Throws RuntimeException if it is not an order of the protocol. */
    @SuppressWarnings("unchecked")
    void obey(Map<?, ?> order) {
        String what = String.valueOf(order.get("do"));
        switch (what) {
            case "stop" -> stopping = true;
            case "start" -> started = true;
            case "ignore_reports" -> ignoringReports = true;
            case "slow" -> perRecordS = ((Number) order.get("per_record_s")).doubleValue();
            case "clock" -> send("clock", Map.of("shown_us", Clock.shownUs()));
            case "seek" -> seeks.add((Map<String, Object>) order);
            default -> throw new IllegalArgumentException("unknown order " + what);
        }
    }

    /** Sends an event. */
    void send(String event, Map<String, ?> fields) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("event", event);
        if (client != null) {
            all.put("client", client);
        }
        all.putAll(fields);
        byte[] line = (Json.text(all) + "\n").getBytes(StandardCharsets.UTF_8);
        try {
            synchronized (out) { // the clients of a process share it
                out.write(line);
            }
        } catch (IOException e) { // the fleet is gone
            stopping = orphaned = true;
        }
    }

    boolean progressDue() {
        return Clock.monotonic() >= nextProgress;
    }

    /** Sends a progress event, unless nothing changed. */
    void progress(Map<String, ?> fields) {
        nextProgress = Clock.monotonic() + PROGRESS_EVERY_S;
        String text = Json.text(fields);
        if (!text.equals(lastProgress)) {
            lastProgress = text;
            send("progress", fields);
        }
    }
}
