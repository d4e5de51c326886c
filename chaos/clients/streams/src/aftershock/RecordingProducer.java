package aftershock;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The producer of a stream thread. It records the sends to the output topic, not those to changelogs, and the
 * transactions.
 */
final class RecordingProducer extends KafkaProducer<byte[], byte[]> {
    private final StreamsApp app;
    private final String clientId;
    private final String output;
    private boolean open;

    RecordingProducer(Map<String, Object> config, StreamsApp app, String output) {
        super(config, new ByteArraySerializer(), new ByteArraySerializer());
        this.app = app;
        this.output = output;
        clientId = String.valueOf(config.get("client.id"));
    }

    private StreamThreadLog member() {
        return app.member(clientId);
    }

    @Override
    public Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
        if (!record.topic().equals(output)) {
            return super.send(record, callback);
        }
        StreamThreadLog.Answer answer = member().sending(record);
        try {
            return super.send(record, (metadata, error) -> {
                answer.arrived(metadata, error);
                callback.onCompletion(metadata, error);
            });
        } catch (RuntimeException e) {
            answer.arrived(null, e);
            throw e;
        }
    }

    @Override
    public void beginTransaction() {
        super.beginTransaction();
        open = true;
        member().transactionBegan();
    }

    @Override
    public void sendOffsetsToTransaction(
            Map<TopicPartition, OffsetAndMetadata> offsets, ConsumerGroupMetadata group) {
        long requestedUs = member().beforeCommit();
        super.sendOffsetsToTransaction(offsets, group);
        member().offsetsSent(offsets, requestedUs);
    }

    @Override
    public void commitTransaction() {
        member().beforeCommit();
        member().endRequested();
        super.commitTransaction(); // an error leaves it open: it is aborted, or the producer is closed
        ended("committed");
    }

    @Override
    public void abortTransaction() {
        super.abortTransaction();
        ended("aborted");
    }

    @Override
    public void close(Duration timeout) {
        super.close(timeout);
        if (open) {
            ended("unknown");
        }
    }

    private void ended(String outcome) {
        open = false;
        member().transactionEnded(outcome);
    }
}
