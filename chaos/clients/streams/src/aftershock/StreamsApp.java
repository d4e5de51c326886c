package aftershock;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * The Kafka Streams application of a process: one instance with one stream thread for each client of the process.
 *
 * <p>It starts when every client is there, and closes when each of them is ordered to stop. An exception of a stream
 * thread shuts the instance down, as by default.
 */
final class StreamsApp {
    private static final Pattern THREAD = Pattern.compile("-StreamThread-(\\d+)(-|$)");

    private final List<String> clients;
    private final Map<Integer, StreamThreadLog> members = new ConcurrentHashMap<>();
    private final KafkaStreams streams;
    private final Duration closeWithin;
    private final CountDownLatch stopping;
    private final CountDownLatch closed = new CountDownLatch(1);
    private int absent;
    private volatile boolean failed;

    StreamsApp(Spec spec) throws IOException {
        boolean several = spec.has("threads") && !spec.texts("threads").isEmpty();
        clients = several ? spec.texts("threads") : List.of(spec.client());
        stopping = new CountDownLatch(clients.size());
        absent = clients.size();
        closeWithin = Duration.ofMillis((long) (spec.seconds("stop_within_s") * 1000));
        StreamsSettings settings = new StreamsSettings(spec, clients.size());
        streams = new KafkaStreams(
                Transform.topology(spec, settings.keepsStateInMemory(), this),
                settings.properties(),
                new RecordingClients(this, spec.text("topic")));
        streams.setStateListener((now, before) -> Log.line("the instance is " + now + ", was " + before));
        streams.setGlobalStateRestoreListener(new RestoreLog());
        streams.setUncaughtExceptionHandler(this::report);
    }

    void add(StreamThreadLog member) {
        members.put(clients.indexOf(member.spec.client()) + 1, member);
    }

    /** Starts the instance when every client called this. */
    synchronized void start() {
        if (--absent == 0) {
            streams.start();
        }
    }

    /** Returns the client of a stream thread by a name that contains its number: of the thread, or a client.id. */
    StreamThreadLog member(String name) {
        Matcher number = THREAD.matcher(name);
        StreamThreadLog member = number.find() ? members.get(Integer.valueOf(number.group(1))) : null;
        if (member == null) {
            throw new IllegalStateException(name + " is no stream thread of " + clients);
        }
        return member;
    }

    private StreamThreadExceptionResponse report(Throwable error) {
        failed = true;
        Throwable cause = error.getCause() == null ? error : error.getCause();
        String text = Outcomes.describe(error) + (cause == error ? "" : ": " + Outcomes.describe(cause));
        member(Thread.currentThread().getName()).lifecycle.error(text, true);
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    }

    /** Returns whether an exception ended the instance. */
    boolean hasFailed() {
        return failed;
    }

    /** Closes the instance when every client called this, and waits for that. Returns whether it closed in order. */
    boolean close() {
        stopping.countDown();
        try {
            if (failed || stopping.getCount() == 0) {
                closeOnce();
            }
            closed.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return !failed;
    }

    private synchronized void closeOnce() {
        if (closed.getCount() > 0) {
            if (!streams.close(closeWithin)) {
                failed = true;
                Log.line("the instance did not close within " + closeWithin);
            }
            closed.countDown();
        }
    }
}
