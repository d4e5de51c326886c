package aftershock;

import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;

/** The settings of a query: those of Spark, the options of its Kafka source, and with the prefix kafka. its consumers. */
final class SparkSettings {
    private static final String KAFKA = "kafka.";
    private static final Set<String> OPTIONS = Set.of(
            "failOnDataLoss",
            "maxOffsetsPerTrigger",
            "minOffsetsPerTrigger",
            "maxTriggerDelay",
            "minPartitions",
            "maxRecordsPerPartition",
            "kafkaConsumer.pollTimeoutMs",
            "fetchOffset.numRetries",
            "fetchOffset.retryIntervalMs",
            "startingOffsetsByTimestampStrategy");

    final Map<String, String> spark = new HashMap<>();
    final Map<String, String> options = new HashMap<>();
    final Properties kafka;

    SparkSettings(Spec spec) throws IOException {
        Map<String, Object> consumer = new LinkedHashMap<>();
        spec.map("config").forEach((name, value) -> {
            if (name.startsWith(KAFKA)) {
                consumer.put(name.substring(KAFKA.length()), value);
            } else if (name.startsWith("spark.")) {
                spark.put(name, String.valueOf(value));
            } else if (OPTIONS.contains(name)) {
                options.put(name, String.valueOf(value));
            } else {
                throw new IllegalArgumentException("the Kafka source of Spark has no option " + name);
            }
        });
        kafka = Settings.of(spec, consumer, ConsumerConfig.configNames());
        if (spec.has("group")) {
            kafka.put("group.id", spec.text("group"));
        }
        kafka.forEach((name, value) -> options.put(KAFKA + name, String.valueOf(value)));
        options.put("subscribe", String.join(",", spec.texts("topics")));
        options.putIfAbsent("startingOffsetsByTimestampStrategy", "latest");
    }

    /** Starts at given offsets, one for every partition. */
    void startAt(Map<TopicPartition, Assignments.Start> starts) {
        Map<String, Map<String, Long>> offsets = new TreeMap<>();
        starts.forEach((partition, start) -> offsets
                .computeIfAbsent(partition.topic(), topic -> new TreeMap<>())
                .put(String.valueOf(partition.partition()), start.offset()));
        options.put("startingOffsets", Json.text(offsets));
    }
}
