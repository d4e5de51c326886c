package aftershock;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * The processor: it reads as a group member and writes one record for each record that it reads. The records written and
 * the offsets read are in one transaction (sendOffsetsToTransaction).
 *
 * <p>A transaction ends when it has its number of records, when nothing arrives for a while, and before partitions are
 * given up. After an abort it seeks to the committed offsets of the group.
 *
 * <p>With `plain` instead of transactions, it commits the offsets of each batch after its outputs are acknowledged, or
 * before it writes them, as applications without transactions do (at least once, at most once).
 */
final class Processor extends Sender {
    private static final double IDLE_S = 0.1;
    /** Record header with the coordinates of the input; see chaos.ledger.record. */
    private static final String INPUT_HEADER = "aftershock-input";

    private final Source source;
    private final Spec plain;
    private final Map<TopicPartition, Long> readEnds = new HashMap<>();
    private long records;
    private double lastRead;
    private Long offsetsSentUs;

    Processor(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        super(spec, channel, lifecycle);
        plain = spec.part("plain");
        source = new Source();
    }

    /** The reading side: a group member that commits no offsets by itself. */
    private final class Source extends GroupConsumer {
        Source() throws IOException {
            super(
                    Processor.this.spec,
                    Spec.of("{\"when\": \"never\", \"kind\": \"sync\"}"),
                    Processor.this.spec.map("consumer_config"),
                    Processor.this.channel,
                    Processor.this.lifecycle);
        }

        @Override
        void release(String event, Collection<TopicPartition> partitions) {
            Processor.this.end(event.equals("revoked"));
            assignments.end(event, partitions);
        }

        @Override
        void progress() {
            Processor.this.progress();
        }
    }

    @Override
    public boolean run() throws IOException {
        initTransactions();
        source.subscribe();
        while (!channel.stopping && !fatal) {
            step();
        }
        end(false);
        source.consumer.close();
        source.committer.close();
        limit();
        while (inFlight() > 0 && !givingUp()) {
            serve(TICK_S);
        }
        return finish();
    }

    private void step() {
        ConsumerRecords<byte[], byte[]> polled = source.consumer.poll(Duration.ofMillis(20));
        long polledUs = Clock.nowUs();
        if (!polled.isEmpty()) {
            List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>();
            polled.forEach(batch::add);
            int size = (int) (plain == null ? transactions : plain).number("records");
            for (int from = 0; from < batch.size() && !fatal; ) {
                int to = (int) Math.min(batch.size(), from + size - records);
                List<ConsumerRecord<byte[], byte[]>> part = batch.subList(from, to);
                if (!(plain == null ? transform(part, polledUs) : transformPlainly(part, polledUs))) {
                    return; // aborted: the rest of the batch is read again
                }
                from = to;
            }
        }
        serve(0);
        if (open && (Clock.monotonic() - lastRead > IDLE_S || mustAbort())) {
            end(true);
        }
    }

    /** Reads and writes some records. Returns whether the next ones of the batch can follow. */
    private boolean transform(List<ConsumerRecord<byte[], byte[]>> batch, long polledUs) {
        if (!open) {
            beginTransaction();
        }
        lastRead = Clock.monotonic();
        readEnds.putAll(source.deliveries.write(batch, polledUs));
        write(batch);
        records += batch.size();
        boolean full = records >= transactions.number("records");
        return !(full || mustAbort()) || end(true).equals("committed");
    }

    /** Writes one record for each record that was read, until the transaction must be aborted. */
    private void write(List<ConsumerRecord<byte[], byte[]>> batch) {
        for (ConsumerRecord<byte[], byte[]> input : batch) {
            String origin = input.topic() + "/" + input.partition() + "/" + input.offset();
            send(null, null, List.of(new RecordHeader(INPUT_HEADER, origin.getBytes(StandardCharsets.UTF_8))));
            if (mustAbort()) {
                return;
            }
        }
    }

    /** Writes some records and commits their offsets without a transaction. Returns whether the next ones can follow. */
    private boolean transformPlainly(List<ConsumerRecord<byte[], byte[]>> batch, long polledUs) {
        Map<TopicPartition, Long> ends = source.deliveries.write(batch, polledUs);
        boolean outputFirst = plain.text("commit").equals("after_output");
        boolean done = outputFirst ? writeAll(batch) : source.committer.atOnce(source.consumer, ends);
        if (done) {
            double until = Clock.monotonic() + plain.seconds("hold_s");
            while (Clock.monotonic() < until && !channel.stopping && !fatal) {
                serve(TICK_S);
            }
            if (outputFirst) {
                done = source.committer.atOnce(source.consumer, ends);
            } else {
                writeAll(batch); // outputs that fail then are not written again
            }
        }
        if (done) {
            source.assignments.processed(ends);
        } else {
            rewindUntilDone();
        }
        return done;
    }

    private boolean writeAll(List<ConsumerRecord<byte[], byte[]>> batch) {
        long before = log.failed() + log.unknown();
        write(batch);
        waitForAnswers();
        log.write(true);
        return !fatal && inFlight() == 0 && log.failed() + log.unknown() == before;
    }

    /** Ends the open transaction with its offsets; after an abort, rewinds the partitions that stay assigned. */
    private String end(boolean keepsPartitions) {
        if (!open) {
            return "";
        }
        offsetsSentUs = null;
        String ended = endTransaction(this::addOffsets);
        if (offsetsSentUs != null) {
            source.committer.inTransaction(readEnds, ended, offsetsSentUs);
        }
        if (ended.equals("committed")) {
            source.assignments.processed(readEnds);
        }
        readEnds.clear();
        records = 0;
        if (ended.equals("aborted") && keepsPartitions) {
            rewindUntilDone();
        }
        return ended;
    }

    private void rewindUntilDone() {
        while (!rewind() && !givingUp()) {
            serve(0.1);
        }
    }

    private boolean addOffsets() {
        long requestedUs = Clock.nowUs();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        readEnds.forEach((partition, offset) -> offsets.put(partition, new OffsetAndMetadata(offset)));
        try {
            kafka.sendOffsetsToTransaction(offsets, source.consumer.groupMetadata());
            offsetsSentUs = requestedUs;
            return true;
        } catch (KafkaException e) {
            Log.line("offsets not sent: " + Outcomes.describe(e));
            return false;
        }
    }

    /** Seeks to the committed offsets, so that the records of an aborted transaction are read again. */
    private boolean rewind() {
        try {
            Map<TopicPartition, Assignments.Start> starts = source.rewindTargets(
                    new HashSet<>(source.assignments.numbers.keySet()));
            if (!starts.isEmpty()) {
                starts.forEach((partition, start) -> source.consumer.seek(partition, start.offset()));
                source.assignments.begin("seek", new LinkedHashMap<>(starts));
            }
            return true;
        } catch (KafkaException e) {
            Log.line("seek failed, trying again: " + e.getMessage());
            return false;
        }
    }

    @Override
    void addProgress(Map<String, Object> fields) {
        fields.put("delivered", source.deliveries.delivered());
        source.assignments.addProgress(fields);
    }
}
