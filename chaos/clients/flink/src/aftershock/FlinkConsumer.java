package aftershock;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A Flink job that reads topics without membership.
 *
 * <p>A later incarnation restores the last complete checkpoint or savepoint if its spec says so. Without one, the job starts at offsets
 * that it looks up first, so that they are on record. (With Flink's own `earliest()`, `latest()` and `committedOffsets()`,
 * its readers look them up, and do so again at a restore if there was no record before the checkpoint.)
 */
final class FlinkConsumer implements Client {
    private static final double NAP_S = 0.02;
    /** Longest wait for a savepoint; the platform gives up at `limits.clients`. */
    private static final double SAVEPOINT_S = 120;
    private static final double END_S = 30;

    private final Spec spec;
    private final Channel channel;
    private final Speed speed;
    private final FlinkSettings settings;
    private final Starts starts;
    private final Attempts attempts;
    private final JobRows rows;
    private final Path checkpoints;

    FlinkConsumer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        this.spec = spec;
        this.channel = channel;
        speed = new Speed(channel, lifecycle);
        settings = new FlinkSettings(spec);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        starts = new Starts(spec, new KafkaConsumer<>(settings.kafka(), bytes, bytes), channel);
        attempts = spec.has("session") ? new Attempts(spec, channel, lifecycle) : null;
        rows = attempts == null ? FlinkJob.ofProcess(spec, channel, starts, settings.commits()) : attempts;
        checkpoints = FlinkRun.checkpoints(spec);
    }

    @Override
    public boolean run() throws Exception {
        String restored = spec.flag("restore") ? FlinkRun.lastCheckpoint(checkpoints) : null;
        Map<TopicPartition, Assignments.Start> found = restored == null ? starts.find() : Map.of();
        if (found == null) {
            return true; // the order to stop came first
        }
        rows.begin(found);
        StreamExecutionEnvironment environment = environment(settings.flink(checkpoints, restored));
        environment.getConfig().enableObjectReuse(); // records pass through the chain as they are
        FlinkSource.add(environment, spec, settings, found, attempts == null ? null : attempts.link(found))
                .flatMap(new LedgerOperator())
                .returns(Types.VOID)
                .uid("ledger")
                .sinkTo(new DiscardingSink<>())
                .uid("end");
        JobClient client = environment.executeAsync(spec.client());
        FlinkRun run = new FlinkRun(client);
        supervise(run);
        if (spec.flag("savepoint")) {
            run.stopWithSavepoint(checkpoints, false, SAVEPOINT_S);
        } else {
            client.cancel().get();
            run.awaitEnd(END_S);
        }
        rows.close();
        return true;
    }

    private StreamExecutionEnvironment environment(Configuration configuration) {
        if (attempts == null) {
            return StreamExecutionEnvironment.createLocalEnvironment(settings.parallelism(), configuration);
        }
        URI cluster = URI.create("http://" + spec.text("session"));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createRemoteEnvironment(
                cluster.getHost(), cluster.getPort(), configuration);
        environment.setParallelism(settings.parallelism());
        return environment;
    }

    private void supervise(FlinkRun run) throws Exception {
        while (!channel.stopping) {
            Clock.sleep(NAP_S);
            rows.flush();
            speed.apply();
            if (channel.progressDue()) {
                rows.progress();
            }
            if (run.finished()) {
                throw new IllegalStateException("the job ended by itself");
            }
        }
    }
}
