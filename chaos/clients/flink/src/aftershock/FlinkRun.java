package aftershock;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;

/** What all jobs need: the folder of their checkpoints, the last one of it, and whether the job has ended. */
final class FlinkRun {
    private static final double NAP_S = 0.02;

    private final JobClient client;
    private final CompletableFuture<JobExecutionResult> result;

    /** Asks for the result at once, because the mini cluster ends with its job. */
    FlinkRun(JobClient client) {
        this.client = client;
        result = client.getJobExecutionResult();
    }

    /** Returns the folder for the checkpoints of all incarnations of a client. */
    static Path checkpoints(Spec spec) {
        return Path.of(spec.text("ledger"))
                .toAbsolutePath()
                .resolveSibling("clients")
                .resolve(spec.client().replace('/', '-') + ".checkpoints");
    }

    /**
     * Returns the last complete checkpoint or savepoint of earlier incarnations; null without one.
     *
     * <p>A savepoint has no number in its name, so the time of the metadata decides, which is written last.
     */
    static String lastCheckpoint(Path checkpoints) throws IOException {
        if (!Files.isDirectory(checkpoints)) {
            return null;
        }
        Path last = null;
        FileTime lastTime = null;
        try (Stream<Path> all = Files.walk(checkpoints)) {
            for (Path path : (Iterable<Path>) all.filter(path -> path.endsWith("_metadata"))::iterator) {
                FileTime time = Files.getLastModifiedTime(path);
                if (lastTime == null || time.compareTo(lastTime) > 0) {
                    last = path.getParent();
                    lastTime = time;
                }
            }
        }
        return last == null ? null : last.toUri().toString();
    }

    /** Takes a savepoint and ends the job with it; waits until it has ended, or the time is over. */
    void stopWithSavepoint(Path checkpoints, boolean drain, double limitS) throws InterruptedException {
        double limit = Clock.monotonic() + limitS;
        try {
            client.stopWithSavepoint(drain, checkpoints.toUri().toString(), SavepointFormatType.CANONICAL);
        } catch (IllegalStateException e) { // the mini cluster has ended with its job
            Log.line("the job is not stopped: " + Outcomes.describe(e));
        }
        while (!finished() && Clock.monotonic() < limit) {
            Clock.sleep(NAP_S);
        }
    }

    /** Waits until the job has ended in any way, or the time is over. */
    void awaitEnd(double limitS) {
        double limit = Clock.monotonic() + limitS;
        while (!result.isDone() && Clock.monotonic() < limit) {
            Clock.sleep(NAP_S);
        }
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
