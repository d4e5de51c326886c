package aftershock;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** The orders received on stdin and the events sent on stdout; see chaos.clients. */
final class Channel {
    private static final double PROGRESS_EVERY_S = 0.1;
    private static final double ORPHAN_EXIT_S = 5;

    volatile boolean started;
    volatile boolean stopping;
    volatile boolean orphaned;
    volatile boolean ignoringReports;
    volatile double perRecordS;
    final Queue<Map<String, Object>> seeks = new ConcurrentLinkedQueue<>();

    private final FileOutputStream out = new FileOutputStream(FileDescriptor.out);
    private String lastProgress = "";
    private double nextProgress;

    /** Starts the thread that receives orders. When stdin ends, the fleet is gone, and the process ends. */
    void listen() {
        System.setOut(System.err); // what a library prints is no event
        Thread thread = new Thread(this::receive, "orders");
        thread.setDaemon(true);
        thread.start();
    }

    private void receive() {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line; (line = in.readLine()) != null; ) {
                try {
                    obey(line);
                } catch (RuntimeException e) {
                    send("error", Map.of("detail", "invalid order " + line.strip() + ": " + e.getMessage()));
                }
            }
        } catch (IOException e) {
            Log.line("orders cannot be read: " + e);
        }
        stopping = orphaned = true;
        Clock.sleep(ORPHAN_EXIT_S);
        Runtime.getRuntime().halt(1);
    }

    @SuppressWarnings("unchecked")
    private void obey(String line) {
        if (!(Json.parse(line) instanceof Map<?, ?> order)) {
            throw new IllegalArgumentException("not an object");
        }
        String what = String.valueOf(order.get("do"));
        switch (what) {
            case "stop" -> stopping = true;
            case "start" -> started = true;
            case "ignore_reports" -> ignoringReports = true;
            case "slow" -> perRecordS = ((Number) order.get("per_record_s")).doubleValue();
            case "seek" -> seeks.add((Map<String, Object>) order);
            default -> throw new IllegalArgumentException("unknown order " + what);
        }
    }

    synchronized void send(String event, Map<String, ?> fields) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("event", event);
        all.putAll(fields);
        try {
            out.write((Json.text(all) + "\n").getBytes(StandardCharsets.UTF_8));
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
