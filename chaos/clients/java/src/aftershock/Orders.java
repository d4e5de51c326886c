package aftershock;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/** The orders on stdin, for all clients of the process. */
final class Orders {
    private static final double ORPHAN_EXIT_S = 5;

    private final List<Channel> channels;

    private Orders(List<Channel> channels) {
        this.channels = channels;
    }

    /** Starts the thread that receives orders. When stdin ends, the fleet is gone, and the process ends. */
    static void listenFor(List<Channel> channels) {
        System.setOut(System.err); // what a library prints is no event
        Thread thread = new Thread(new Orders(channels)::receive, "orders");
        thread.setDaemon(true);
        thread.start();
    }

    private void receive() {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line; (line = in.readLine()) != null; ) {
                try {
                    pass(line);
                } catch (RuntimeException e) {
                    String detail = "invalid order " + line.strip() + ": " + e.getMessage();
                    channels.get(0).send("error", Map.of("detail", detail));
                }
            }
        } catch (IOException e) {
            Log.line("orders cannot be read: " + e);
        }
        for (Channel channel : channels) {
            channel.stopping = channel.orphaned = true;
        }
        Clock.sleep(ORPHAN_EXIT_S);
        Runtime.getRuntime().halt(1);
    }

    private void pass(String line) {
        if (!(Json.parse(line) instanceof Map<?, ?> order)) {
            throw new IllegalArgumentException("not an object");
        }
        for (Channel channel : channels) {
            if (channel.accepts(order.get("client"))) {
                channel.obey(order);
            }
        }
    }
}
