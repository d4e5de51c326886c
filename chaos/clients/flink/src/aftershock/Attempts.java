package aftershock;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The attempts of all subtasks of a job in a session cluster, as its program sees them.
 *
 * <p>Each attempt is connected. It gets the next incarnation of the client, so that what Flink restores in it counts as a
 * restore. If its connection ends without an event `stopped`, it has crashed, alone or with its task manager.
 */
final class Attempts implements JobRows {
    private static final double NAP_S = 0.02;
    private static final double END_S = 10;

    private final Spec spec;
    private final Channel channel;
    private final Lifecycle lifecycle;
    private final ServerSocket server = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());
    private final List<Connection> connections = new ArrayList<>();
    private double slowS;

    Attempts(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.lifecycle = lifecycle;
        start(this::accept);
    }

    /** Returns what a subtask needs to find this program. */
    AttemptLink link() {
        return new AttemptLink(spec.json(), server.getLocalPort());
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work, "attempts");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket socket = server.accept();
                start(() -> serve(socket));
            }
        } catch (IOException e) {
            Log.line("no attempt can connect any more: " + e);
        }
    }

    private void serve(Socket socket) {
        try (socket;
                BufferedReader events = new BufferedReader(
                        new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8))) {
            String first = events.readLine();
            if (first == null) {
                return;
            }
            Connection connection = open(socket, (Map<?, ?>) Json.parse(first));
            try {
                for (String line; (line = events.readLine()) != null; ) {
                    connection.receive((Map<?, ?>) Json.parse(line));
                }
            } catch (IOException | IllegalArgumentException e) { // its process was killed, maybe within a line
                Log.line("the connection of incarnation " + connection.incarnation + " ended: " + e);
            } finally {
                end(connection);
            }
        } catch (IOException e) {
            Log.line("an attempt cannot connect: " + e);
        }
    }

    private synchronized Connection open(Socket socket, Map<?, ?> attempt) throws IOException {
        Connection connection = new Connection(socket, attempt, spec.incarnation() + connections.size() + 1);
        connections.add(connection);
        connection.order.send("welcome", Map.of("incarnation", connection.incarnation));
        if (slowS > 0) {
            connection.slow(slowS);
        }
        return connection;
    }

    private synchronized void end(Connection connection) {
        connection.live = false;
        if (!connection.stopped) {
            lifecycle.crashed(
                    connection.incarnation,
                    Map.of("subtask", connection.subtask, "task_manager", connection.taskManager));
        }
    }

    /** An attempt. */
    private static final class Connection {
        final long incarnation;
        final Object subtask;
        final Object taskManager;
        final Channel order;
        volatile boolean live = true;
        volatile boolean stopped;
        volatile Map<?, ?> progress = Map.of();

        Connection(Socket socket, Map<?, ?> attempt, long incarnation) throws IOException {
            this.incarnation = incarnation;
            subtask = attempt.get("subtask");
            taskManager = attempt.get("task_manager");
            order = new Channel(null, socket.getOutputStream());
        }

        void receive(Map<?, ?> event) {
            if ("progress".equals(event.get("event"))) {
                progress = event;
            } else if ("stopped".equals(event.get("event"))) {
                stopped = true;
            }
        }

        void slow(double perRecordS) {
            order.send("order", Map.of("do", "slow", "per_record_s", perRecordS));
        }
    }

    /** Passes on the order to be slower or faster. */
    @Override
    public synchronized void flush() {
        if (channel.perRecordS != slowS) {
            slowS = channel.perRecordS;
            connections.stream().filter(one -> one.live).forEach(one -> one.slow(slowS));
        }
    }

    /** Reports what the attempts reported: deliveries of all, positions of those that run. */
    @Override
    public synchronized void progress() {
        long delivered = 0;
        TreeSet<String> assigned = new TreeSet<>();
        Map<String, Object> positions = new TreeMap<>();
        Map<String, Object> taskManagers = new TreeMap<>();
        for (Connection one : connections) {
            Map<?, ?> progress = one.progress;
            delivered += progress.get("delivered") instanceof Number count ? count.longValue() : 0;
            if (one.live && progress.get("assigned") instanceof List<?> held) {
                held.forEach(name -> assigned.add((String) name));
                held.forEach(name -> taskManagers.put((String) name, one.taskManager));
                ((Map<?, ?>) progress.get("positions")).forEach((name, at) -> positions.put((String) name, at));
            }
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("delivered", delivered);
        fields.put("assigned", assigned);
        fields.put("positions", positions);
        fields.put("member_id", null);
        fields.put("generation", null);
        fields.put("task_managers", taskManagers);
        channel.progress(fields);
    }

    /** Waits until the attempts have ended. */
    @Override
    public void close() {
        double limit = Clock.monotonic() + END_S;
        while (Clock.monotonic() < limit && running()) {
            Clock.sleep(NAP_S);
        }
        progress();
    }

    private synchronized boolean running() {
        return connections.stream().anyMatch(one -> one.live);
    }
}
