package aftershock;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.SourceFunction;
import org.apache.flink.streaming.api.operators.StreamingRuntimeContext;
import org.apache.flink.streaming.connectors.kafka.FlinkKafkaConsumer;
import org.apache.flink.streaming.connectors.kafka.KafkaDeserializationSchema;
import org.apache.flink.streaming.connectors.kafka.config.OffsetCommitMode;
import org.apache.flink.streaming.connectors.kafka.internals.AbstractFetcher;
import org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition;
import org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartitionStateSentinel;
import org.apache.flink.util.SerializedValue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** The source of a job: FlinkKafkaConsumer, which connectors for Flink 2 no longer have. */
@SuppressWarnings("deprecation")
final class FlinkSource {
    private FlinkSource() {}

    /** Passes records on as they are. */
    public static final class Whole implements KafkaDeserializationSchema<ConsumerRecord<byte[], byte[]>> {
        @Override
        public boolean isEndOfStream(ConsumerRecord<byte[], byte[]> record) {
            return false;
        }

        @Override
        public ConsumerRecord<byte[], byte[]> deserialize(ConsumerRecord<byte[], byte[]> record) {
            return record;
        }

        @Override
        public TypeInformation<ConsumerRecord<byte[], byte[]>> getProducedType() {
            return TypeInformation.of(new TypeHint<ConsumerRecord<byte[], byte[]>>() {});
        }
    }

    /**
     * The consumer of the application, except for a start at offset 0, which is replaced by its own mark for the earliest
     * offset: it keeps the offset before the start, and a commit of -1 before the first record would fail the job.
     */
    public static final class Reader extends FlinkKafkaConsumer<ConsumerRecord<byte[], byte[]>> {
        Reader(List<String> topics, Properties properties) {
            super(topics, new Whole(), properties);
        }

        @Override
        protected AbstractFetcher<ConsumerRecord<byte[], byte[]>, ?> createFetcher(
                SourceFunction.SourceContext<ConsumerRecord<byte[], byte[]>> context,
                Map<KafkaTopicPartition, Long> starts,
                SerializedValue<WatermarkStrategy<ConsumerRecord<byte[], byte[]>>> watermarks,
                StreamingRuntimeContext runtime,
                OffsetCommitMode commits,
                MetricGroup metrics,
                boolean useMetrics)
                throws Exception {
            starts.replaceAll((partition, before) ->
                    before == -1 ? KafkaTopicPartitionStateSentinel.EARLIEST_OFFSET : before);
            return super.createFetcher(context, starts, watermarks, runtime, commits, metrics, useMetrics);
        }
    }

    /** Adds the source to a job. starts: where it starts unless it restores a checkpoint. link: null. */
    static DataStream<ConsumerRecord<byte[], byte[]>> add(
            StreamExecutionEnvironment environment,
            Spec spec,
            FlinkSettings settings,
            Map<TopicPartition, Assignments.Start> starts,
            AttemptLink link)
            throws IOException {
        Map<KafkaTopicPartition, Long> offsets = new HashMap<>();
        starts.forEach((partition, start) ->
                offsets.put(new KafkaTopicPartition(partition.topic(), partition.partition()), start.offset()));
        Properties properties = settings.listened();
        Long discoverMs = settings.discoverMs();
        if (discoverMs != null) {
            properties.put("flink.partition-discovery.interval-millis", discoverMs.toString());
        }
        properties.putIfAbsent("group.id", "aftershock-none-" + spec.client().replace('/', '-')); // it needs one
        Reader source = new Reader(spec.texts("topics"), properties);
        source.setStartFromSpecificOffsets(offsets);
        source.setCommitOffsetsOnCheckpoints(settings.commits());
        return environment.addSource(source, "kafka").uid("kafka");
    }
}
