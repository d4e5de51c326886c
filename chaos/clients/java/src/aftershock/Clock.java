package aftershock;

import java.time.Instant;

/** The clock of the ledger. */
final class Clock {
    private Clock() {}

    /** Returns the microseconds since the epoch. */
    static long nowUs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    /** Waits, and returns early if the thread is interrupted. */
    static void sleep(double seconds) {
        try {
            Thread.sleep((long) (seconds * 1000), (int) (seconds * 1e9 % 1_000_000));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns the seconds of a clock that is never set. */
    static double monotonic() {
        return System.nanoTime() / 1e9;
    }
}
