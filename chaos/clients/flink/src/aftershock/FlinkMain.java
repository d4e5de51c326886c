package aftershock;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.flink.runtime.util.EnvironmentInformation;

/**
 * Runs a Flink job as a client: mini cluster, job and ledger in one JVM, or a job of a session cluster. Without an argument,
 * prints Flink's release.
 */
public final class FlinkMain {
    private FlinkMain() {}

    /** Runs a client. The exit code is 0 only after a clean stop. */
    public static void main(String[] argv) throws Exception {
        if (argv.length == 0) {
            System.out.println(EnvironmentInformation.getVersion());
            return;
        }
        // before any class of Flink reads it; the platform removes the folder, because a killed process cannot
        Path temporary = Path.of(argv[argv.length > 1 ? 1 : 0] + ".tmp").toAbsolutePath();
        System.setProperty("java.io.tmpdir", Files.createDirectories(temporary).toString());
        if (argv.length > 1) {
            SessionProcess.main(argv);
            return;
        }
        Main.run(argv[0], FlinkMain::build, Map.of("flink", EnvironmentInformation.getVersion()));
    }

    private static Client build(String program, Spec spec, Channel channel, Lifecycle lifecycle) throws Exception {
        return switch (program) {
            case "assign_consumer" -> new FlinkConsumer(spec, channel, lifecycle);
            case "producer" -> new FlinkProducer(spec, channel);
            default -> throw new IllegalArgumentException(
                    "there is no program " + program + ": a Flink job reads with assigned partitions, or writes");
        };
    }
}
