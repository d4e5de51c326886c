package aftershock;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * The producer: it sends one seq after the other, at a steady rate or at full speed, plainly or in transactions.
 *
 * <p>With mode `synchronous` it waits for each answer. `fire_and_forget` differs from `callback` only in what an
 * application would do with an answer; the ledger needs it in both cases.
 */
final class Producer extends Sender {
    private static final int CHUNK = 500;

    private final long records;
    private final String mode;
    private final double rate;
    private final Keys keys;
    private final Pace pace;

    Producer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        super(spec, channel, lifecycle);
        records = spec.number("records");
        mode = spec.text("mode");
        rate = spec.seconds("rate");
        keys = new Keys(spec);
        pace = new Pace(rate);
    }

    @Override
    public boolean run() throws IOException {
        initTransactions();
        while (spec.flag("hold") && !channel.started && !ending()) {
            serve(TICK_S);
        }
        pace.begin();
        while (transactions != null && next < records && !ending()) {
            beginTransaction();
            sendUntil(Math.min(next + transactions.number("records"), records));
            endTransaction(() -> true);
        }
        if (transactions == null) {
            sendUntil(records);
        }
        while (!ending()) {
            serve(inFlight() > 0 ? TICK_S : 0.05);
        }
        limit();
        while (inFlight() > 0 && !givingUp()) {
            serve(TICK_S);
        }
        return finish();
    }

    private boolean ending() {
        return channel.stopping || fatal;
    }

    private void sendUntil(long end) {
        boolean synchronous = mode.equals("synchronous");
        while (next < end && !ending() && !mustAbort()) {
            long due = Math.min(rate > 0 ? pace.due() : CHUNK, end - next);
            for (long i = 0; i < due && !ending() && !mustAbort(); i++) {
                sendNext();
                pace.advance();
                if (synchronous) {
                    waitForAnswers();
                }
            }
            serve(rate > 0 ? TICK_S : 0);
        }
    }

    private void sendNext() {
        String key = keys.of(next);
        send(key == null ? null : key.getBytes(StandardCharsets.US_ASCII), keys.partition(next), null);
    }

    @Override
    void addProgress(Map<String, Object> fields) {
        fields.put("done", next >= records && !open && inFlight() == 0);
    }
}
