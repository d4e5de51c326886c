package aftershock;

import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * What the subtasks of the job share: its assignment, its ledger tables and its checkpoints.
 *
 * <p>The mini cluster runs in this process, so there is one. In a task manager, each attempt of a subtask has another one,
 * because it may end alone; see `Attempt`. A record is processed when its row is written. A checkpoint has, of each
 * partition, the highest offset that a subtask gave to it: one subtask gives the starts of all.
 */
final class FlinkJob implements JobRows {
    private static FlinkJob ofProcess;

    final Channel channel;
    final Spec spec;
    private final Assignments assignments;
    private final Deliveries deliveries;
    private final FlinkCommits commits;
    private final Starts starts;
    private final int beginner;
    private final Map<TopicPartition, Long> begun = new HashMap<>();
    private final TreeMap<Long, Map<TopicPartition, Long>> snapshots = new TreeMap<>();
    private final List<LedgerOperator> operators = new CopyOnWriteArrayList<>();

    /** beginner: the subtask that gives all starts to a checkpoint. */
    FlinkJob(Spec spec, Channel channel, Starts starts, boolean commits, int beginner) throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.starts = starts;
        this.beginner = beginner;
        assignments = new Assignments(spec, spec.map("config"), "assign");
        deliveries = new Deliveries(spec, assignments);
        this.commits = new FlinkCommits(new Table(spec, "commits"), assignments, commits);
    }

    /** Makes the job of this process. */
    static FlinkJob ofProcess(Spec spec, Channel channel, Starts starts, boolean commits) throws IOException {
        ofProcess = new FlinkJob(spec, channel, starts, commits, 0);
        return ofProcess;
    }

    /** Returns the job of the task that runs in this thread; null outside of one, such as in a job manager. */
    static FlinkJob current() {
        Attempt attempt = Attempt.current();
        return attempt == null ? ofProcess : attempt.job;
    }

    void add(LedgerOperator operator) {
        operators.add(operator);
    }

    /** Records partitions and their starts, except those that were recorded before. */
    @Override
    public synchronized void begin(Map<TopicPartition, Assignments.Start> found) {
        Map<TopicPartition, Assignments.Start> added = new LinkedHashMap<>(found);
        added.keySet().removeAll(begun.keySet());
        if (!added.isEmpty()) {
            added.forEach((partition, start) -> begun.put(partition, start.offset()));
            assignments.begin("assigned", added);
        }
    }

    /** Writes the rows of processed records. A partition without a start was discovered, and is read from its beginning. */
    synchronized Map<TopicPartition, Long> process(List<ConsumerRecord<byte[], byte[]>> records, long polledUs) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            if (!begun.containsKey(partition)) {
                begin(starts.beginning(List.of(partition)));
            }
        }
        Map<TopicPartition, Long> ends = deliveries.write(records, polledUs);
        assignments.processed(ends);
        return ends;
    }

    /** Adds the offsets of a subtask to a checkpoint, and to those of one subtask all starts. */
    synchronized void snapshot(long id, int subtask, Map<TopicPartition, Long> offsets) {
        if (subtask == beginner) {
            begun.forEach((partition, offset) -> offsets.merge(partition, offset, Math::max));
        }
        Map<TopicPartition, Long> all = snapshots.computeIfAbsent(id, key -> new HashMap<>());
        offsets.forEach((partition, offset) -> all.merge(partition, offset, Math::max));
        commits.prepared(id, all);
    }

    /** Records a complete checkpoint, when the first subtask hears of it. Earlier ones without that news are dropped. */
    synchronized void complete(long id) {
        Map<TopicPartition, Long> stored = snapshots.get(id);
        if (stored != null) {
            snapshots.headMap(id, true).clear();
            assignments.checkpoint(stored);
            commits.requested(id);
        }
    }

    synchronized void committed(Map<TopicPartition, Long> offsets) {
        commits.confirmed(offsets);
    }

    /** Writes the rows that wait in the subtasks. */
    @Override
    public void flush() {
        operators.forEach(LedgerOperator::flush);
    }

    @Override
    public synchronized void progress() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("delivered", deliveries.delivered());
        assignments.addProgress(fields);
        channel.progress(fields);
    }

    /** Writes what is left. Call it when the job has ended. */
    @Override
    public void close() {
        flush();
        synchronized (this) {
            commits.close();
        }
        progress();
    }
}
