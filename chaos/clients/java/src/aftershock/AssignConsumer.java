package aftershock;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The assign consumer: it assigns itself every partition of its topics, each at an offset that it determines first. With
 * `discover_s`, it also reads partitions that are added later, from their start.
 */
final class AssignConsumer extends Reader {
    private static final double RETRY_S = 0.2;

    private double nextSearch;

    AssignConsumer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        super(spec, spec.part("commit"), spec.map("config"), "assign", channel, lifecycle);
        if (spec.has("no_group_id")) {
            lifecycle.error(probe(spec), false);
        }
    }

    @Override
    public boolean run() {
        List<TopicPartition> partitions = retry(this::partitions);
        Map<TopicPartition, Assignments.Start> starts =
                partitions == null ? null : retry(() -> starts(partitions));
        if (starts != null && !channel.stopping) {
            begin(starts);
            read();
        }
        close();
        return true;
    }

    private void begin(Map<TopicPartition, Assignments.Start> starts) {
        Set<TopicPartition> all = new HashSet<>(assignments.numbers.keySet());
        all.addAll(starts.keySet());
        consumer.assign(all); // keeps the positions of those that it has
        starts.forEach((partition, start) -> consumer.seek(partition, start.offset()));
        assignments.begin("assigned", starts);
        progress();
    }

    @Override
    void betweenPolls() {
        if (!spec.has("discover_s") || Clock.monotonic() < nextSearch) {
            return;
        }
        nextSearch = Clock.monotonic() + spec.seconds("discover_s");
        try {
            List<TopicPartition> added = partitions();
            added.removeAll(assignments.numbers.keySet());
            if (!added.isEmpty()) {
                Map<TopicPartition, Assignments.Start> starts = new LinkedHashMap<>();
                consumer.beginningOffsets(added)
                        .forEach((partition, offset) -> starts.put(partition, new Assignments.Start(offset, "start")));
                begin(starts);
            }
        } catch (RetriableException e) {
            Log.line("search for new partitions failed, trying again: " + e.getMessage());
        }
    }

    /** Repeats a request until it succeeds; brokers may be down. Returns null after the order to stop. */
    private <T> T retry(Supplier<T> request) {
        while (!channel.stopping) {
            try {
                return request.get();
            } catch (RetriableException e) {
                Log.line("trying again: " + e.getMessage());
                Clock.sleep(RETRY_S);
            }
        }
        return null;
    }

    private List<TopicPartition> partitions() {
        Map<String, List<PartitionInfo>> topics = consumer.listTopics(); // unlike partitionsFor, never from a cache
        List<TopicPartition> found = new ArrayList<>();
        for (String topic : spec.texts("topics")) {
            List<PartitionInfo> partitions = topics.getOrDefault(topic, List.of());
            if (partitions.isEmpty()) {
                throw new org.apache.kafka.common.errors.TimeoutException(topic + " has no partitions yet");
            }
            partitions.forEach(info -> found.add(new TopicPartition(topic, info.partition())));
        }
        return found;
    }

    private Map<TopicPartition, Assignments.Start> starts(Collection<TopicPartition> partitions) {
        Map<String, Object> checkpoint = spec.map("checkpoint");
        Map<TopicPartition, Assignments.Start> starts = new LinkedHashMap<>();
        List<TopicPartition> others = new ArrayList<>();
        for (TopicPartition partition : partitions) {
            Object offset = checkpoint.get(Assignments.name(partition));
            if (offset == null) {
                others.add(partition);
            } else {
                starts.put(partition, new Assignments.Start(((Number) offset).longValue(), "checkpoint"));
            }
        }
        if (!others.isEmpty()) {
            starts.putAll(spec.text("start").equals("group") ? groupOffsets(others) : given(others));
        }
        return starts;
    }

    private Map<TopicPartition, Assignments.Start> given(List<TopicPartition> partitions) {
        Map<TopicPartition, Assignments.Start> starts = new LinkedHashMap<>();
        Map<TopicPartition, Long> found;
        if (spec.text("start").equals("timestamp")) {
            while (System.currentTimeMillis() <= spec.number("timestamp_ms") && !channel.stopping) {
                Clock.sleep(0.02); // a time in the future
            }
            found = Positions.atTime(consumer, partitions, spec.number("timestamp_ms"));
        } else if (spec.text("start").equals("latest")) {
            found = consumer.endOffsets(partitions);
        } else {
            found = consumer.beginningOffsets(partitions);
        }
        found.forEach((partition, offset) -> starts.put(partition, new Assignments.Start(offset, "start")));
        spec.map("offsets").forEach((name, offset) -> {
            for (TopicPartition partition : partitions) {
                if (Assignments.name(partition).equals(name)) {
                    starts.put(partition, new Assignments.Start(existing(partition, (Number) offset), "start"));
                }
            }
        });
        return starts;
    }

    /** Waits until an offset in the future exists, and returns it. */
    private long existing(TopicPartition partition, Number offset) {
        while (!channel.stopping
                && consumer.endOffsets(List.of(partition)).get(partition) < offset.longValue()) {
            Clock.sleep(0.05);
        }
        return offset.longValue();
    }

    private Map<TopicPartition, Assignments.Start> groupOffsets(List<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(new HashSet<>(partitions));
        consumer.assign(partitions);
        Map<TopicPartition, Assignments.Start> starts = new LinkedHashMap<>();
        for (TopicPartition partition : partitions) {
            OffsetAndMetadata offset = committed.get(partition);
            try {
                long position = offset == null ? consumer.position(partition) : offset.offset();
                starts.put(partition, new Assignments.Start(position, offset == null ? "reset" : "committed"));
            } catch (NoOffsetForPartitionException e) {
                throw new IllegalStateException("no committed offset for " + Assignments.name(partition)
                        + ", and auto.offset.reset is none");
            }
        }
        return starts;
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
