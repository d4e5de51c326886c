package aftershock;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** Writes `deliveries` for one incarnation of a consumer. A record counts as processed when its row is written. */
final class Deliveries {
    private final Assignments assignments;
    private final Table table;
    private long delivered;

    Deliveries(Spec spec, Assignments assignments) throws IOException {
        this.assignments = assignments;
        table = new Table(spec, "deliveries");
    }

    long delivered() {
        return delivered;
    }

    /** Writes the rows of processed records. Returns the offset after the last record of each partition. */
    Map<TopicPartition, Long> write(List<ConsumerRecord<byte[], byte[]>> records, long polledUs) {
        Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> parts = new LinkedHashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            parts.computeIfAbsent(new TopicPartition(record.topic(), record.partition()), p -> new ArrayList<>())
                    .add(record);
        }
        Map<TopicPartition, Long> ends = new LinkedHashMap<>();
        parts.forEach((partition, part) -> {
            write(partition, part, polledUs);
            ends.put(partition, part.get(part.size() - 1).offset() + 1);
        });
        return ends;
    }

    private void write(TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records, long polledUs) {
        Longs ordinals = new Longs();
        Longs offsets = new Longs();
        Longs seqs = new Longs();
        Longs sent = new Longs();
        List<Integer> epochs = new ArrayList<>(records.size());
        List<String> producers = new ArrayList<>(records.size());
        List<Long> incarnations = new ArrayList<>(records.size());
        for (ConsumerRecord<byte[], byte[]> record : records) {
            Identity identity = Identity.of(record.value());
            ordinals.add(delivered++);
            offsets.add(record.offset());
            epochs.add(record.leaderEpoch().orElse(null));
            seqs.add(identity == null ? Longs.MISSING : identity.seq());
            sent.add(identity == null ? Longs.MISSING : identity.sentUs());
            producers.add(identity == null ? null : identity.producer());
            incarnations.add(identity == null ? null : identity.incarnation());
        }
        table.write(assignments.batch()
                .put("assignment", assignments.numbers.get(partition))
                .put("ordinal", ordinals)
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
    }
}
