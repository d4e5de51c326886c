package aftershock;

import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.streams.KafkaStreams;

/** Runs a Kafka Streams application as a client. Without an argument, prints the release of Kafka Streams. */
public final class StreamsMain {
    private static StreamsApp app;

    private StreamsMain() {}

    /** Runs a client. The exit code is 0 only after a clean stop. */
    public static void main(String[] argv) throws IOException {
        String release = release();
        if (argv.length == 0) {
            System.out.println(release);
            return;
        }
        Main.run(argv[0], StreamsMain::build, Map.of("kafka_streams", release));
    }

    private static String release() throws IOException {
        Properties about = new Properties();
        try (InputStream in = KafkaStreams.class.getResourceAsStream("/kafka/kafka-streams-version.properties")) {
            about.load(in);
        }
        return about.getProperty("version").trim();
    }

    /** Makes the client of a spec: a stream thread of the one application of the process. */
    private static synchronized Client build(String program, Spec spec, Channel channel, Lifecycle lifecycle)
            throws IOException {
        if (!program.equals("processor")) {
            throw new IllegalArgumentException(
                    "there is no program " + program + ": a Kafka Streams application reads and writes");
        }
        if (app == null) {
            app = new StreamsApp(spec);
        }
        StreamThreadLog member = new StreamThreadLog(spec, channel, lifecycle, app);
        app.add(member);
        return member;
    }
}
