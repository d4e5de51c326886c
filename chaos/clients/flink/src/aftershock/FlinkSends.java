package aftershock;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * The records of a job that writes, with their rows in `sends` and `transactions`.
 *
 * <p>The sink reports no record by itself. Records are acknowledged when the checkpoint after them is complete, without an
 * offset. With transactions, each checkpoint ends one, which has its number. It counts as committed when the checkpoint
 * is complete: from then on Flink owes the commit, also after a restore.
 */
final class FlinkSends {
    private static final double NAP_S = 0.05;
    private static FlinkSends current;

    private final Spec spec;
    private final Channel channel;
    private final Keys keys;
    private final Pace pace;
    private final Identity.Factory values;
    private final Table rows;
    private final Table ends;
    private final TreeMap<Long, Sent> checkpoints = new TreeMap<>();
    private Sent open = new Sent();
    private long sent;
    private long acked;
    private long unknown;

    FlinkSends(Spec spec, Channel channel) throws IOException {
        this.spec = spec;
        this.channel = channel;
        keys = new Keys(spec);
        pace = new Pace(spec.seconds("rate"));
        values = new Identity.Factory(spec);
        rows = new Table(spec, "sends");
        ends = spec.has("transactions") ? new Table(spec, "transactions") : null;
        current = this;
    }

    /** Returns the sends of the job of this process. */
    static FlinkSends current() {
        return current;
    }

    /** The records between two checkpoints. */
    private static final class Sent {
        final Longs seqs = new Longs();
        final Longs invoked = new Longs();
        final List<String> keys = new ArrayList<>();
    }

    /** Waits for the order to start, then until the next record is due; after the order to stop, not at all. */
    void await() throws InterruptedException {
        while (spec.flag("hold") && !channel.started && !channel.stopping) {
            Thread.sleep(Math.round(NAP_S * 1000));
        }
        for (double left; !channel.stopping && (left = pace.untilNext()) > 0; ) {
            Thread.sleep((long) (Math.min(left, NAP_S) * 1000), (int) (left * 1e9 % 1e6));
        }
        pace.advance();
    }

    /** Returns the record of a seq, and counts it as sent. */
    synchronized ProducerRecord<byte[], byte[]> next(long seq) {
        long invokedUs = Clock.nowUs();
        String key = keys.of(seq);
        byte[] bytes = key == null ? null : key.getBytes(StandardCharsets.US_ASCII);
        open.seqs.add(seq);
        open.invoked.add(invokedUs);
        open.keys.add(key);
        sent++;
        return new ProducerRecord<>(spec.text("topic"), keys.partition(seq), bytes, values.value(seq, invokedUs, bytes));
    }

    /** Ends the records before a checkpoint. */
    synchronized void snapshot(long id) {
        if (open.seqs.size() > 0) {
            checkpoints.put(id, open);
            open = new Sent();
        }
    }

    /** Records that a checkpoint is complete, and with it earlier ones that were not. */
    synchronized void complete(long id) {
        Map<Long, Sent> done = checkpoints.headMap(id, true);
        done.forEach((number, records) -> {
            write(number, records, Outcomes.OK, null);
            acked += records.seqs.size();
            if (ends != null) {
                ends.write(new Batch()
                        .put("producer", spec.client())
                        .put("incarnation", spec.incarnation())
                        .put("txn", number)
                        .put("outcome", "committed")
                        .put("began_us", records.invoked.get(0))
                        .put("ended_us", Clock.nowUs()));
            }
        });
        done.clear();
    }

    private void write(long number, Sent records, String outcome, String error) {
        Batch batch = new Batch()
                .put("producer", spec.client())
                .put("incarnation", spec.incarnation())
                .put("seq", records.seqs)
                .put("topic", spec.text("topic"))
                .put("invoked_us", records.invoked)
                .put("completed_us", Clock.nowUs())
                .put("outcome", outcome)
                .put("error", error);
        if (records.keys.get(0) != null) {
            batch.put("key", records.keys);
        }
        if (ends != null) {
            batch.put("txn", number);
        }
        rows.write(batch);
    }

    synchronized void progress(boolean done) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("sent", sent);
        fields.put("acked", acked);
        fields.put("failed", 0);
        fields.put("unknown", unknown);
        fields.put("done", done);
        channel.progress(fields);
    }

    /** Writes the records after the last complete checkpoint as unknown. Returns whether there are none. */
    synchronized boolean close() {
        snapshot(checkpoints.isEmpty() ? 1 : checkpoints.lastKey() + 1);
        boolean complete = checkpoints.isEmpty();
        checkpoints.forEach((number, records) -> {
            write(number, records, Outcomes.UNKNOWN, "no complete checkpoint");
            unknown += records.seqs.size();
        });
        checkpoints.clear();
        return complete;
    }
}
