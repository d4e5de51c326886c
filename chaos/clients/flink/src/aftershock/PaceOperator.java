package aftershock;

import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.CheckpointListener;

/**
 * The operator behind the source, in one task with it: it passes each seq on when its record is due, and records that a
 * checkpoint is complete.
 *
 * <p>The sink has a task apart, because it holds that task up until its transaction is committed, and Flink owes the
 * commit from the moment at which the checkpoint is complete.
 */
public final class PaceOperator implements MapFunction<Long, Long>, CheckpointListener {
    @Override
    public Long map(Long seq) throws InterruptedException {
        FlinkSends.current().await();
        return seq;
    }

    @Override
    public void notifyCheckpointComplete(long id) {
        FlinkSends.current().complete(id);
    }
}
