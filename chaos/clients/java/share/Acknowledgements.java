package aftershock;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.AcknowledgementCommitCallback;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;

/**
 * Writes `acknowledgements` for one incarnation of a member: a row for each acknowledgement with an
 * outcome from the library.
 *
 * <p>The library repeats an acknowledgement if an answer is lost, and then reports only the last error. So any error is
 * `unknown`, except for a record that the library did not take.
 */
final class Acknowledgements implements AcknowledgementCommitCallback {
    private record Place(String topic, int partition, long offset) {}

    private record Request(long ordinal, AcknowledgeType type, long requestedUs) {}

    private final Spec spec;
    private final Table table;
    private final Map<Place, Deque<Request>> pending = new HashMap<>();
    private long refused;

    Acknowledgements(Spec spec) throws IOException {
        this.spec = spec;
        table = new Table(spec, "acknowledgements");
    }

    /** Returns the number of acknowledgements of records that the member did not hold any more. */
    long refused() {
        return refused;
    }

    /** Remembers an acknowledgement until its result. */
    void requested(ConsumerRecord<byte[], byte[]> record, long ordinal, AcknowledgeType type) {
        pending.computeIfAbsent(place(record), place -> new ArrayDeque<>())
                .add(new Request(ordinal, type, Clock.nowUs()));
    }

    /** Writes the row of an acknowledgement that the library did not take. */
    void refused(ConsumerRecord<byte[], byte[]> record, String error) {
        Place place = place(record);
        Request request = pending.get(place).removeLast();
        write(new TopicPartition(place.topic, place.partition), Map.of(place.offset, request), Outcomes.FAIL, error);
    }

    private static Place place(ConsumerRecord<byte[], byte[]> record) {
        return new Place(record.topic(), record.partition(), record.offset());
    }

    @Override
    public void onComplete(Map<TopicIdPartition, Set<Long>> offsets, Exception error) {
        String outcome = error == null ? Outcomes.OK : Outcomes.UNKNOWN;
        offsets.forEach((partition, all) -> {
            Map<Long, Request> ended = new HashMap<>();
            for (long offset : all) {
                Place place = new Place(partition.topic(), partition.partition(), offset);
                Deque<Request> requests = pending.get(place);
                if (requests != null) { // else the library acknowledged a gap in the log
                    ended.put(offset, requests.remove());
                    if (requests.isEmpty()) {
                        pending.remove(place);
                    }
                }
            }
            write(partition.topicPartition(), ended, outcome, error == null ? null : Outcomes.name(error));
        });
    }

    private void write(TopicPartition partition, Map<Long, Request> ended, String outcome, String error) {
        if (ended.isEmpty()) {
            return;
        }
        Longs ordinals = new Longs();
        Longs offsets = new Longs();
        Longs requested = new Longs();
        Collection<String> types = new ArrayList<>();
        for (long offset : new TreeSet<>(ended.keySet())) {
            Request request = ended.get(offset);
            ordinals.add(request.ordinal);
            offsets.add(offset);
            requested.add(request.requestedUs);
            types.add(request.type.toString().toLowerCase(Locale.ROOT));
        }
        refused += Errors.INVALID_RECORD_STATE.name().equals(error) ? ended.size() : 0;
        table.write(new Batch()
                .put("consumer", spec.client())
                .put("incarnation", spec.incarnation())
                .put("group", spec.text("group"))
                .put("ordinal", ordinals)
                .put("topic", partition.topic())
                .put("partition", partition.partition())
                .put("offset", offsets)
                .putFolded("type", types)
                .put("outcome", outcome)
                .put("error", error)
                .put("requested_us", requested)
                .put("completed_us", Clock.nowUs()));
    }
}
