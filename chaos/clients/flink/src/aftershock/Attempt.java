package aftershock;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * An attempt of a subtask in a task manager: an incarnation of the client, with separate tables.
 *
 * <p>It is connected to the program of the job, from which it has its incarnation. It reports its progress there, and
 * receives the orders. The task has a thread; a second one writes the rows that wait, and ends with the task.
 */
final class Attempt {
    private static final ThreadLocal<Attempt> OF_TASK = new ThreadLocal<>();
    private static final double NAP_S = 0.02;

    final FlinkJob job;
    private final Thread task = Thread.currentThread();
    private final Socket socket;
    private final BufferedReader orders;
    private final Channel channel;
    private final Lifecycle lifecycle;
    private volatile boolean closed;

    /** Opens an attempt in the thread of its task. */
    Attempt(AttemptLink link, int subtask) throws IOException {
        socket = new Socket(InetAddress.getLoopbackAddress(), link.port());
        orders = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        OutputStream out = socket.getOutputStream();
        channel = new Channel(null, out);
        Map<String, Object> detail = Map.of("subtask", subtask, "task_manager", SessionProcess.name());
        channel.send("attempt", detail);
        String answer = orders.readLine();
        if (answer == null) {
            throw new IOException("the program of the job is gone");
        }
        Map<?, ?> welcome = (Map<?, ?>) Json.parse(answer);
        Spec own = Spec.of(link.spec()).with("incarnation", welcome.get("incarnation"));
        FlinkSettings settings = new FlinkSettings(own);
        lifecycle = new Lifecycle(own, channel, "consumer");
        job = new FlinkJob(own, channel, settings, subtask);
        lifecycle.event("started", detail);
        OF_TASK.set(this);
        start("orders", this::receive);
        start("rows", this::write);
    }

    /** Returns the attempt that runs in this thread; null outside of the task of one. */
    static Attempt current() {
        return OF_TASK.get();
    }

    private void start(String name, Runnable work) {
        Thread thread = new Thread(work, name + " of " + job.spec.writer(job.spec.incarnation()));
        thread.setDaemon(true);
        thread.start();
    }

    private void receive() {
        try {
            for (String line; (line = orders.readLine()) != null; ) {
                channel.obey((Map<?, ?>) Json.parse(line));
            }
        } catch (IOException e) {
            Log.line("orders cannot be read: " + e);
        }
        channel.orphaned = true;
    }

    /** Writes until the task ends. One that ends without `close` has crashed. */
    private void write() {
        try {
            while (!closed && task.isAlive()) {
                Clock.sleep(NAP_S);
                synchronized (this) {
                    if (!closed) {
                        job.flush();
                        if (channel.progressDue()) {
                            job.progress();
                        }
                    }
                }
            }
        } finally {
            disconnect();
        }
    }

    /** Writes what is left. The task ends, by an order of Flink or because it failed. */
    synchronized void close() {
        if (!closed) {
            closed = true;
            job.close();
            lifecycle.event("stopped", Map.of());
            disconnect();
        }
    }

    private void disconnect() {
        try {
            socket.close();
        } catch (IOException e) {
            Log.line("the connection cannot be closed: " + e);
        }
    }
}
