package aftershock;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A Flink job that writes with KafkaSink: exactly once if the spec has transactions, else at least once.
 *
 * <p>A later incarnation restores the last complete checkpoint: it writes the records after it again, and with
 * transactions it first commits the checkpoint's transactions and aborts later ones. The order to stop ends the job with a
 * savepoint, after which everything is written and committed.
 */
final class FlinkProducer implements Client {
    private static final double NAP_S = 0.02;

    private final Spec spec;
    private final Channel channel;
    private final FlinkSettings settings;
    private final KafkaSink<ProducerRecord<byte[], byte[]>> sink;
    private final FlinkSends sends;
    private final Path checkpoints;

    FlinkProducer(Spec spec, Channel channel) throws IOException {
        this.spec = spec;
        this.channel = channel;
        settings = new FlinkSettings(spec);
        if (settings.parallelism() != 1) {
            throw new IllegalArgumentException("parallelism.default: a producer is one subtask; use count for more");
        }
        sink = sink();
        sends = new FlinkSends(spec, channel);
        checkpoints = FlinkRun.checkpoints(spec);
    }

    /** Passes records on as they are. */
    public static final class Whole implements KafkaRecordSerializationSchema<ProducerRecord<byte[], byte[]>> {
        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                ProducerRecord<byte[], byte[]> record, KafkaSinkContext context, Long timestamp) {
            return record;
        }
    }

    @Override
    public boolean run() throws Exception {
        String restored = spec.flag("restore") ? FlinkRun.lastCheckpoint(checkpoints) : null;
        long first = restored == null ? spec.number("first_seq") : 0;
        JobClient client = first < spec.number("records") ? start(first, restored) : null;
        FlinkRun run = client == null ? null : new FlinkRun(client);
        boolean done = run == null;
        boolean complete;
        try {
            while (!channel.stopping) {
                Clock.sleep(NAP_S);
                done = done || run.finished();
                if (channel.progressDue()) {
                    sends.progress(done);
                }
            }
            if (!done) {
                run.stopWithSavepoint(checkpoints, true, spec.seconds("stop_within_s"));
            }
        } finally {
            complete = sends.close();
            sends.progress(complete);
        }
        return complete;
    }

    private JobClient start(long first, String restored) throws Exception {
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(1, settings.flink(checkpoints, restored));
        environment.getConfig().enableObjectReuse(); // records pass through the chain as they are
        environment
                .fromSequence(first, spec.number("records") - 1)
                .uid("sequence")
                .map(new PaceOperator())
                .uid("pace")
                .map(new SendOperator())
                .startNewChain()
                .returns(TypeInformation.of(new TypeHint<ProducerRecord<byte[], byte[]>>() {}))
                .uid("ledger")
                .sinkTo(sink)
                .uid("kafka");
        return environment.executeAsync(spec.client());
    }

    private KafkaSink<ProducerRecord<byte[], byte[]>> sink() throws IOException {
        Properties properties = settings.producer();
        KafkaSinkBuilder<ProducerRecord<byte[], byte[]>> builder = KafkaSink.builder();
        builder.setBootstrapServers(spec.text("bootstrap"))
                .setKafkaProducerConfig(properties)
                .setRecordSerializer(new Whole())
                .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE);
        if (spec.has("transactions")) {
            builder.setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                    .setTransactionalIdPrefix(spec.part("transactions").text("id"));
        }
        return builder.build();
    }
}
