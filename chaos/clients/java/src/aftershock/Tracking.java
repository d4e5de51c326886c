package aftershock;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The polled records of one partition that are not all finished.
 *
 * <p>Workers finish records in another order than they were polled. `prefix` is the offset after the records that are
 * finished without a gap, `highest` the offset after the highest finished record.
 */
final class Tracking {
    /** No record is finished. */
    static final long NONE = -1;

    private final Deque<PolledRun> unfinished = new ArrayDeque<>();
    private long prefix = NONE;
    private long highest = NONE;

    void polled(PolledRun run) {
        unfinished.add(run);
    }

    void finish(PolledRun run, int index) {
        run.finish(index);
        highest = Math.max(highest, run.highestEnd(NONE));
        while (!unfinished.isEmpty()) {
            prefix = unfinished.peek().prefixEnd(prefix);
            if (!unfinished.peek().isFinished()) {
                break;
            }
            unfinished.remove();
        }
    }

    long prefix() {
        return prefix;
    }

    long highest() {
        return highest;
    }
}
