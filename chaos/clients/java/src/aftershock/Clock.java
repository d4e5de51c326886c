package aftershock;

import java.time.Instant;

/** The clock of the ledger. */
final class Clock {
    /** How far the machine's clock is ahead of the monotonic one, in ns, for a process with a wrong clock; else null. */
    private static final String AHEAD = System.getenv("AFTERSHOCK_MACHINE_CLOCK");
    private static final long AHEAD_NS = AHEAD == null ? 0 : Long.parseLong(AHEAD);

    private Clock() {}

    /** Returns the microseconds since the epoch by the clock of the machine. */
    static long nowUs() {
        return AHEAD == null ? shownUs() : (System.nanoTime() + AHEAD_NS) / 1000;
    }

    /** Returns the microseconds since the epoch by the clock that this process sees, which a fault may have changed. */
    static long shownUs() {
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
