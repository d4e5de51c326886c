package aftershock;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * The operator behind the source, in one chain with it: it processes records.
 *
 * <p>It has no state: the source has the offsets. It notes the offsets after the processed records of each checkpoint,
 * which are what the source owes after a restore, whatever the source has in its state.
 */
public final class LedgerOperator extends RichFlatMapFunction<ConsumerRecord<byte[], byte[]>, Void>
        implements CheckpointedFunction, CheckpointListener {
    private static final int ROWS = 500;
    private static final long WRITE_EVERY_US = 20_000;
    private static final double NAP_S = 0.05;

    private transient Map<TopicPartition, Long> ends;
    private transient List<ConsumerRecord<byte[], byte[]>> waiting;
    private transient long polledUs; // of the last record that waits: none of them arrived later
    private transient long waitingSinceUs;
    private transient Object lock;
    private transient FlinkJob job;
    private transient Attempt attempt;

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        lock = new Object();
        ends = new HashMap<>();
        waiting = new ArrayList<>();
        attempt = Attempt.current();
        job = FlinkJob.current();
        job.add(this);
    }

    @Override
    public void flatMap(ConsumerRecord<byte[], byte[]> record, Collector<Void> out) {
        long arrivedUs = Clock.nowUs();
        if (job.channel.orphaned) {
            throw new IllegalStateException("the program of the job is gone");
        }
        work();
        synchronized (lock) {
            if (waiting.isEmpty()) {
                waitingSinceUs = arrivedUs;
            }
            polledUs = arrivedUs;
            waiting.add(record);
            if (waiting.size() >= ROWS || Clock.nowUs() - waitingSinceUs >= WRITE_EVERY_US) {
                flush();
            }
        }
    }

    /** Lets the processing time of a record pass. */
    private void work() {
        double began = Clock.monotonic();
        while (!Thread.currentThread().isInterrupted()) {
            double left = began + job.spec.seconds("per_record_s") + job.channel.perRecordS - Clock.monotonic();
            if (left <= 0) {
                return;
            }
            Clock.sleep(Math.min(left, NAP_S));
        }
    }

    /** Writes the rows that wait. */
    void flush() {
        synchronized (lock) {
            if (!waiting.isEmpty()) {
                ends.putAll(job.process(waiting, polledUs));
                waiting.clear();
            }
        }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
        synchronized (lock) {
            flush();
            Map<TopicPartition, Long> offsets = new HashMap<>(ends);
            int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            job.snapshot(context.getCheckpointId(), subtask, offsets);
        }
    }

    @Override
    public void notifyCheckpointComplete(long id) {
        job.complete(id);
    }

    @Override
    public void close() {
        if (attempt != null) {
            attempt.close();
        }
    }
}
