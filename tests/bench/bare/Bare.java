import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The bare loops of kafka-clients: BOOTSTRAP TOPIC RECORDS GROUP, where the producer has no group. */
public final class Bare {
    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        long records = Long.parseLong(args[2]);
        double took = args.length == 3 ? produce(settings, args[1], records) : consume(settings, args, records);
        System.out.println("{\"event\": \"progress\", \"done\": true, \"took_s\": " + took + "}");
    }

    private static double produce(Properties settings, String topic, long records) {
        AtomicLong acked = new AtomicLong();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            System.out.println("{\"event\": \"started\"}");
            long began = System.nanoTime();
            for (long i = 0; i < records; i++) {
                producer.send(new ProducerRecord<>(topic, new byte[VALUE_SIZE]), (metadata, error) -> {
                    if (error == null) {
                        acked.incrementAndGet();
                    }
                });
            }
            producer.flush();
            if (acked.get() != records) {
                throw new IllegalStateException(acked + " of " + records + " acknowledged");
            }
            return (System.nanoTime() - began) / 1e9;
        }
    }

    private static double consume(Properties settings, String[] args, long records) {
        settings.put("group.id", args[3]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            System.out.println("{\"event\": \"started\"}");
            consumer.subscribe(List.of(args[1]));
            long count = 0;
            long began = 0;
            while (count < records) {
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    if (count++ == 0) {
                        began = System.nanoTime();
                    }
                    if (record.value() == null) {
                        throw new IllegalStateException("a record without a value");
                    }
                }
            }
            return (System.nanoTime() - began) / 1e9;
        }
    }

    private static final int VALUE_SIZE = Integer.getInteger("value.size");
}
