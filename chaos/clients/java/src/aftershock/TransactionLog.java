package aftershock;

import java.io.IOException;

/** Writes `transactions` for one incarnation of a client: one row for each end. */
final class TransactionLog {
    private final Spec spec;
    private final Table table;
    private long number;
    private long beganUs;

    TransactionLog(Spec spec) throws IOException {
        this.spec = spec;
        table = new Table(spec, "transactions");
    }

    /** Begins the next transaction. Returns its number. */
    long begin() {
        beganUs = Clock.nowUs();
        return ++number;
    }

    /** Returns the number of the last transaction that began. */
    long number() {
        return number;
    }

    /** Writes how the transaction ended: committed, aborted or unknown. */
    void end(String outcome) {
        table.write(new Batch()
                .put("producer", spec.client())
                .put("incarnation", spec.incarnation())
                .put("txn", number)
                .put("outcome", outcome)
                .put("began_us", beganUs)
                .put("ended_us", Clock.nowUs()));
    }
}
