package aftershock;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The main consumer of a stream thread. It records assignments, commits and changes of position. */
final class RecordingConsumer extends KafkaConsumer<byte[], byte[]> {
    private final StreamsApp app;
    private final String clientId;

    RecordingConsumer(Map<String, Object> config, StreamsApp app) {
        super(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        this.app = app;
        clientId = String.valueOf(config.get("client.id"));
    }

    private StreamThreadLog member() {
        return app.member(clientId);
    }

    @Override
    public void subscribe(Collection<String> topics, ConsumerRebalanceListener listener) {
        super.subscribe(topics, new Rebalances(listener));
    }

    /** Records what a rebalance changes. Kafka Streams commits what it processed when partitions are revoked. */
    private final class Rebalances implements ConsumerRebalanceListener {
        private final ConsumerRebalanceListener library;

        Rebalances(ConsumerRebalanceListener library) {
            this.library = library;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            member().assigned(partitions, groupMetadata());
            library.onPartitionsAssigned(partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            try {
                library.onPartitionsRevoked(partitions);
            } finally {
                member().ended("revoked", partitions);
            }
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            try {
                library.onPartitionsLost(partitions);
            } finally {
                member().ended("lost", partitions);
            }
        }
    }

    @Override
    public ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
        member().beforePoll();
        ConsumerRecords<byte[], byte[]> records = super.poll(timeout);
        member().polled(records, this::positionIfKnown);
        return records;
    }

    private Long positionIfKnown(TopicPartition partition) {
        try {
            return position(partition, Duration.ZERO);
        } catch (TimeoutException e) {
            return null;
        }
    }

    @Override
    public void commitSync(Map<TopicPartition, OffsetAndMetadata> offsets) {
        member().commit(offsets, () -> super.commitSync(offsets));
    }

    @Override
    public void seek(TopicPartition partition, long offset) {
        super.seek(partition, offset);
        member().sought(partition, new Assignments.Start(offset, "committed"));
    }

    /** Kafka Streams returns to the committed offsets when it lost the state of a task, or aborted a transaction. */
    @Override
    public void seek(TopicPartition partition, OffsetAndMetadata offset) {
        super.seek(partition, offset);
        member().sought(partition, new Assignments.Start(offset.offset(), "committed"));
    }

    @Override
    public void seekToBeginning(Collection<TopicPartition> partitions) {
        super.seekToBeginning(partitions);
        reset(partitions);
    }

    @Override
    public void seekToEnd(Collection<TopicPartition> partitions) {
        super.seekToEnd(partitions);
        reset(partitions);
    }

    private void reset(Collection<TopicPartition> partitions) {
        List.copyOf(partitions).forEach(partition -> member().sought(partition, new Assignments.Start(null, "reset")));
    }
}
