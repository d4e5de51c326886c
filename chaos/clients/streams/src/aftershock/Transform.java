package aftershock;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The transformation: one output for each input, with the coordinates of the input in the header `aftershock-input`.
 * With state, the output has the key of its input, and the count of that key in the header `aftershock-count`.
 *
 * <p>The timestamp of an output is the time of its processing, not the input's timestamp, as for all processors.
 */
final class Transform implements Processor<byte[], byte[], byte[], byte[]> {
    /** Record header with the coordinates of the input; see chaos.ledger.record. */
    private static final String INPUT_HEADER = "aftershock-input";

    /** Record header with the count of the key. */
    private static final String COUNT_HEADER = "aftershock-count";

    private static final String STORE = "count";

    private final StreamsApp app;
    private final boolean counts;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<byte[], Long> store;

    private Transform(StreamsApp app, boolean counts) {
        this.app = app;
        this.counts = counts;
    }

    /** Returns the topology: source, transformation and sink. */
    static Topology topology(Spec spec, boolean inMemory, StreamsApp app) {
        Topology topology = new Topology();
        String[] topics = spec.texts("topics").toArray(new String[0]);
        topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), topics);
        boolean counts = spec.has("state");
        topology.addProcessor("transform", () -> new Transform(app, counts), "source");
        if (counts) {
            topology.addStateStore(
                    Stores.keyValueStoreBuilder(
                            inMemory ? Stores.inMemoryKeyValueStore(STORE) : Stores.persistentKeyValueStore(STORE),
                            Serdes.ByteArray(),
                            Serdes.Long()),
                    "transform");
        }
        topology.addSink("sink", spec.text("topic"), new ByteArraySerializer(), new ByteArraySerializer(), "transform");
        return topology;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> initialized) {
        context = initialized;
        store = counts ? context.getStateStore(STORE) : null;
    }

    @Override
    public void process(Record<byte[], byte[]> input) {
        StreamThreadLog member = app.member(Thread.currentThread().getName());
        RecordMetadata from = context.recordMetadata().orElseThrow();
        member.process(from.topic(), from.partition(), from.offset());
        RecordHeaders headers = new RecordHeaders();
        String origin = from.topic() + "/" + from.partition() + "/" + from.offset();
        headers.add(INPUT_HEADER, origin.getBytes(StandardCharsets.UTF_8));
        byte[] key = counts ? input.key() : null;
        if (counts) {
            headers.add(COUNT_HEADER, String.valueOf(count(key)).getBytes(StandardCharsets.UTF_8));
        }
        long nowUs = Clock.nowUs();
        context.forward(new Record<>(key, member.value(nowUs, key), nowUs / 1000, headers));
    }

    /** Counts an input of a key. Returns how many there are. */
    private long count(byte[] key) {
        Long before = store.get(key);
        long count = before == null ? 1 : before + 1;
        store.put(key, count);
        return count;
    }
}
