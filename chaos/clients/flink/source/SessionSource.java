package aftershock;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * KafkaSource in a session cluster, where each attempt of a subtask records which partitions Flink gives it, and where they
 * begin: before the start of the reader those of a checkpoint, afterwards those of the enumerator.
 */
final class SessionSource
        implements Source<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit, KafkaSourceEnumState>,
                ResultTypeQueryable<ConsumerRecord<byte[], byte[]>> {
    private final Source<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit, KafkaSourceEnumState> source;
    private final AttemptLink link;

    SessionSource(
            Source<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit, KafkaSourceEnumState> source,
            AttemptLink link) {
        this.source = source;
        this.link = link;
    }

    /** Returns the reader of Kafka. A proxy, because releases of Flink differ in the methods of readers. */
    @Override
    @SuppressWarnings("unchecked")
    public SourceReader<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit> createReader(SourceReaderContext context)
            throws Exception {
        Attempt attempt = link.open(context.getIndexOfSubtask());
        SourceReader<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit> reader = source.createReader(context);
        boolean[] started = {false};
        return (SourceReader<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit>) Proxy.newProxyInstance(
                SourceReader.class.getClassLoader(), new Class<?>[] {SourceReader.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("start")) {
                        started[0] = true;
                    } else if (method.getName().equals("addSplits")) {
                        for (KafkaPartitionSplit split : (List<KafkaPartitionSplit>) arguments[0]) {
                            attempt.begin(split.getTopicPartition(), split.getStartingOffset(), !started[0]);
                        }
                    }
                    try {
                        return method.invoke(reader, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }

    @Override
    public Boundedness getBoundedness() {
        return source.getBoundedness();
    }

    @Override
    public SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> createEnumerator(
            SplitEnumeratorContext<KafkaPartitionSplit> context) throws Exception {
        return source.createEnumerator(context);
    }

    @Override
    public SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> restoreEnumerator(
            SplitEnumeratorContext<KafkaPartitionSplit> context, KafkaSourceEnumState state) throws Exception {
        return source.restoreEnumerator(context, state);
    }

    @Override
    public SimpleVersionedSerializer<KafkaPartitionSplit> getSplitSerializer() {
        return source.getSplitSerializer();
    }

    @Override
    public SimpleVersionedSerializer<KafkaSourceEnumState> getEnumeratorCheckpointSerializer() {
        return source.getEnumeratorCheckpointSerializer();
    }

    @Override
    public TypeInformation<ConsumerRecord<byte[], byte[]>> getProducedType() {
        return new FlinkSource.Whole().getProducedType();
    }
}
