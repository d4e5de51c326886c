package aftershock;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.core.execution.JobClient;

/** What all jobs need: the folder of their checkpoints, the last one of it, and whether the job has ended. */
final class FlinkRun {
    private final CompletableFuture<JobExecutionResult> result;

    /** Asks for the result at once, because the mini cluster ends with its job. */
    FlinkRun(JobClient client) {
        result = client.getJobExecutionResult();
    }

    /** Returns the folder for the checkpoints of all incarnations of a client. */
    static Path checkpoints(Spec spec) {
        return Path.of(spec.text("ledger"))
                .toAbsolutePath()
                .resolveSibling("clients")
                .resolve(spec.client().replace('/', '-') + ".checkpoints");
    }

    /** Returns the newest complete checkpoint of earlier incarnations; null without one. Its number grows over them. */
    static String lastCheckpoint(Path checkpoints) throws IOException {
        if (!Files.isDirectory(checkpoints)) {
            return null;
        }
        try (Stream<Path> all = Files.walk(checkpoints)) {
            return all.filter(path -> path.endsWith("_metadata"))
                    .map(Path::getParent)
                    .max(Comparator.comparingLong(FlinkRun::number))
                    .map(path -> path.toUri().toString())
                    .orElse(null);
        }
    }

    private static long number(Path checkpoint) {
        return Long.parseLong(checkpoint.getFileName().toString().replace("chk-", ""));
    }

    /** Returns whether the job has finished. Throws why it ended otherwise. */
    boolean finished() throws InterruptedException {
        if (!result.isDone()) {
            return false;
        }
        try {
            result.get();
            return true;
        } catch (ExecutionException e) {
            Throwable cause = e;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            throw new IllegalStateException("the job failed: " + cause, e);
        }
    }
}
