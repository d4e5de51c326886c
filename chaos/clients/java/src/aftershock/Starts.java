package aftershock;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;

/**
 * The offsets at which a consumer in assign mode starts, as its spec says.
 *
 * <p>`earliest`, `latest` and `group` are looked up by the library, which has the positions afterwards; this class only
 * reads them. The committed offset is asked for only to say whether the library began there.
 */
final class Starts {
    private static final double RETRY_S = 0.2;

    private final Spec spec;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Channel channel;
    private final Set<TopicPartition> located = new HashSet<>();

    Starts(Spec spec, KafkaConsumer<byte[], byte[]> consumer, Channel channel) {
        this.spec = spec;
        this.consumer = consumer;
        this.channel = channel;
    }

    /** Returns the start of every partition of the topics; null after the order to stop. */
    Map<TopicPartition, Assignments.Start> find() {
        List<TopicPartition> partitions = retry(this::partitions);
        return partitions == null ? null : retry(() -> starts(partitions));
    }

    /** Returns whether the library has looked up itself where it begins to read a partition. */
    boolean isLocated(TopicPartition partition) {
        return located.contains(partition);
    }

    /** Returns the first offset of partitions that were added. */
    Map<TopicPartition, Assignments.Start> beginning(Collection<TopicPartition> added) {
        Map<TopicPartition, Assignments.Start> starts = new LinkedHashMap<>();
        consumer.beginningOffsets(added)
                .forEach((partition, offset) -> starts.put(partition, new Assignments.Start(offset, "start")));
        return starts;
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

    /** Returns every partition of the topics. */
    List<TopicPartition> partitions() {
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
        } else if (spec.text("start").equals("offsets")) {
            found = consumer.beginningOffsets(partitions);
        } else {
            found = located(partitions);
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

    /** Lets the library look up the beginning or the end of partitions, and returns its positions. */
    private Map<TopicPartition, Long> located(List<TopicPartition> partitions) {
        consumer.assign(partitions);
        if (spec.text("start").equals("latest")) {
            consumer.seekToEnd(partitions);
        } else {
            consumer.seekToBeginning(partitions);
        }
        Map<TopicPartition, Long> found = new LinkedHashMap<>();
        partitions.forEach(partition -> found.put(partition, consumer.position(partition)));
        located.addAll(partitions);
        return found;
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
                long position = consumer.position(partition);
                starts.put(partition, new Assignments.Start(position, offset == null ? "reset" : "committed"));
                located.add(partition);
            } catch (NoOffsetForPartitionException e) {
                throw new IllegalStateException("no committed offset for " + Assignments.name(partition)
                        + ", and auto.offset.reset is none");
            }
        }
        return starts;
    }
}
