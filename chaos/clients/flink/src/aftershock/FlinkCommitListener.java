package aftershock;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * An interceptor that records the commits that the coordinator confirmed, and which record of a partition came first. A
 * commit that fails reaches nobody.
 */
public final class FlinkCommitListener implements ConsumerInterceptor<byte[], byte[]> {
    private FlinkJob job;

    /** Runs in the thread of a task, which makes the consumer. */
    @Override
    public void configure(Map<String, ?> settings) {
        job = FlinkJob.current();
    }

    @Override
    public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
        job.polled(records);
        return records;
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<TopicPartition, Long> plain = new HashMap<>();
        offsets.forEach((partition, offset) -> plain.put(partition, offset.offset()));
        job.committed(plain);
    }

    @Override
    public void close() {}
}
