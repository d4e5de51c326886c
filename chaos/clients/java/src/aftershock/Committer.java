package aftershock;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Commits as the commit setting says, and writes `commits` for one incarnation of a consumer.
 *
 * <p>An automatic commit that succeeds reaches the application through an interceptor (`CommitListener`); one that fails
 * reaches nobody. An asynchronous commit without an answer is written as unknown on `close`.
 */
final class Committer {
    /** The library's default of retry.backoff.ms; it waits up to 20 % less. */
    private static final double BACKOFF_MS = 100;

    private final Table table;
    private final Assignments assignments;
    private final String when;
    private final String kind;
    private final boolean onRevoke;
    private final double everyS;
    private final double backoffS;
    private final boolean repeatsAsync;
    /** Processed offsets to commit at the next interval. */
    private final Map<TopicPartition, Long> due = new HashMap<>();
    /** Processed offsets without a positive answer, to commit on revocation. */
    private final Map<TopicPartition, Long> unconfirmed = new HashMap<>();
    private final List<Request> pending = new ArrayList<>();
    private double nextS = Clock.monotonic();

    Committer(Spec spec, Spec commit, Map<String, Object> config, Assignments assignments) throws IOException {
        this.assignments = assignments;
        table = new Table(spec, "commits");
        when = commit.text("when");
        kind = commit.text("kind");
        onRevoke = commit.flag("on_revoke");
        everyS = commit.seconds("every_s");
        nextS += everyS;
        Object backoff = config.get("retry.backoff.ms");
        backoffS = 0.8 * (backoff == null ? BACKOFF_MS : Double.parseDouble(backoff.toString())) / 1000;
        repeatsAsync = "consumer".equalsIgnoreCase(String.valueOf(config.get("group.protocol")));
    }

    /** Offsets of one commit request, with the assignments at that time: the answer may arrive under a later one. */
    private final class Request {
        final Map<TopicPartition, Long> offsets;
        final Map<TopicPartition, Integer> numbers = new HashMap<>();
        final long atUs = Clock.nowUs();
        final double at = Clock.monotonic();

        Request(Map<TopicPartition, Long> offsets) {
            this.offsets = Map.copyOf(offsets);
            offsets.keySet().forEach(partition -> numbers.put(partition, assignments.lastNumbers.get(partition)));
        }

        Map<TopicPartition, OffsetAndMetadata> toKafka() {
            Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
            offsets.forEach((partition, offset) -> found.put(partition, new OffsetAndMetadata(offset)));
            return found;
        }

        boolean isFirstAttempt() {
            return Clock.monotonic() - at < backoffS;
        }
    }

    boolean isAutomatic() {
        return kind.equals("auto") && !when.equals("never");
    }

    /** Commits a batch before it is processed, if the setting says so. */
    void beforeProcessing(Consumer<?, ?> consumer, Supplier<Map<TopicPartition, Long>> ends) {
        if (when.equals("before_processing")) {
            request(consumer, ends.get(), kind);
        }
    }

    /** Commits after each record, or keeps its offset for later, as the setting says. */
    void afterRecord(Consumer<?, ?> consumer, Map<TopicPartition, Long> ends) {
        keep(ends);
        if (when.equals("after_record")) {
            request(consumer, ends, kind);
        } else if (everyS > 0 && when.equals("periodic")) {
            due.putAll(ends);
            commitDue(consumer);
        }
    }

    boolean wantsEachRecord() {
        return when.equals("after_record");
    }

    /** Commits after a batch, if the setting says so. */
    void afterBatch(Consumer<?, ?> consumer, Map<TopicPartition, Long> ends) {
        keep(ends);
        if (when.equals("after_batch") && !kind.equals("auto") && !ends.isEmpty()) {
            request(consumer, ends, kind);
        }
    }

    /** Commits the offsets that are due at the interval. */
    void commitDue(Consumer<?, ?> consumer) {
        if (everyS > 0 && !due.isEmpty() && Clock.monotonic() >= nextS) {
            nextS = Clock.monotonic() + everyS;
            Map<TopicPartition, Long> ends = Map.copyOf(due);
            due.clear();
            request(consumer, ends, kind);
        }
    }

    private void keep(Map<TopicPartition, Long> ends) {
        if (onRevoke) {
            unconfirmed.putAll(ends);
        }
    }

