package aftershock;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * The client that a stream thread is: a group member that processes records, with its ledger and its progress.
 *
 * <p>The stream thread calls it from its consumer, its producer and the transformation. Delivery rows are written before
 * the commit that contains them.
 */
final class StreamThreadLog implements Client {
    private static final double ROWS_EVERY_S = 0.02;
    private static final double NAP_S = 0.05;

    final Spec spec;
    final Lifecycle lifecycle;
    private final Channel channel;
    private final StreamsApp app;
    private final Assignments assignments;
    private final Deliveries deliveries;
    private final Committer committer;
    private final SendLog sends;
    private final TransactionLog transactions;
    private final Speed speed;
    private final Identity.Factory values;
    private final Identity.Parser identities = new Identity.Parser();
    private final Map<TopicPartition, Deque<Polled>> waiting = new HashMap<>();
    private final List<ConsumerRecord<byte[], byte[]>> processed = new ArrayList<>();
    private long processedPolledUs;
    private double nextRows;
    private long next;
    private long sent;
    private Map<TopicPartition, Long> offsets;
    private long offsetsSentUs;

    /** A record that the thread has polled, and not yet processed. */
    private record Polled(ConsumerRecord<byte[], byte[]> record, long atUs) {}

    StreamThreadLog(Spec spec, Channel channel, Lifecycle lifecycle, StreamsApp app) throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.lifecycle = lifecycle;
        this.app = app;
        Map<String, Object> config = spec.map("consumer_config");
        assignments = new Assignments(spec, config, "subscribe");
        deliveries = new Deliveries(spec, assignments);
        committer = new Committer(spec, Spec.of("{\"when\": \"never\", \"kind\": \"sync\"}"), config, assignments);
        sends = new SendLog(spec, false, true);
        transactions = spec.has("transactions") ? new TransactionLog(spec) : null;
        speed = new Speed(channel, lifecycle);
        values = new Identity.Factory(spec);
        next = spec.number("first_seq");
    }

    @Override
    public boolean run() {
        app.start();
        while (!channel.stopping && !app.hasFailed()) {
            Clock.sleep(NAP_S);
        }
        boolean inOrder = app.close();
        write();
        progress();
        return inOrder;
    }

    void assigned(Collection<TopicPartition> partitions, ConsumerGroupMetadata group) {
        assignments.membership(group);
        if (!partitions.isEmpty()) {
            Map<TopicPartition, Assignments.Start> starts = new LinkedHashMap<>();
            partitions.forEach(partition -> starts.put(partition, new Assignments.Start(null, null)));
            assignments.begin("assigned", starts);
        }
        progress();
    }

    /** Ends partitions that were taken away. */
    void ended(String event, Collection<TopicPartition> partitions) {
        write();
        waiting.keySet().removeAll(partitions);
        assignments.end(event, partitions);
        progress();
    }

    /** Records that the library reads a partition from another position on. */
    void sought(TopicPartition partition, Assignments.Start start) {
        write();
        waiting.remove(partition);
        if (assignments.numbers.containsKey(partition)) {
            assignments.begin("seek", Map.of(partition, start));
        }
    }

    void beforePoll() {
        if (Clock.monotonic() >= nextRows) {
            writeDeliveries();
        }
        sends.write(false);
        speed.apply();
        if (channel.progressDue()) {
            progress();
        }
    }

    /** Keeps polled records. Where a partition has none yet, records the position at which it begins. */
    void polled(ConsumerRecords<byte[], byte[]> records, Function<TopicPartition, Long> position) {
        long nowUs = Clock.nowUs();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            waiting.computeIfAbsent(partition, none -> new ArrayDeque<>()).add(new Polled(record, nowUs));
        }
        for (TopicPartition partition : List.copyOf(assignments.numbers.keySet())) {
            if (assignments.positions.get(partition) == null && !waiting.containsKey(partition)) {
                assignments.found(partition, position.apply(partition));
            }
        }
    }

    /** Takes the time that a record takes, and counts it as processed. */
    void process(String topic, int partition, long offset) {
        double began = Clock.monotonic();
        speed.apply();
        for (double left; (left = began + channel.perRecordS - Clock.monotonic()) > 0 && !channel.stopping; ) {
            Clock.sleep(Math.min(left, NAP_S));
        }
        Deque<Polled> polled = waiting.getOrDefault(new TopicPartition(topic, partition), new ArrayDeque<>());
        Polled record = polled.poll();
        while (record != null && record.record.offset() < offset) { // the library left it out
            record = polled.poll();
        }
        if (record == null || record.record.offset() != offset) {
            throw new IllegalStateException(
                    topic + "/" + partition + " at " + offset + " is processed, but no poll returned it");
        }
        if (record.atUs != processedPolledUs || Clock.monotonic() >= nextRows) {
            writeDeliveries();
        }
        processedPolledUs = record.atUs;
        processed.add(record.record);
    }

    /** Returns the value of the next output. */
    byte[] value(long nowUs, byte[] key) {
        return values.value(next++, nowUs, key);
    }

    /** The answer to a send. */
    final class Answer {
        private final long seq;
        private final long invokedUs;
        private final String key;
        private boolean here;

        private Answer(Identity identity, byte[] keyBytes) {
            key = keyBytes == null ? null : new String(keyBytes, StandardCharsets.UTF_8);
            seq = identity.seq();
            invokedUs = identity.sentUs();
        }

        /** Records the answer; a second one of the same send is ignored. */
        void arrived(RecordMetadata metadata, Exception error) {
            synchronized (this) {
                if (here) {
                    return;
                }
                here = true;
            }
            if (error == null) {
                sends.acked(seq, key, invokedUs, metadata);
            } else {
                sends.failed(seq, key, invokedUs, metadata == null ? -1 : metadata.partition(), error, true);
            }
        }
    }

    Answer sending(ProducerRecord<byte[], byte[]> record) {
        sent++;
        return new Answer(identities.of(record.value()), record.key());
    }

    void transactionBegan() {
        sends.setTransaction(transactions.begin());
        offsets = null;
    }

    void endRequested() {
        transactions.requested();
    }

    /** Writes all rows that wait. Returns the time. */
    long beforeCommit() {
        write();
        return Clock.nowUs();
    }

    void offsetsSent(Map<TopicPartition, OffsetAndMetadata> added, long requestedUs) {
        offsets = Committer.plain(added);
        offsetsSentUs = requestedUs;
    }

    void transactionEnded(String outcome) {
        write();
        transactions.end(outcome);
        if (offsets != null) {
            committer.inTransaction(offsets, outcome, offsetsSentUs);
        }
        if (offsets != null && outcome.equals("committed")) {
            assignments.processed(offsets);
        }
        offsets = null;
    }

    /** Commits offsets without a transaction. */
    void commit(Map<TopicPartition, OffsetAndMetadata> requested, Runnable call) {
        write();
        committer.through(call, requested);
        assignments.processed(Committer.plain(requested));
    }

    private void write() {
        writeDeliveries();
        sends.write(true);
    }

    private void writeDeliveries() {
        nextRows = Clock.monotonic() + ROWS_EVERY_S;
        if (!processed.isEmpty()) {
            deliveries.write(processed, processedPolledUs);
            processed.clear();
        }
    }

    private void progress() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("sent", sent);
        fields.put("acked", sends.acked());
        fields.put("failed", sends.failed());
        fields.put("unknown", sends.unknown());
        fields.put("delivered", deliveries.delivered());
        assignments.addProgress(fields);
        channel.progress(fields);
    }
}
