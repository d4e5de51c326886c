package aftershock;

import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The assign consumer: it assigns itself every partition of its topics, each at an offset that is known first. With
 * `discover_s`, it also reads partitions that are added later, from their start.
 */
final class AssignConsumer extends Reader {
    private final Starts starts;
    private double nextSearch;

    AssignConsumer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        super(spec, spec.part("commit"), spec.map("config"), "assign", channel, lifecycle);
        starts = new Starts(spec, consumer, channel);
        if (spec.has("no_group_id")) {
            lifecycle.error(probe(spec), false);
        }
    }

    @Override
    public boolean run() {
        Map<TopicPartition, Assignments.Start> found = starts.find();
        if (found != null && !channel.stopping) {
            begin(found);
            read();
        }
        close();
        return true;
    }

    private void begin(Map<TopicPartition, Assignments.Start> begun) {
        Set<TopicPartition> all = new HashSet<>(assignments.numbers.keySet());
        all.addAll(begun.keySet());
        consumer.assign(all); // keeps the positions of those that it has
        begun.forEach((partition, start) -> {
            if (!starts.isLocated(partition)) {
                consumer.seek(partition, start.offset());
            }
        });
        assignments.begin("assigned", begun);
        progress();
    }

    @Override
    void betweenPolls() {
        if (!spec.has("discover_s") || Clock.monotonic() < nextSearch) {
            return;
        }
        nextSearch = Clock.monotonic() + spec.seconds("discover_s");
        try {
            List<TopicPartition> added = starts.partitions();
            added.removeAll(assignments.numbers.keySet());
            if (!added.isEmpty()) {
                begin(starts.beginning(added));
            }
        } catch (RetriableException e) {
            Log.line("search for new partitions failed, trying again: " + e.getMessage());
        }
    }

    /** Returns how the library reacts to no group.id or an empty one; the consumer connects to no broker. */
    private static String probe(Spec spec) {
        String how = spec.text("no_group_id");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", spec.text("bootstrap"));
        settings.put("enable.auto.commit", "true");
        if (how.equals("empty")) {
            settings.put("group.id", "");
        }
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> probe = new KafkaConsumer<>(settings, bytes, bytes)) {
            return "with group.id " + how + ": the client takes it";
        } catch (KafkaException e) {
            Throwable cause = e.getCause() == null ? e : e.getCause();
            return "with group.id " + how + ": refused: " + cause.getMessage();
        }
    }
}
