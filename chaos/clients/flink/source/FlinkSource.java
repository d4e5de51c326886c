package aftershock;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
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
     * @param starts where it starts unless it restores a checkpoint
     * @param link to the program of a job in a session cluster, else null
     */
    @SuppressWarnings("deprecation")
    static DataStream<ConsumerRecord<byte[], byte[]>> add(
            StreamExecutionEnvironment environment,
            Spec spec,
            FlinkSettings settings,
            Map<TopicPartition, Assignments.Start> starts,
            AttemptLink link)
            throws IOException {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        starts.forEach((partition, start) -> offsets.put(partition, start.offset()));
        Properties properties = settings.listened();
        Long discoverMs = settings.discoverMs();
        properties.put("partition.discovery.interval.ms", discoverMs == null ? "-1" : discoverMs.toString());
        properties.put("commit.offsets.on.checkpoint", String.valueOf(settings.commits()));
        properties.put("client.id.prefix", spec.client());
        KafkaSourceBuilder<ConsumerRecord<byte[], byte[]>> builder = KafkaSource.builder();
        Source<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit, KafkaSourceEnumState> source = builder.setProperties(properties)
                .setTopics(spec.texts("topics"))
                .setStartingOffsets(
                        OffsetsInitializer.offsets(offsets, OffsetResetStrategy.valueOf(settings.reset().toUpperCase())))
                .setDeserializer(new Whole())
                .build();
        if (link != null) {
            source = new SessionSource(source, link);
        }
        return environment.fromSource(source, WatermarkStrategy.noWatermarks(), "kafka").uid("kafka");
    }
}
