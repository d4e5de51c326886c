package aftershock;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.connector.base.source.reader.fetcher.SplitFetcher;
import org.apache.flink.connector.base.source.reader.fetcher.SplitFetcherManager;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.common.TopicPartition;

/**
 * KafkaSource with readers that record which partitions Flink gives them, and where they begin: partitions of a
 * checkpoint before the start of the reader, afterwards partitions from the enumerator.
 *
 * <p>A split may have a mark in place of an offset, in a checkpoint too: the consumer of the reader resolves it (FLIP-27,
 * `ReaderHandledOffsetsInitializer`). Its position is read from outside, and changed by nobody but the library.
 */
final class SeenSource
        implements Source<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit, KafkaSourceEnumState>,
                ResultTypeQueryable<ConsumerRecord<byte[], byte[]>> {
    private final Source<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit, KafkaSourceEnumState> source;
    private final AttemptLink link;

    /** link: to the program of a job in a session cluster, else null. */
    SeenSource(
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
        FlinkJob job = link == null ? FlinkJob.current() : link.open(context.getIndexOfSubtask()).job;
        SourceReader<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit> reader = source.createReader(context);
        boolean[] started = {false};
        return (SourceReader<ConsumerRecord<byte[], byte[]>, KafkaPartitionSplit>) Proxy.newProxyInstance(
                SourceReader.class.getClassLoader(), new Class<?>[] {SourceReader.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("start")) {
                        started[0] = true;
                    } else if (method.getName().equals("addSplits")) {
                        for (KafkaPartitionSplit split : (List<KafkaPartitionSplit>) arguments[0]) {
                            TopicPartition partition = split.getTopicPartition();
                            job.given(partition, split.getStartingOffset(), !started[0], () -> position(reader, partition));
                        }
                    }
                    try {
                        return method.invoke(reader, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }

    /** Returns the position of the consumer of a reader in a partition; null as long as it has none. */
    private static Long position(SourceReader<?, ?> reader, TopicPartition partition) {
        SplitFetcherManager<?, ?> manager = (SplitFetcherManager<?, ?>) part(reader, "splitFetcherManager");
        for (Object fetcher : ((Map<?, ?>) part(manager, "fetchers")).values()) {
            Object consumer = part(((SplitFetcher<?, ?>) fetcher).getSplitReader(), "consumer");
            Object delegate = part(consumer, "delegate"); // of Kafka 3.7 and later
            SubscriptionState state = (SubscriptionState) part(delegate == null ? consumer : delegate, "subscriptions");
            synchronized (state) {
                if (state.isAssigned(partition) && state.hasValidPosition(partition)) {
                    return state.position(partition).offset;
                }
            }
        }
        return null;
    }

    /** Returns a field of an object, inherited or not; null without one. */
    private static Object part(Object owner, String name) {
        for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(owner);
            } catch (NoSuchFieldException e) {
                continue;
            } catch (IllegalAccessException e) {
                throw new IllegalStateException(e);
            }
        }
        return null;
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
