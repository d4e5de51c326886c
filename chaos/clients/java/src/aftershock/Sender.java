package aftershock;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The base of the programs that write: a Kafka producer, its send rows, its transactions and its shutdown.
 *
 * <p>A transactional producer waits at most 5 s (max.block.ms) in one call, unless the scenario sets another time, so
 * that it notices the order to stop. The library continues a call that timed out when it is called again.
 */
abstract class Sender implements Client {
    static final double TICK_S = 0.01;
    private static final String TRANSACTION_BLOCK_MS = "5000";

    final Spec spec;
    final Channel channel;
    final Lifecycle lifecycle;
    final KafkaProducer<byte[], byte[]> kafka;
    final SendLog log;
    final Spec transactions;
    long next;
    boolean open;
    volatile boolean fatal;
    private final Identity.Factory values;
    private final Spec timestamps;
    private final TransactionLog ends;
    private final Thread thread = Thread.currentThread();
    private long first;
    private long failuresBefore;
    private double stopBy = Double.NaN;

    Sender(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.lifecycle = lifecycle;
        transactions = spec.part("transactions");
        Map<String, Object> config = spec.map("config");
        Properties settings = Settings.of(spec, config, ProducerConfig.configNames());
        if (transactions != null) {
            settings.put("transactional.id", transactions.text("id"));
            settings.put("transaction.timeout.ms", String.valueOf(Math.round(transactions.seconds("timeout_s") * 1000)));
            settings.putIfAbsent("max.block.ms", TRANSACTION_BLOCK_MS);
        }
        values = new Identity.Factory(spec);
        boolean singleAttempt = "0".equals(String.valueOf(config.get("retries")));
        boolean hasOffsets = !"0".equals(String.valueOf(config.get("acks")));
        log = new SendLog(spec, singleAttempt, hasOffsets);
        ends = transactions == null ? null : new TransactionLog(spec);
        next = first = spec.number("first_seq");
        timestamps = spec.part("timestamps");
        kafka = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Adds the fields of the progress event that only this kind of client has. */
    abstract void addProgress(Map<String, Object> fields);

    final void progress() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("sent", next - first);
        fields.put("acked", log.acked());
        fields.put("failed", log.failed());
        fields.put("unknown", log.unknown());
        addProgress(fields);
        channel.progress(fields);
    }

    /** Returns the number of records that have no answer yet. */
    final long inFlight() {
        return next - first - log.rows();
    }

    /** Waits; then writes rows and sends progress if they are due. */
    final void serve(double seconds) {
        if (seconds > 0) {
            Clock.sleep(seconds);
        }
        log.write(false);
        if (channel.progressDue()) {
            progress();
        }
    }

    /** Returns the timestamp that the application sets, in ms; null if it leaves that to the library. */
    private Long timestamp(long callUs) {
        return timestamps == null ? null : callUs / timestamps.number("divisor_us") + timestamps.number("shift_ms");
    }

    /** Sends one record with the next seq. A null partition leaves the choice to the library. */
    final void send(byte[] key, Integer partition, List<Header> headers) {
        long seq = next++;
        long invokedUs = Clock.nowUs();
        String text = key == null ? null : new String(key, StandardCharsets.US_ASCII);
        byte[] value = values.value(seq, invokedUs, key);
        ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(spec.topicOf(seq), partition, timestamp(invokedUs), key, value, headers);
        boolean[] answered = {false};
        try {
            kafka.send(record, (metadata, error) -> {
                answered[0] = true;
                if (channel.ignoringReports) {
                    return;
                }
                if (error == null) {
                    log.acked(seq, text, invokedUs, metadata);
                } else {
                    // an error in the thread of the call: the library refused the record before it queued it; within a
                    // transaction, it may have queued it before
                    boolean queued = Thread.currentThread() != thread || transactions != null;
                    log.failed(seq, text, invokedUs, metadata == null ? -1 : metadata.partition(), error, queued);
                }
            });
        } catch (KafkaException | IllegalStateException e) {
            if (!answered[0]) {
                log.failed(seq, text, invokedUs, -1, e, true);
            }
            if (transactions == null) {
                fail(e);
            }
        }
    }

