package aftershock;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** Writes `deliveries` for one incarnation of a consumer. A record counts as processed when its row is written. */
final class Deliveries {
    private final Assignments assignments;
    private final Table table;
    private final Identity.Parser identities = new Identity.Parser();
    private volatile long delivered;

    Deliveries(Spec spec, Assignments assignments) throws IOException {
        this.assignments = assignments;
        table = new Table(spec, "deliveries");
    }

    long delivered() {
        return delivered;
    }

    /** Writes the rows of processed records. Returns the offset after the last record of each partition. */
    Map<TopicPartition, Long> write(List<ConsumerRecord<byte[], byte[]>> records, long polledUs) {
        Map<TopicPartition, Long> ends = new LinkedHashMap<>();
        eachRun(records, (partition, run) -> {
            write(partition, run, polledUs, delivered);
            ends.put(partition, end(run));
        });
        return ends;
    }

    /** Returns the offset after the last of these records of each partition. */
    static Map<TopicPartition, Long> ends(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, Long> ends = new LinkedHashMap<>();
        eachRun(records, (partition, run) -> ends.put(partition, end(run)));
        return ends;
    }

    private static long end(List<ConsumerRecord<byte[], byte[]>> run) {
        return run.get(run.size() - 1).offset() + 1;
    }

    /** Passes on the records of one partition that follow each other: fewer objects than one for each record. */
    static void eachRun(
            List<ConsumerRecord<byte[], byte[]>> records,
            BiConsumer<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> use) {
        for (int from = 0, to; from < records.size(); from = to) {
            ConsumerRecord<byte[], byte[]> first = records.get(from);
            to = from + 1;
            while (to < records.size() && isOfOnePartition(first, records.get(to))) {
                to++;
            }
            use.accept(new TopicPartition(first.topic(), first.partition()), records.subList(from, to));
        }
    }

    private static boolean isOfOnePartition(ConsumerRecord<?, ?> one, ConsumerRecord<?, ?> other) {
        return one.partition() == other.partition() && one.topic().equals(other.topic());
    }

    /**
     * Writes the rows of processed records of one partition.
     *
     * @param ordinal the number of the first one within the incarnation, in the order of the polls
     */
    void write(
            TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records, long polledUs, long ordinal) {
        int count = records.size();
        Longs epochs = new Longs(count);
        Longs incarnations = new Longs(count);
        Longs offsets = new Longs(count);
        Longs seqs = new Longs(count);
        Longs sent = new Longs(count);
        List<String> producers = new ArrayList<>(count);
        for (ConsumerRecord<byte[], byte[]> record : records) {
            Identity identity = identities.of(record.value());
            offsets.add(record.offset());
            epochs.add(record.leaderEpoch().isPresent() ? record.leaderEpoch().get() : Longs.MISSING);
            seqs.add(identity == null ? Longs.MISSING : identity.seq());
            sent.add(identity == null ? Longs.MISSING : identity.sentUs());
            producers.add(identity == null ? null : identity.producer());
            incarnations.add(identity == null ? Longs.MISSING : identity.incarnation());
        }
        table.write(assignments.batch()
                .put("assignment", assignments.numbers.get(partition))
                .putConsecutive("ordinal", ordinal, count)
                .put("topic", partition.topic())
                .put("partition", partition.partition())
                .put("offset", offsets)
                .putFolded("leader_epoch", epochs)
                .putFolded("producer", producers)
                .putFolded("producer_incarnation", incarnations)
                .put("seq", seqs)
                .put("sent_us", sent)
                .put("polled_us", polledUs)
                .put("processed_us", Clock.nowUs()));
        delivered += count;
    }
}
