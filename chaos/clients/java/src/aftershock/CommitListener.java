package aftershock;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** An interceptor that records the automatic commits of the library. */
public final class CommitListener implements ConsumerInterceptor<byte[], byte[]> {
    static final String COMMITTER = "aftershock.committer";

    private Committer committer;

    @Override
    public void configure(Map<String, ?> settings) {
        committer = (Committer) settings.get(COMMITTER);
    }

    @Override
    public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
        return records;
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        committer.committed(offsets);
    }

    @Override
    public void close() {}
}