    /** Waits until every record has its answer, or the time to wait is over. */
    final void waitForAnswers() {
        while (inFlight() > 0 && !fatal && !givingUp()) {
            serve(TICK_S / 5);
        }
    }

    /** Reports an error after which the producer cannot continue. */
    final void fail(Throwable error) {
        if (!fatal) {
            fatal = true;
            lifecycle.error(Outcomes.describe(error), true);
        }
    }

    /** Fences earlier incarnations and aborts their open transaction; no-op without transactions. */
    final void initTransactions() throws IOException {
        while (transactions != null) {
            try {
                kafka.initTransactions();
            } catch (TimeoutException e) {
                Log.line("initTransactions: " + e.getMessage());
                if (givingUp()) {
                    return;
                }
                continue;
            }
            if (spec.incarnation() > 1) { // read the rows only now: the earlier incarnation is fenced and adds none
                next = first = Math.max(first, Table.nextSeq(spec));
            }
            return;
        }
    }

    final void beginTransaction() {
        kafka.beginTransaction();
        open = true;
        log.setTransaction(ends.begin());
        failuresBefore = log.failed() + log.unknown();
    }

    /** Returns whether a record of the open transaction failed: the library then commits nothing of it. */
    final boolean mustAbort() {
        return open && log.failed() + log.unknown() > failuresBefore;
    }

    /** Adds offsets to a transaction. Returns false if it must be aborted. */
    interface Offsets {
        boolean add();
    }

    /** Waits for all answers, holds the transaction open, then ends it and writes its row. Returns how it ended. */
    final String endTransaction(Offsets offsets) {
        waitForAnswers();
        double heldUntil = Clock.monotonic() + transactions.seconds("hold_s");
        while (Clock.monotonic() < heldUntil && !channel.stopping && !fatal && !mustAbort()) {
            serve(TICK_S);
        }
        log.write(true);
        boolean planned = transactions.has("abort_every") && ends.number() % transactions.number("abort_every") == 0;
        boolean commit = !planned && !mustAbort() && offsets.add();
        ends.requested();
        String ended = callEnd(commit);
        open = false;
        log.write(true);
        ends.end(ended);
        return ended;
    }

    private String callEnd(boolean commit) {
        boolean committing = commit;
        while (true) {
            try {
                if (committing) {
                    kafka.commitTransaction();
                } else {
                    kafka.abortTransaction();
                }
                return committing ? "committed" : "aborted";
            } catch (TimeoutException e) { // the same call has to be repeated
                Log.line("transaction " + ends.number() + " has not ended: " + e.getMessage());
                if (givingUp()) {
                    fail(e);
                    return "unknown";
                }
            } catch (KafkaException e) {
                Log.line("transaction " + ends.number() + " has not ended: " + Outcomes.describe(e));
                if (!committing || isFatal(e)) {
                    fail(e);
                    return "unknown";
                }
                committing = false;
            }
        }
    }

    private static boolean isFatal(KafkaException error) {
        return error instanceof org.apache.kafka.common.errors.ProducerFencedException
                || error instanceof org.apache.kafka.common.errors.AuthorizationException
                || error instanceof org.apache.kafka.common.errors.UnsupportedVersionException;
    }

    /** Starts the time limit `stop_within_s`, unless it runs. */
    final void limit() {
        if (Double.isNaN(stopBy)) {
            stopBy = Clock.monotonic() + spec.seconds("stop_within_s");
        }
    }

    /** Returns whether the time to wait after the order to stop, or after a fatal error, is over. */
    final boolean givingUp() {
        if (channel.orphaned) {
            return true;
        }
        if (channel.stopping || fatal) {
            limit();
        }
        return Clock.monotonic() > stopBy;
    }

    /** Closes the producer, which gives each record an answer, and checks that every record has its row. */
    final boolean finish() {
        kafka.close(inFlight() > 0 ? Duration.ZERO : Duration.ofSeconds(2));
        log.write(true);
        progress();
        long missing = inFlight();
        if (missing > 0) {
            lifecycle.error(missing + " records have no delivery report", false);
        }
        return missing == 0 && !fatal;
    }
}
