package aftershock;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/**
 * The function of foreachBatch: its results are the rows of `deliveries`.
 *
 * <p>With `idempotent_results`, it adds no row a second time when a batch runs again. Spark's guide asks for that: "use
 * the batchId provided to the function as way to deduplicate the output". A store with transactions would have all rows
 * of a batch or none; the ledger may have some, and those are left out.
 */
final class SparkSink {
    private static final double ROWS_EVERY_S = 0.02;
    private static final double NAP_S = 0.05;

    private final Spec spec;
    private final Channel channel;
    private final Assignments assignments;
    private final Deliveries deliveries;
    private final Map<TopicPartition, Long> written = new HashMap<>();
    private boolean closed;

    SparkSink(Spec spec, Channel channel, Assignments assignments) throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.assignments = assignments;
        deliveries = new Deliveries(spec, assignments);
        if (spec.flag("idempotent_results") && spec.flag("restore")) {
            Table.deliveredEnds(spec)
                    .forEach((name, end) -> written.put(partition(name), end));
        }
    }

    private static TopicPartition partition(String name) {
        int slash = name.lastIndexOf('/');
        return new TopicPartition(name.substring(0, slash), Integer.parseInt(name.substring(slash + 1)));
    }

    /** Returns the offset after the last result of earlier incarnations; 0 without one. */
    long resultsEnd(TopicPartition partition) {
        return written.getOrDefault(partition, 0L);
    }

    /** Ends all writing by the thread of the query. */
    void close() {
        synchronized (assignments) {
            closed = true;
        }
    }

    /** Throws if the sink is closed. The caller holds the lock of `assignments` until it has written. */
    void requireOpen() {
        if (closed) {
            throw new IllegalStateException("the order to stop came within a batch");
        }
    }

    long delivered() {
        return deliveries.delivered();
    }

    /**
     * Writes the results of a batch. Throws if the order to stop arrives first: the batch is then not complete.
     *
     * @param begins offsets at which the batch begins, of each partition
     */
    void write(Dataset<Row> batch, long number, Map<TopicPartition, Long> begins) {
        List<ConsumerRecord<byte[], byte[]>> records = records(batch);
        long polledUs = Clock.nowUs();
        begin(begins);
        process(withoutResult(number, records), polledUs);
        written.clear(); // only the first batch of an incarnation may have run before
    }

    /** Returns the records of a batch in the order of their partitions and offsets. */
    static List<ConsumerRecord<byte[], byte[]>> records(Dataset<Row> batch) {
        List<Row> rows = batch.select("topic", "partition", "offset", "value").collectAsList();
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>(rows.size());
        for (Row row : rows) {
            records.add(new ConsumerRecord<>(row.getString(0), row.getInt(1), row.getLong(2), null, (byte[]) row.get(3)));
        }
        records.sort(Comparator.<ConsumerRecord<byte[], byte[]>, String>comparing(ConsumerRecord::topic)
                .thenComparing(ConsumerRecord::partition)
                .thenComparing(ConsumerRecord::offset));
        return records;
    }

    /** Returns the records of a batch that have no result yet; those that have one are passed. */
    private List<ConsumerRecord<byte[], byte[]>> withoutResult(long number, List<ConsumerRecord<byte[], byte[]>> records) {
        List<ConsumerRecord<byte[], byte[]>> left = new ArrayList<>(records.size());
        Map<TopicPartition, Long> passed = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            if (record.offset() < written.getOrDefault(partition, 0L)) {
                passed.put(partition, record.offset() + 1);
            } else {
                left.add(record);
            }
        }
        if (!passed.isEmpty()) {
            Log.line("batch " + number + " has " + (records.size() - left.size()) + " of its " + records.size()
                    + " results already");
        }
        synchronized (assignments) {
            assignments.processed(passed);
        }
        return left;
    }

    /** Records the partitions that the query found since its last batch, with the offsets at which they begin. */
    private void begin(Map<TopicPartition, Long> found) {
        Map<TopicPartition, Assignments.Start> starts = new HashMap<>();
        synchronized (assignments) {
            requireOpen();
            found.forEach((partition, offset) -> {
                if (!assignments.numbers.containsKey(partition)) {
                    starts.put(partition, new Assignments.Start(Math.max(offset, resultsEnd(partition)), "start"));
                }
            });
            if (!starts.isEmpty()) {
                assignments.begin("assigned", starts);
            }
        }
    }

    private void process(List<ConsumerRecord<byte[], byte[]>> records, long polledUs) {
        int size;
        for (int from = 0; from < records.size(); from += size) {
            size = Math.min(groupSize(records.size()), records.size() - from);
            work(size);
            synchronized (assignments) {
                requireOpen();
                assignments.processed(deliveries.write(records.subList(from, from + size), polledUs));
            }
        }
    }

    private double perRecordS() {
        return spec.seconds("per_record_s") + channel.perRecordS;
    }

    private int groupSize(int batch) {
        double perRecordS = perRecordS();
        return perRecordS > 0 ? (int) Math.max(1, ROWS_EVERY_S / perRecordS) : batch;
    }

    /** Lets the processing time of records pass. */
    private void work(int records) {
        double began = Clock.monotonic();
        for (double left; (left = began + records * perRecordS() - Clock.monotonic()) > 0; ) {
            if (channel.stopping || Thread.currentThread().isInterrupted()) {
                throw new IllegalStateException("the order to stop came within a batch");
            }
            Clock.sleep(Math.min(left, NAP_S));
        }
    }
}
