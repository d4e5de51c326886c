package aftershock;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/**
 * Writes `commits` of a job that commits on complete checkpoints.
 *
 * <p>Flink asks its consumers for an asynchronous commit of the offsets of the checkpoint. The library confirms those that
 * succeeded. One without a confirmation is unknown: as soon as a later one is confirmed, or at the end. `requested_us` is
 * the time of the last snapshot, the earliest possible one. Flink does not commit where nothing was read yet, so a commit of
 * the offset 0 is only written when it is confirmed.
 */
final class FlinkCommits {
    private final Table table;
    private final Assignments assignments;
    private final boolean enabled;
    private final TreeMap<Long, Request> requests = new TreeMap<>();

    FlinkCommits(Table table, Assignments assignments, boolean enabled) {
        this.table = table;
        this.assignments = assignments;
        this.enabled = enabled;
    }

    /** The offsets of a checkpoint without a confirmation. */
    private static final class Request {
        long atUs;
        final Map<TopicPartition, Long> offsets = new HashMap<>();
        boolean asked;
    }

    /** Takes the offsets of a checkpoint that may become complete. */
    void prepared(long id, Map<TopicPartition, Long> offsets) {
        if (enabled) {
            Request request = requests.computeIfAbsent(id, key -> new Request());
            request.atUs = Clock.nowUs();
            request.offsets.putAll(offsets);
            request.offsets.values().removeIf(offset -> offset == 0);
        }
    }

    /** Counts the offsets of a checkpoint as requested, and drops the earlier checkpoints that were not complete. */
    void requested(long id) {
        requests.headMap(id, false).values().removeIf(request -> !request.asked);
        Request request = requests.get(id);
        if (request != null) {
            request.asked = true;
        }
    }

    /** Records a confirmation. */
    void confirmed(Map<TopicPartition, Long> offsets) {
        offsets.forEach((partition, offset) -> {
            Long found = requests.entrySet().stream()
                    .filter(entry -> offset.equals(entry.getValue().offsets.get(partition)))
                    .map(Map.Entry::getKey)
                    .findFirst()
                    .orElse(null);
            if (found == null) {
                write(partition, offset, Outcomes.OK, null, Clock.nowUs());
                return;
            }
            Request request = requests.get(found);
            requests.headMap(found, false).values().forEach(earlier -> unknown(earlier, partition));
            request.offsets.remove(partition);
            write(partition, offset, Outcomes.OK, null, request.atUs);
        });
        requests.values().removeIf(request -> request.asked && request.offsets.isEmpty());
    }

    /** Writes the requests without a confirmation. */
    void close() {
        for (Request request : requests.values()) {
            Map.copyOf(request.offsets).forEach((partition, offset) -> unknown(request, partition));
        }
        requests.clear();
    }

    private void unknown(Request request, TopicPartition partition) {
        Long offset = request.offsets.remove(partition);
        if (offset != null && request.asked) {
            write(partition, offset, Outcomes.UNKNOWN, "no confirmation", request.atUs);
        }
    }

    private void write(TopicPartition partition, long offset, String outcome, String error, long requestedUs) {
        table.write(assignments
                .batch()
                .put("assignment", assignments.lastNumbers.get(partition))
                .put("topic", partition.topic())
                .put("partition", partition.partition())
                .put("offset", offset)
                .put("kind", "async")
                .put("outcome", outcome)
                .put("error", error)
                .put("requested_us", requestedUs)
                .put("completed_us", Clock.nowUs()));
    }
}
