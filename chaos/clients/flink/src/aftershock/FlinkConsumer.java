package aftershock;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A Flink job that reads topics without membership.
 *
 * <p>A later incarnation restores the last complete checkpoint or savepoint if its spec says so. The source looks its
 * start offsets up itself, at the start and, for a mark in a checkpoint, again at the restore (FLINK-28303). The program
 * only waits for an offset or a time in the future, and records what the source found.
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
    private final Attempts attempts;
    private final JobRows rows;
    private final Path checkpoints;

    FlinkConsumer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        this.spec = spec;
        this.channel = channel;
        speed = new Speed(channel, lifecycle);
        settings = new FlinkSettings(spec);
        settings.kafka(); // refuses what no consumer knows, before a cluster starts
        attempts = spec.has("session") ? new Attempts(spec, channel, lifecycle) : null;
        rows = attempts == null ? FlinkJob.ofProcess(spec, channel, settings) : attempts;
        checkpoints = FlinkRun.checkpoints(spec);
    }

    @Override
    public boolean run() throws Exception {
        String restored = spec.flag("restore") ? FlinkRun.lastCheckpoint(checkpoints) : null;
        if (restored == null) {
            awaitStart();
        }
        StreamExecutionEnvironment environment = environment(settings.flink(checkpoints, restored));
        environment.getConfig().enableObjectReuse(); // records pass through the chain as they are
        FlinkSource.add(environment, spec, settings, restored != null, attempts == null ? null : attempts.link())
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

    /** Waits for a start in the future, as far as the order to stop does not come first. */
    private void awaitStart() throws IOException {
        boolean offsets = !spec.map("offsets").isEmpty();
        if (offsets || spec.text("start").equals("timestamp")) {
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings.kafka(), bytes, bytes)) {
                new Starts(spec, consumer, channel).find();
            }
        }
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
