package aftershock;

import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * A streaming query that reads topics without membership.
 *
 * <p>With `checkpoint_every_s`, a batch starts at that interval, and the query continues from its checkpoint location.
 * Without it, offsets are stored with the results, and each incarnation is a new query that starts at these offsets.
 */
final class SparkConsumer implements Client {
    private static final double NAP_S = 0.01;
    /** Time between two batches of a query without an interval. */
    private static final double BATCH_EVERY_S = 0.1;

    private final Spec spec;
    private final Channel channel;
    private final Lifecycle lifecycle;
    private final SparkSettings settings;
    private final Assignments assignments;
    private final Speed speed;
    private final SparkSink sink;
    private final SparkCheckpoints checkpoints;
    private final boolean stored;
    private final boolean restored;
    private boolean begun;
    private long complete;

    SparkConsumer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.lifecycle = lifecycle;
        stored = spec.has("checkpoint_every_s");
        settings = new SparkSettings(spec);
        speed = new Speed(channel, lifecycle);
        assignments = new Assignments(spec, Map.of(), "assign");
        sink = new SparkSink(spec, channel, assignments);
        boolean again = stored && (spec.flag("restore") || spec.incarnation() == 1);
        checkpoints = new SparkCheckpoints(Path.of(spec.text("ledger"))
                .toAbsolutePath()
                .resolveSibling("clients")
                .resolve(spec.client().replace('/', '-') + (again ? "" : "." + spec.incarnation()) + ".checkpoints"));
        complete = checkpoints.lastComplete();
        restored = checkpoints.end(complete) != null;
    }

    @Override
    public boolean run() throws Exception {
        if (restored) {
            Log.line("the last complete batch is " + complete + ", the last planned one " + checkpoints.lastPlanned());
        } else if (!chooseStart()) {
            return true; // the order to stop came first
        }
        StreamingQuery query = start();
        boolean failed = supervise(query);
        sink.close(); // stopping interrupts the thread of the query, and an interrupted write closes a ledger file
        query.stop();
        if (!failed) {
            recordComplete();
        }
        progress();
        return true;
    }

    /** Sets the offsets at which a new query starts. Returns false after the order to stop. */
    private boolean chooseStart() throws IOException {
        String start = spec.text("start");
        if (start.equals("offsets") || (!stored && !spec.map("checkpoint").isEmpty())) {
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings.kafka, bytes, bytes)) {
                Map<TopicPartition, Assignments.Start> found = new Starts(spec, consumer, channel).find();
                if (found != null) {
                    settings.startAt(found);
                }
            }
        } else if (start.equals("timestamp")) {
            while (System.currentTimeMillis() <= spec.number("timestamp_ms") && !channel.stopping) {
                Clock.sleep(2 * NAP_S); // a time in the future
            }
            settings.options.put("startingTimestamp", String.valueOf(spec.number("timestamp_ms")));
        } else {
            settings.options.put("startingOffsets", start);
        }
        return !channel.stopping;
    }

    private StreamingQuery start() throws Exception {
        SparkSession spark = SparkSettings.session(spec.client(), Path.of(checkpoints.location + ".tmp"), settings.spark);
        DataStreamReader reader = spark.readStream().format("kafka");
        settings.options.forEach(reader::option);
        double every = stored ? spec.seconds("checkpoint_every_s") : BATCH_EVERY_S;
        VoidFunction2<Dataset<Row>, Long> each = (batch, number) -> {
            synchronized (assignments) {
                sink.requireOpen();
                begin();
                recordComplete();
            }
            sink.write(batch, number, SparkPlans.begins(spark, checkpoints.end(number)));
        };
        return SparkSettings.start(reader.load(), each, checkpoints.location, every);
    }

    /** Watches a query until the order to stop. Returns whether it failed because records were deleted. */
    private boolean supervise(StreamingQuery query) throws Exception {
        boolean failed = false;
        while (!channel.stopping) {
            Clock.sleep(NAP_S);
            speed.apply();
            if (!failed) {
                begin();
                recordComplete();
            }
            if (channel.progressDue()) {
                progress();
            }
            if (!failed && !query.isActive() && !channel.stopping) {
                fail(query);
                failed = true;
            }
        }
        return failed;
    }

    /**
     * Reports why a query ended. With failOnDataLoss, that is how it ends when records are gone; the application goes on
     * without it. Every other reason ends the application.
     */
    private void fail(StreamingQuery query) {
        Throwable cause = query.exception().isDefined() ? query.exception().get() : null;
        Throwable last = cause;
        for (; cause != null; last = cause, cause = cause.getCause()) {
            // KAFKA_DATA_LOSS of Spark (kafka-error-conditions.json) ends with the advice to set failOnDataLoss
            String text = String.valueOf(cause.getMessage()).strip().replaceAll("\\s+", " ");
            if (text.contains("option failOnDataLoss")) {
                String reason = text.replaceFirst("^.* Reason: ", "");
                lifecycle.error("the query failed, as failOnDataLoss is true: " + reason, false);
                return;
            }
        }
        String reason = last == null ? "it ended without a reason" : Outcomes.describe(last);
        throw new IllegalStateException("the query failed: " + reason, last);
    }

    /**
     * Records the assignment, as soon as it is known where the query begins. With idempotent results, it begins after
     * the last record of the checkpoint's next batch that has a result.
     */
    private void begin() throws IOException {
        synchronized (assignments) {
            Map<TopicPartition, Long> offsets = begun ? null : checkpoints.end(complete);
            if (offsets == null) {
                return;
            }
            begun = true;
            Map<TopicPartition, Assignments.Start> starts = new LinkedHashMap<>();
            offsets.forEach((partition, offset) -> {
                boolean resumed = restored || spec.map("checkpoint").containsKey(Assignments.name(partition));
                long first = Math.max(offset, sink.resultsEnd(partition));
                starts.put(partition, new Assignments.Start(first, resumed ? "checkpoint" : "start"));
            });
            assignments.begin("assigned", starts);
        }
        progress();
    }

    /** Records the batches that are complete: from there, the next incarnation continues. */
    private void recordComplete() throws IOException {
        synchronized (assignments) {
            long last = checkpoints.lastComplete();
            if (!begun || last <= complete) {
                return;
            }
            complete = last;
            if (stored) {
                Map<TopicPartition, Long> offsets = checkpoints.end(last);
                offsets.keySet().retainAll(assignments.numbers.keySet());
                assignments.checkpoint(offsets);
            }
        }
    }

    private void progress() {
        Map<String, Object> fields = new LinkedHashMap<>();
        synchronized (assignments) {
            fields.put("delivered", sink.delivered());
            assignments.addProgress(fields);
        }
        channel.progress(fields);
    }
}
