package aftershock;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

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
    private final FlinkSettings settings;
    private final int beginner;
    private final Map<TopicPartition, Long> begun = new HashMap<>();
    private final Map<TopicPartition, Opening> openings = new ConcurrentHashMap<>();
    private final TreeMap<Long, Map<TopicPartition, Long>> snapshots = new TreeMap<>();
    private final List<LedgerOperator> operators = new CopyOnWriteArrayList<>();

    /** A partition without a start from the library so far: `position` looks. */
    private static final class Opening {
        final Supplier<Long> position;
        final boolean restored;
        Long seen;
        volatile Long first;

        Opening(Supplier<Long> position, boolean restored) {
            this.position = position;
            this.restored = restored;
        }

        /** Returns a position that no record has moved; null if there is none. */
        Long start() {
            return seen != null && (first == null || seen <= first) ? seen : null;
        }

        /** Returns where the library began: what no record had moved, else its first record. */
        Long begin() {
            return start() == null ? first : start();
        }
    }

    /** beginner: the subtask that gives all starts to a checkpoint. */
    FlinkJob(Spec spec, Channel channel, FlinkSettings settings, int beginner) throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.settings = settings;
        this.beginner = beginner;
        assignments = new Assignments(spec, spec.map("config"), "assign");
        deliveries = new Deliveries(spec, assignments);
        commits = new FlinkCommits(new Table(spec, "commits"), assignments, settings.commits());
    }

    /** Makes the job of this process. */
    static FlinkJob ofProcess(Spec spec, Channel channel, FlinkSettings settings) throws IOException {
        ofProcess = new FlinkJob(spec, channel, settings, 0);
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

    /**
     * Records that the library gives a partition to the job: where the library begins, and from where it has that.
     *
     * @param offset at which it begins; negative if that is a mark, which the library resolves later
     * @param restored whether the offset or the mark is from a checkpoint
     * @param position returns the position in the library, null as long as it has none
     */
    synchronized void given(TopicPartition partition, long offset, boolean restored, Supplier<Long> position) {
        if (offset >= 0) {
            begin(partition, offset, restored);
        } else {
            openings.put(partition, new Opening(position, restored));
        }
    }

    /** Notes the first record of each partition that begins. Runs in the thread of the consumer, before it goes on. */
    void polled(ConsumerRecords<byte[], byte[]> records) {
        if (openings.isEmpty()) {
            return;
        }
        for (TopicPartition partition : records.partitions()) {
            Opening opening = openings.get(partition);
            if (opening != null && opening.first == null) {
                opening.first = records.records(partition).get(0).offset();
            }
        }
    }

    /** Records where partitions begin, as soon as two looks at the library show the same. */
    private synchronized void open() {
        openings.forEach((partition, opening) -> {
            if (opening.start() != null && opening.seen.equals(opening.position.get())) {
                begin(partition, opening.seen, opening.restored);
            } else if (opening.first == null) {
                opening.seen = opening.position.get();
            }
        });
    }

    /** Records where a partition begins. offset: null if its first record shows that. */
    private void begin(TopicPartition partition, Long offset, boolean restored) {
        openings.remove(partition);
        boolean kept = spec.map("checkpoint").containsKey(partition.topic() + "/" + partition.partition());
        String source = restored || kept ? "checkpoint" : "start";
        if (!restored && !kept && spec.text("start").equals("group")) {
            OffsetAndMetadata committed = committed(partition);
            source = committed == null ? "reset" : "committed";
        }
        if (offset != null) {
            begun.put(partition, offset);
        }
        assignments.begin("assigned", Map.of(partition, new Assignments.Start(offset, source)));
    }

    /** Returns the committed offset of the group, to say what the library found; the library asks by itself. */
    private OffsetAndMetadata committed(TopicPartition partition) {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings.kafka(), bytes, bytes)) {
            return consumer.committed(Set.of(partition)).get(partition);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Writes the rows of processed records. */
    synchronized Map<TopicPartition, Long> process(List<ConsumerRecord<byte[], byte[]>> records, long polledUs) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            if (!assignments.numbers.containsKey(partition)) {
                Opening opening = openings.get(partition); // null of a partition that FlinkKafkaConsumer discovered
                begin(partition, opening == null ? null : opening.begin(), opening != null && opening.restored);
            }
        }
        Map<TopicPartition, Long> ends = deliveries.write(records, polledUs);
        assignments.processed(ends);
        return ends;
    }

    /** Adds the offsets of a subtask to a checkpoint; one subtask also adds all starts. */
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
        open();
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
