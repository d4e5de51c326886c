package aftershock;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Writes `sends` for one incarnation of a client: one row for each record passed to the library.
 *
 * <p>Answers arrive in the thread of the library, and `completed_us` is that time. Rows are written by the thread of
 * the client.
 */
final class SendLog {
    private static final double WRITE_EVERY_S = 0.1;
    private static final int WRITE_ROWS = 4096;

    private final Spec spec;
    private final Table table;
    private final boolean singleAttempt;
    private final boolean hasOffsets;
    private final List<String> steady;
    private final List<String> definite;
    private Rows ok = new Rows();
    private Rows errors = new Rows();
    private double nextWrite;
    private long acked;
    private long failed;
    private long unknown;
    private Throwable lastError;
    private volatile long txn = Longs.MISSING;

    SendLog(Spec spec, boolean singleAttempt, boolean hasOffsets) throws IOException {
        this.spec = spec;
        this.singleAttempt = singleAttempt;
        this.hasOffsets = hasOffsets;
        steady = spec.has("steady") ? spec.texts("steady") : List.of();
        definite = spec.has("definite_errors") ? spec.texts("definite_errors") : List.of();
        table = new Table(spec, "sends");
    }

    private static final class Rows {
        final Longs seq = new Longs();
        final Longs partition = new Longs();
        final Longs offset = new Longs();
        final Longs invoked = new Longs();
        final Longs completed = new Longs();
        final List<String> topics = new ArrayList<>();
        final List<String> keys = new ArrayList<>();
        final List<String> outcomes = new ArrayList<>();
        final List<String> errors = new ArrayList<>();

        void add(String topic, long seqNumber, String key, long invokedUs, long partitionNumber, long offsetNumber) {
            topics.add(topic);
            seq.add(seqNumber);
            partition.add(partitionNumber < 0 ? Longs.MISSING : partitionNumber);
            offset.add(offsetNumber < 0 ? Longs.MISSING : offsetNumber);
            invoked.add(invokedUs);
            completed.add(Clock.nowUs());
            keys.add(key);
        }
    }

    /** Records an acknowledged send. */
    synchronized void acked(long seq, String key, long invokedUs, RecordMetadata metadata) {
        boolean known = hasOffsets && metadata.hasOffset();
        ok.add(spec.topicOf(seq), seq, key, invokedUs, metadata.partition(), known ? metadata.offset() : -1);
        acked++;
    }

    /** Records a send that failed; see `Outcomes.ofSend`. */
    synchronized void failed(long seq, String key, long invokedUs, int partition, Throwable error, boolean queued) {
        String outcome = Outcomes.ofSend(error, queued, singleAttempt, steady, definite);
        errors.add(spec.topicOf(seq), seq, key, invokedUs, partition, -1);
        errors.outcomes.add(outcome);
        errors.errors.add(Outcomes.name(error));
        failed += outcome.equals(Outcomes.FAIL) ? 1 : 0;
        unknown += outcome.equals(Outcomes.UNKNOWN) ? 1 : 0;
        lastError = error;
    }

    synchronized long acked() {
        return acked;
    }

    synchronized long failed() {
        return failed;
    }

    synchronized long unknown() {
        return unknown;
    }

    /** Returns the number of records that have a row or get one with the next `write`. */
    synchronized long rows() {
        return acked + failed + unknown;
    }

    /** Returns the last error of a send; null without one. */
    synchronized Throwable lastError() {
        return lastError;
    }

    /** Sets the transaction of the records that are sent now. Call it when all earlier records have their rows. */
    void setTransaction(long number) {
        txn = number;
    }

    /** Writes the rows that wait, if there are many, if the last write is long ago, or if `now` is set. */
    void write(boolean now) {
        Rows written;
        Rows refused;
        synchronized (this) {
            int waiting = ok.seq.size() + errors.seq.size();
            if (waiting == 0 || (!now && waiting < WRITE_ROWS && Clock.monotonic() < nextWrite)) {
                return;
            }
            written = ok;
            refused = errors;
            ok = new Rows();
            errors = new Rows();
        }
        nextWrite = Clock.monotonic() + WRITE_EVERY_S;
        if (written.seq.size() > 0) {
            table.write(batch(written).put("offset", written.offset).put("outcome", Outcomes.OK));
        }
        if (refused.seq.size() > 0) {
            table.write(batch(refused).put("outcome", refused.outcomes).put("error", refused.errors));
        }
    }

    private Batch batch(Rows rows) {
        Batch batch = new Batch()
                .put("producer", spec.client())
                .put("incarnation", spec.incarnation())
                .put("seq", rows.seq)
                .putFolded("topic", rows.topics)
                .putFolded("partition", rows.partition)
                .put("invoked_us", rows.invoked)
                .put("completed_us", rows.completed);
        if (rows.keys.get(0) != null) {
            batch.put("key", rows.keys);
        }
        if (txn != Longs.MISSING) {
            batch.put("txn", txn);
        }
        return batch;
    }
}
