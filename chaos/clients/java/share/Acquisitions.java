package aftershock;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** Writes `acquisitions` for one incarnation of a member: a row for each record that a poll returns. */
final class Acquisitions {
    private final Spec spec;
    private final Table table;
    private final Identity.Parser identities = new Identity.Parser();
    private long written;
    private long again;

    Acquisitions(Spec spec) throws IOException {
        this.spec = spec;
        table = new Table(spec, "acquisitions");
    }

    long written() {
        return written;
    }

    /** Returns the number of records that were delivered before. */
    long again() {
        return again;
    }

    /** Writes the rows of polled records. Returns the ordinal of the first one; the others follow. */
    long write(List<ConsumerRecord<byte[], byte[]>> records, long acquiredUs) {
        long first = written;
        Deliveries.eachRun(records, (partition, run) -> write(partition, run, acquiredUs));
        return first;
    }

    private void write(TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records, long acquiredUs) {
        Longs ordinals = new Longs();
        Longs offsets = new Longs();
        Longs counts = new Longs();
        Longs incarnations = new Longs();
        Longs seqs = new Longs();
        Longs sent = new Longs();
        List<String> producers = new ArrayList<>(records.size());
        for (ConsumerRecord<byte[], byte[]> record : records) {
            Identity identity = identities.of(record.value());
            ordinals.add(written++);
            offsets.add(record.offset());
            again += record.deliveryCount().orElse((short) 1) > 1 ? 1 : 0;
            counts.add(record.deliveryCount().map(Short::longValue).orElse(Longs.MISSING));
            seqs.add(identity == null ? Longs.MISSING : identity.seq());
            sent.add(identity == null ? Longs.MISSING : identity.sentUs());
            producers.add(identity == null ? null : identity.producer());
            incarnations.add(identity == null ? Longs.MISSING : identity.incarnation());
        }
        table.write(new Batch()
                .put("consumer", spec.client())
                .put("incarnation", spec.incarnation())
                .put("group", spec.text("group"))
                .put("ordinal", ordinals)
                .put("topic", partition.topic())
                .put("partition", partition.partition())
                .put("offset", offsets)
                .putFolded("delivery_count", counts)
                .putFolded("producer", producers)
                .putFolded("producer_incarnation", incarnations)
                .put("seq", seqs)
                .put("sent_us", sent)
                .put("acquired_us", acquiredUs));
    }
}
