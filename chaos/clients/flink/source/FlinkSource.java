package aftershock;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;

/** The source of a job: KafkaSource. */
final class FlinkSource {
    private FlinkSource() {}

    /** Passes records on as they are. */
    public static final class Whole implements KafkaRecordDeserializationSchema<ConsumerRecord<byte[], byte[]>> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<ConsumerRecord<byte[], byte[]>> out) {
            out.collect(record);
        }

        @Override
        public TypeInformation<ConsumerRecord<byte[], byte[]>> getProducedType() {
            return TypeInformation.of(new TypeHint<ConsumerRecord<byte[], byte[]>>() {});
        }
    }

    /**
     * Adds the source to a job.
     *
     * @param restores whether the job restores a checkpoint, which only FlinkKafkaConsumer has to know
     * @param link to the program of a job in a session cluster, else null
     */
    @SuppressWarnings("deprecation")
    static DataStream<ConsumerRecord<byte[], byte[]>> add(
            StreamExecutionEnvironment environment,
            Spec spec,
            FlinkSettings settings,
            boolean restores,
            AttemptLink link)
            throws IOException {
        Properties properties = settings.listened();
        Long discoverMs = settings.discoverMs();
        properties.put("partition.discovery.interval.ms", discoverMs == null ? "-1" : discoverMs.toString());
        properties.put("commit.offsets.on.checkpoint", String.valueOf(settings.commits()));
        properties.put("client.id.prefix", spec.client());
        KafkaSourceBuilder<ConsumerRecord<byte[], byte[]>> builder = KafkaSource.builder();
        KafkaSource<ConsumerRecord<byte[], byte[]>> source = builder.setProperties(properties)
                .setTopics(spec.texts("topics"))
                .setStartingOffsets(starts(spec, restores, OffsetResetStrategy.valueOf(settings.reset().toUpperCase())))
                .setDeserializer(new Whole())
                .build();
        return environment.fromSource(new SeenSource(source, link), WatermarkStrategy.noWatermarks(), "kafka")
                .uid("kafka");
    }

    /** Returns where the source starts without a checkpoint of its job; it looks that up itself. */
    @SuppressWarnings("deprecation")
    private static OffsetsInitializer starts(Spec spec, boolean restores, OffsetResetStrategy reset) {
        Map<String, Object> kept = spec.map("checkpoint"); // offsets that the fleet kept for a job without state
        if (!restores && !kept.isEmpty()) {
            return at(kept);
        }
        return switch (spec.text("start")) {
            case "earliest" -> OffsetsInitializer.earliest();
            case "latest" -> OffsetsInitializer.latest();
            case "group" -> OffsetsInitializer.committedOffsets(reset);
            case "timestamp" -> OffsetsInitializer.timestamp(spec.number("timestamp_ms"));
            default -> at(spec.map("offsets"));
        };
    }

    /** Returns the given offsets; other partitions start at their beginning. */
    @SuppressWarnings("deprecation")
    private static OffsetsInitializer at(Map<String, Object> given) {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        given.forEach((name, offset) -> offsets.put(Assignments.parse(name), ((Number) offset).longValue()));
        return OffsetsInitializer.offsets(offsets, OffsetResetStrategy.EARLIEST);
    }
}