    /**
     * Commits processed offsets of partitions that are being revoked, if the setting says so.
     *
     * <p>An earlier commit of them may be without an answer, or refused: while a cooperative group rebalances, a commit
     * of the former generation gets ILLEGAL_GENERATION.
     */
    void revoked(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
        Map<TopicPartition, Long> ends = new HashMap<>(unconfirmed);
        ends.keySet().retainAll(partitions);
        forget(partitions);
        if (!ends.isEmpty()) {
            request(consumer, ends, "sync");
        }
    }

    /** Drops offsets of partitions that are lost or read from another position. */
    void forget(Collection<TopicPartition> partitions) {
        due.keySet().removeAll(partitions);
        unconfirmed.keySet().removeAll(partitions);
    }

    /** Commits offsets and waits for the answer. Returns whether all of them were committed. */
    boolean atOnce(Consumer<?, ?> consumer, Map<TopicPartition, Long> ends) {
        return request(consumer, ends, "sync").equals(Outcomes.OK);
    }

    /** Commits offsets. Returns the outcome, unknown while an asynchronous commit has no answer. */
    private String request(Consumer<?, ?> consumer, Map<TopicPartition, Long> ends, String how) {
        Request request = new Request(ends);
        if (how.equals("async")) {
            pending.add(request);
            consumer.commitAsync(request.toKafka(), (offsets, error) -> {
                if (pending.remove(request)) { // it is not repeated, except in the protocol of KIP-848
                    boolean one = !repeatsAsync || request.isFirstAttempt();
                    write("async", request, Outcomes.ofCommit(error, one), error);
                }
            });
            return Outcomes.UNKNOWN;
        }
        KafkaException error = null;
        try {
            consumer.commitSync(request.toKafka());
        } catch (KafkaException e) {
            error = e;
            Log.line("commit: " + Outcomes.describe(e));
        }
        String outcome = Outcomes.ofCommit(error, request.isFirstAttempt());
        write("sync", request, outcome, error);
        return outcome;
    }

    /** Records offsets that the library committed by itself. */
    void committed(Map<TopicPartition, OffsetAndMetadata> offsets) {
        write("auto", new Request(plain(offsets)), Outcomes.OK, null);
    }

    /** Commits offsets by a call of another library, and records the outcome. Throws what the call throws. */
    void through(Runnable call, Map<TopicPartition, OffsetAndMetadata> offsets) {
        Request request = new Request(plain(offsets));
        RuntimeException error = null;
        try {
            call.run();
        } catch (RuntimeException e) {
            error = e;
            throw e;
        } finally {
            write("sync", request, Outcomes.ofCommit(error, request.isFirstAttempt()), error);
        }
    }

    /** Returns the offsets alone. */
    static Map<TopicPartition, Long> plain(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<TopicPartition, Long> plain = new HashMap<>();
        offsets.forEach((partition, offset) -> plain.put(partition, offset.offset()));
        return plain;
    }

    /** Records offsets that were added to a transaction, by its end: committed, aborted or unknown. */
    void inTransaction(Map<TopicPartition, Long> offsets, String ended, long requestedUs) {
        String outcome =
                ended.equals("committed") ? Outcomes.OK : ended.equals("aborted") ? Outcomes.FAIL : Outcomes.UNKNOWN;
        String error = outcome.equals(Outcomes.OK) ? null : "the transaction's end: " + ended;
        Request request = new Request(offsets);
        request.offsets.forEach((partition, offset) ->
                table.write(row("transaction", request, partition, offset, outcome, error, requestedUs)));
    }

    /** Writes the requests without an answer. Call it after the consumer was closed. */
    void close() {
        for (Request request : pending) {
            request.offsets.forEach((partition, offset) -> table.write(row(
                    "async", request, partition, offset, Outcomes.UNKNOWN, "no answer before the end", request.atUs)));
        }
        pending.clear();
    }

    private void write(String how, Request request, String outcome, Throwable error) {
        String name = error == null ? null : Outcomes.name(error);
        request.offsets.forEach((partition, offset) -> {
            table.write(row(how, request, partition, offset, outcome, name, request.atUs));
            if (outcome.equals(Outcomes.OK)) {
                unconfirmed.remove(partition, offset);
            }
        });
    }

    private Batch row(
            String how,
            Request request,
            TopicPartition partition,
            long offset,
            String outcome,
            String error,
            long requestedUs) {
        return assignments
                .batch()
                .put("assignment", request.numbers.get(partition))
                .put("topic", partition.topic())
                .put("partition", partition.partition())
                .put("offset", offset)
                .put("kind", how)
                .put("outcome", outcome)
                .put("error", error)
                .put("requested_us", requestedUs)
                .put("completed_us", Clock.nowUs());
    }
}
