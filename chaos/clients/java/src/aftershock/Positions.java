package aftershock;

import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;

/** Offsets that a consumer asks the brokers for. */
final class Positions {
    private Positions() {}

    /** Returns the first offset at or after a time, or the end of the partition without one. */
    static Map<TopicPartition, Long> atTime(
            Consumer<?, ?> consumer, Collection<TopicPartition> partitions, long timestampMs) {
        Map<TopicPartition, Long> times = new HashMap<>();
        partitions.forEach(partition -> times.put(partition, timestampMs));
        Map<TopicPartition, OffsetAndTimestamp> answers = consumer.offsetsForTimes(times);
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        Map<TopicPartition, Long> found = new LinkedHashMap<>();
        for (TopicPartition partition : partitions) {
            OffsetAndTimestamp answer = answers.get(partition);
            found.put(partition, answer == null ? ends.get(partition) : Long.valueOf(answer.offset()));
        }
        return found;
    }

    /** Returns the target of each partition held that an order to seek means. */
    static Map<TopicPartition, Long> ofOrder(
            Map<String, Object> order, Collection<TopicPartition> held, Consumer<?, ?> consumer) {
        if (!(order.get("offsets") instanceof Map<?, ?> offsets)) {
            double agoS = ((Number) order.get("ago_s")).doubleValue();
            return atTime(consumer, held, (long) (System.currentTimeMillis() - agoS * 1000));
        }
        Map<TopicPartition, Long> found = new LinkedHashMap<>();
        for (TopicPartition partition : held) {
            if (offsets.get(Assignments.name(partition)) instanceof Number offset) {
                found.put(partition, offset.longValue());
            }
        }
        return found;
    }
}
