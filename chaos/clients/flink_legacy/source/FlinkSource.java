package aftershock;

import java.io.IOException;
import java.lang.reflect.Field;
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
import org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartitionState;
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
     * The consumer of the application, which records where it begins. It has the offset before the next record, or a mark,
     * which the thread of its Kafka consumer resolves.
     */
    public static final class Reader extends FlinkKafkaConsumer<ConsumerRecord<byte[], byte[]>> {
        private final boolean restores;

        Reader(List<String> topics, Properties properties, boolean restores) {
            super(topics, new Whole(), properties);
            this.restores = restores;
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
            Map<KafkaTopicPartition, Long> given = Map.copyOf(starts);
            AbstractFetcher<ConsumerRecord<byte[], byte[]>, ?> fetcher =
                    super.createFetcher(context, starts, watermarks, runtime, commits, metrics, useMetrics);
            FlinkJob job = FlinkJob.current();
            given.forEach((one, before) -> {
                TopicPartition partition = new TopicPartition(one.getTopic(), one.getPartition());
                // at a restore, it marks the partitions so that are not in the checkpoint
                boolean restored = restores && before != KafkaTopicPartitionStateSentinel.EARLIEST_OFFSET;
                job.given(partition, isMark(before) ? before : before + 1, restored, () -> position(fetcher, one));
            });
            return fetcher;
        }

        /** Returns whether an offset is a mark; -1 is the one before the first record. */
        private static boolean isMark(long before) {
            return before < -1;
        }

        /** Returns the position in a partition; null as long as it is a mark. */
        private static Long position(AbstractFetcher<?, ?> fetcher, KafkaTopicPartition partition) {
            try {
                Field field = AbstractFetcher.class.getDeclaredField("subscribedPartitionStates");
                field.setAccessible(true);
                for (Object state : (List<?>) field.get(fetcher)) {
                    KafkaTopicPartitionState<?, ?> one = (KafkaTopicPartitionState<?, ?>) state;
                    if (one.getKafkaTopicPartition().equals(partition) && !isMark(one.getOffset())) {
                        return one.getOffset() + 1;
                    }
                }
                return null;
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** Adds the source to a job. restores: whether the job restores a checkpoint. link: null. */
    static DataStream<ConsumerRecord<byte[], byte[]>> add(
            StreamExecutionEnvironment environment,
            Spec spec,
            FlinkSettings settings,
            boolean restores,
            AttemptLink link)
            throws IOException {
        Properties properties = settings.listened();
        Long discoverMs = settings.discoverMs();
        if (discoverMs != null) {
            properties.put("flink.partition-discovery.interval-millis", discoverMs.toString());
        }
        properties.putIfAbsent("group.id", "aftershock-none-" + spec.client().replace('/', '-')); // it needs one
        Reader source = new Reader(spec.texts("topics"), properties, restores);
        startFrom(source, spec, restores);
        source.setCommitOffsetsOnCheckpoints(settings.commits());
        return environment.addSource(source, "kafka").uid("kafka");
    }

    /** Says where the source starts without a checkpoint of its job; it looks that up itself. */
    private static void startFrom(Reader source, Spec spec, boolean restores) {
        Map<String, Object> kept = spec.map("checkpoint"); // offsets that the fleet kept for a job without state
        if (!restores && !kept.isEmpty()) {
            source.setStartFromSpecificOffsets(at(kept));
            return;
        }
        switch (spec.text("start")) {
            case "earliest" -> source.setStartFromEarliest();
            case "latest" -> source.setStartFromLatest();
            case "group" -> source.setStartFromGroupOffsets();
            case "timestamp" -> source.setStartFromTimestamp(spec.number("timestamp_ms"));
            default -> source.setStartFromSpecificOffsets(at(spec.map("offsets")));
        }
    }

    private static Map<KafkaTopicPartition, Long> at(Map<String, Object> given) {
        Map<KafkaTopicPartition, Long> offsets = new HashMap<>();
        given.forEach((name, offset) -> {
            TopicPartition partition = Assignments.parse(name);
            offsets.put(
                    new KafkaTopicPartition(partition.topic(), partition.partition()), ((Number) offset).longValue());
        });
        return offsets;
    }
}
