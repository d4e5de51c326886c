package aftershock;

import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * The operator in front of the sink, in one chain with it: it makes the record of each seq.
 *
 * <p>It has no state: the source continues at the seq of the checkpoint. A checkpoint is complete only if the brokers
 * acknowledged all records before it, because the sink waits for that.
 */
public final class SendOperator extends RichMapFunction<Long, ProducerRecord<byte[], byte[]>>
        implements CheckpointedFunction {
    @Override
    public void initializeState(FunctionInitializationContext context) {}

    @Override
    public ProducerRecord<byte[], byte[]> map(Long seq) {
        return FlinkSends.current().next(seq);
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) {
        FlinkSends.current().snapshot(context.getCheckpointId());
    }
}
