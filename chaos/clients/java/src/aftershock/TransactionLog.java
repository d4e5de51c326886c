package aftershock;

import java.io.IOException;

/** Writes `transactions` for one incarnation of a client: one row for each end. */
final class TransactionLog {
    private final Spec spec;
    private final Table table;
    private long number;
    private long beganUs;
    private long requestedUs;

    TransactionLog(Spec spec) throws IOException {
        this.spec = spec;
        table = new Table(spec, "transactions");
    }

    /** Begins the next transaction. Returns its number. */
    long begin() {
        beganUs = Clock.nowUs();
        requestedUs = Longs.MISSING;
        return ++number;
    }

    /** Returns the number of the last transaction that began. */
    long number() {
        return number;
    }

    /** Notes that the end is requested now; the first request counts. */
    void requested() {
        if (requestedUs == Longs.MISSING) {
            requestedUs = Clock.nowUs();
        }
    }

    /** Writes how the transaction ended: committed, aborted or unknown. */
    void end(String outcome) {
        Batch batch = new Batch()
                .put("producer", spec.client())
                .put("incarnation", spec.incarnation())
                .put("txn", number)
                .put("outcome", outcome)
                .put("began_us", beganUs)
                .put("ended_us", Clock.nowUs());
        if (requestedUs != Longs.MISSING) {
            batch.put("requested_us", requestedUs);
        }
        table.write(batch);
    }
}
