package aftershock;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/** The settings of a query: of Spark, of its Kafka source, and, with the prefix kafka., of its consumers. */
final class SparkSettings {
    private static final String KAFKA = "kafka.";
    /** Tasks wait more than they compute: at the end of a partition, one waits for fetch.max.wait.ms. */
    private static final String MASTER = "local[4]";
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

    /** Returns a local Spark that keeps its files in a directory. */
    static SparkSession session(String name, Path directory, Map<String, String> settings) {
        SparkSession.Builder builder = SparkSession.builder()
                .master(MASTER)
                .appName(name)
                .config("spark.ui.enabled", "false")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.sql.codegen.wholeStage", "false") // compiling takes longer than it saves here
                // an adaptive plan would hide the scans from SparkPlans
                .config("spark.sql.adaptive.streaming.stateless.enabled", "false")
                .config("spark.local.dir", directory.toString())
                .config("spark.sql.warehouse.dir", directory.toString());
        settings.forEach(builder::config);
        SparkSession spark = builder.getOrCreate();
        spark.sparkContext().setLogLevel("WARN");
        return spark;
    }

    /** Starts a query that passes a batch of rows to a function at an interval. */
    static StreamingQuery start(
            Dataset<Row> rows, VoidFunction2<Dataset<Row>, Long> each, Path checkpoints, double everyS)
            throws TimeoutException {
        return rows.writeStream()
                .foreachBatch(each)
                .option("checkpointLocation", checkpoints.toUri().toString())
                .trigger(Trigger.ProcessingTime(Math.round(everyS * 1000), TimeUnit.MILLISECONDS))
                .start();
    }
}
