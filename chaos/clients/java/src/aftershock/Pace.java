package aftershock;

/** A steady rate of records. After a stall, up to `CATCH_UP_S` of it is caught up. */
final class Pace {
    private static final double CATCH_UP_S = 0.25;

    private final double rate;
    private double since = Clock.monotonic();
    private long paced;

    /** rate: records per second; 0 for full speed. */
    Pace(double rate) {
        this.rate = rate;
    }

    /** Begins now. */
    void begin() {
        since = Clock.monotonic();
    }

    /** Returns the number of records that are due. */
    long due() {
        long due = (long) ((Clock.monotonic() - since) * rate) - paced;
        long limit = Math.max(1, (long) (rate * CATCH_UP_S));
        if (due > limit) {
            since += (due - limit) / rate;
            due = limit;
        }
        return Math.max(0, due);
    }

    /** Returns the seconds until the next record is due; 0 if one is. */
    double untilNext() {
        return rate == 0 || due() > 0 ? 0 : since + (paced + 1) / rate - Clock.monotonic();
    }

    /** Counts a record. */
    void advance() {
        paced++;
    }
}
