package aftershock;

import java.io.IOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Writes `assignments` for one incarnation of a consumer, and holds its current assignment.
 *
 * <p>numbers: running number of the assignment of each partition held. lastNumbers: the same, with the last number of
 * each partition that is no longer held, for late answers to commits. positions: offset after the last processed record
 * of each partition held, or its start position; null if that is unknown.
 */
final class Assignments {
    final Map<TopicPartition, Integer> numbers = new HashMap<>();
    final Map<TopicPartition, Integer> lastNumbers = new HashMap<>();
    final Map<TopicPartition, Long> positions = new HashMap<>();
    private final Spec spec;
    private final String mode;
    private final Table table;
    private final Object instanceId;
    private String memberId;
    private Integer generation;
    private int count;

    /** Where reading a partition starts; both are null if the library chooses. */
    record Start(Long offset, String source) {}

    Assignments(Spec spec, Map<String, Object> config, String mode) throws IOException {
        this.spec = spec;
        this.mode = mode;
        instanceId = config.get("group.instance.id");
        table = new Table(spec, "assignments");
    }

    /** Returns a batch with the columns that identify the reader. */
    Batch batch() {
        return new Batch()
                .put("consumer", spec.client())
                .put("incarnation", spec.incarnation())
                .put("group", spec.text("group"))
                .put("mode", mode);
    }

    void membership(ConsumerGroupMetadata group) {
        memberId = group.memberId().isEmpty() ? null : group.memberId();
        generation = group.generationId() < 0 ? null : group.generationId();
    }

    /** Records an assignment or a seek: each partition gets the next running number. */
    void begin(String event, Map<TopicPartition, Start> starts) {
        count++;
        starts.forEach((partition, start) -> {
            numbers.put(partition, count);
            lastNumbers.put(partition, count);
            positions.put(partition, start.offset());
        });
        starts.forEach((partition, start) -> write(event, partition, start));
    }

    /** Records the position at which a partition begins that the library chose; null as long as it is not known. */
    void found(TopicPartition partition, Long position) {
        if (position != null) {
            positions.put(partition, position);
            write("position", partition, new Start(position, null));
        }
    }

    /** Records that partitions were taken away. */
    void end(String event, Collection<TopicPartition> partitions) {
        for (TopicPartition partition : partitions) {
            if (numbers.containsKey(partition)) {
                write(event, partition, new Start(positions.get(partition), null));
                numbers.remove(partition);
                positions.remove(partition);
            }
        }
    }

    /** Records that a checkpoint with these positions is complete. */
    void checkpoint(Map<TopicPartition, Long> stored) {
        stored.forEach((partition, offset) -> write("checkpoint", partition, new Start(offset, null)));
    }

    private void write(String event, TopicPartition partition, Start start) {
        table.write(batch()
                .put("member_id", memberId)
                .put("generation", generation)
                .put("event", event)
                .put("assignment", lastNumbers.get(partition))
                .put("topic", partition.topic())
                .put("partition", partition.partition())
                .put("position", start.offset())
                .put("source", start.source())
                .put("instance_id", instanceId)
                .put("at_us", Clock.nowUs()));
    }

    /** Advances positions; partitions that are not held are ignored. */
    void processed(Map<TopicPartition, Long> ends) {
        ends.forEach((partition, end) -> {
            if (numbers.containsKey(partition)) {
                positions.put(partition, end);
            }
        });
    }

    /** Adds the fields of the progress event about the assignment. */
    void addProgress(Map<String, Object> fields) {
        Map<String, Object> known = new TreeMap<>();
        Map<String, Object> held = new TreeMap<>();
        numbers.forEach((partition, number) -> held.put(name(partition), number));
        positions.forEach((partition, offset) -> {
            if (offset != null) {
                known.put(name(partition), offset);
            }
        });
        fields.put("assigned", held.keySet());
        fields.put("positions", new LinkedHashMap<>(known));
        fields.put("member_id", memberId);
        fields.put("generation", generation);
    }

    static String name(TopicPartition partition) {
        return partition.topic() + "/" + partition.partition();
    }

    /** Returns the partition of a name. */
    static TopicPartition parse(String name) {
        int slash = name.lastIndexOf('/');
        return new TopicPartition(name.substring(0, slash), Integer.parseInt(name.substring(slash + 1)));
    }
}
