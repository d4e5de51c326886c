package aftershock;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.GroupMaxSizeReachedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The base of both kinds of consumers: poll, process, write and commit, in the order of the commit setting.
 *
 * <p>A record is processed when its delivery row is in the ledger. With a processing time, rows are written a few at a
 * time as that time passes. A consumer does not poll while it processes.
 */
abstract class Reader implements Client {
    private static final Duration IDLE_POLL = Duration.ofMillis(100);
    private static final double ROWS_EVERY_S = 0.02;
    static final double NAP_S = 0.05;
    private static final double SAME_ERROR_EVERY_S = 1;

    final Spec spec;
    final Channel channel;
    final Lifecycle lifecycle;
    final Assignments assignments;
    final Deliveries deliveries;
    final Committer committer;
    final KafkaConsumer<byte[], byte[]> consumer;
    private final List<List<Object>> sought = new ArrayList<>();
    private final Speed speed;
    private String lastError = "";
    private double lastErrorAt;

    Reader(Spec spec, Spec commit, Map<String, Object> config, String mode, Channel channel, Lifecycle lifecycle)
            throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.lifecycle = lifecycle;
        speed = new Speed(channel, lifecycle);
        assignments = new Assignments(spec, config, mode);
        deliveries = new Deliveries(spec, assignments);
        committer = new Committer(spec, commit, config, assignments);
        consumer = new KafkaConsumer<>(
                settings(config), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Properties settings(Map<String, Object> config) throws IOException {
        Properties settings = Settings.of(spec, config, ConsumerConfig.configNames());
        if (spec.has("group")) {
            settings.put("group.id", spec.text("group"));
        }
        if (spec.has("max_poll_records")) {
            settings.put("max.poll.records", String.valueOf(spec.number("max_poll_records")));
        }
        settings.put("enable.auto.commit", String.valueOf(committer.isAutomatic()));
        if (committer.isAutomatic()) {
            settings.merge("interceptor.classes", CommitListener.class.getName(), (own, other) -> own + "," + other);
            settings.put(CommitListener.COMMITTER, committer);
        }
        return settings;
    }

    /** Polls and processes until the order to stop. */
    final void read() {
        while (!channel.stopping) {
            ConsumerRecords<byte[], byte[]> records = poll();
            long polledUs = Clock.nowUs();
            if (!records.isEmpty()) {
                List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>(records.count());
                records.partitions().forEach(partition -> batch.addAll(records.records(partition)));
                process(batch, polledUs);
            }
            committer.commitDue(consumer);
            speed.apply();
            applySeeks();
            betweenPolls();
            if (channel.progressDue()) {
                progress();
            }
        }
        settle();
    }

    private ConsumerRecords<byte[], byte[]> poll() {
        try {
            return consumer.poll(IDLE_POLL);
        } catch (AuthenticationException | GroupMaxSizeReachedException | RetriableException e) { // polls again
            report(Outcomes.describe(e));
            Clock.sleep(NAP_S);
            return ConsumerRecords.empty();
        }
    }

    private void report(String error) {
        if (!error.equals(lastError) || Clock.monotonic() > lastErrorAt + SAME_ERROR_EVERY_S) {
            lastError = error;
            lastErrorAt = Clock.monotonic();
            lifecycle.error(error, false);
        }
    }

    /** Runs after each poll. */
    void betweenPolls() {}

    /** Finishes polled records, before partitions are taken away or read from another position, and at the end. */
    void settle() {}

    /** Processes the records of a poll. */
    void process(List<ConsumerRecord<byte[], byte[]>> batch, long polledUs) {
        committer.beforeProcessing(consumer, () -> Deliveries.ends(batch));
        Map<TopicPartition, Long> done = new HashMap<>();
        int size;
        for (int from = 0; from < batch.size(); from += size) {
            size = Math.min(groupSize(batch.size()), batch.size() - from);
            if (!work(size)) {
                returnTo(batch.subList(from, batch.size()));
                break;
            }
            Map<TopicPartition, Long> ends = deliveries.write(batch.subList(from, from + size), polledUs);
            assignments.processed(ends);
            committer.afterRecord(consumer, ends);
            done.putAll(ends);
            idle();
        }
        committer.afterBatch(consumer, done);
    }

    /** Returns to the first of these records in each partition, so that an automatic commit at the close is not beyond it. */
    private void returnTo(List<ConsumerRecord<byte[], byte[]>> unprocessed) {
        Map<TopicPartition, Long> firsts = new HashMap<>();
        Deliveries.eachRun(unprocessed, (partition, run) -> firsts.putIfAbsent(partition, run.get(0).offset()));
        firsts.forEach((partition, offset) -> consumer.seek(partition, offset.longValue()));
    }

    /** Returns the processing time of a record. */
    final double perRecordS() {
        return spec.seconds("per_record_s") + channel.perRecordS;
    }

    private int groupSize(int batch) {
        if (committer.wantsEachRecord()) {
            return 1;
        }
        double perRecordS = perRecordS();
        return perRecordS > 0 ? (int) Math.max(1, ROWS_EVERY_S / perRecordS) : batch;
    }

    /** Lets the processing time of records pass. Returns false if the order to stop arrives first. */
    private boolean work(int records) {
        double began = Clock.monotonic();
        for (double left; (left = began + records * perRecordS() - Clock.monotonic()) > 0; ) {
            Clock.sleep(Math.min(left, NAP_S));
            if (channel.stopping) {
                return false;
            }
            idle();
        }
        return !channel.orphaned;
    }

    /** Does what is due while records are processed. */
    final void idle() {
        speed.apply();
        if (channel.progressDue()) {
            progress();
        }
    }

    private void applySeeks() {
        while (!channel.seeks.isEmpty() && !assignments.numbers.isEmpty()) {
            Map<String, Object> order = channel.seeks.remove();
            settle();
            Map<TopicPartition, Assignments.Start> targets = new LinkedHashMap<>();
            try {
                Positions.ofOrder(order, assignments.numbers.keySet(), consumer)
                        .forEach((partition, offset) -> targets.put(partition, new Assignments.Start(offset, "seek")));
                targets.forEach((partition, target) -> consumer.seek(partition, target.offset()));
            } catch (KafkaException e) {
                lifecycle.error("seek failed: " + e.getMessage(), false);
                continue;
            }
            targets.forEach((partition, target) -> {
                List<Object> seek = new ArrayList<>(List.of(Assignments.name(partition)));
                seek.add(assignments.positions.get(partition));
                seek.add(target.offset());
                sought.add(seek);
            });
            committer.forget(targets.keySet());
            assignments.begin("seek", targets);
            progress();
        }
    }

    /** Closes the consumer, writes the last rows and sends the last progress. */
    final void close() {
        consumer.close();
        committer.close();
        progress();
    }

    /** Ends partitions that are taken away; commits their offsets first unless they are lost. */
    final void giveUp(String event, Collection<TopicPartition> partitions) {
        settle();
        if (event.equals("revoked")) {
            committer.revoked(consumer, partitions);
        } else {
            committer.forget(partitions);
        }
        assignments.end(event, partitions);
        progress();
    }

    void progress() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("delivered", deliveries.delivered());
        assignments.addProgress(fields);
        if (!sought.isEmpty()) {
            fields.put("sought", sought);
        }
        channel.progress(fields);
    }
}
