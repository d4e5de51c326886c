import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Writes an invoice for each order, and commits the offsets of the orders after their invoices. */
public class PlainCommits {
    public static void main(String[] args) throws InterruptedException {
        Properties config = new Properties();
        config.put("bootstrap.servers", System.getenv("KAFKA_BOOTSTRAP_SERVERS"));
        config.put("group.id", "billing");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("session.timeout.ms", "6000");
        config.put("max.poll.records", "100");
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
                var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            consumer.subscribe(List.of("orders"));
            while (true) {
                ConsumerRecords<String, String> orders = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> order : orders) {
                    Thread.sleep(8); // the work
                    producer.send(new ProducerRecord<>("invoices", order.key(), order.value()));
                }
                producer.flush();
                consumer.commitSync();
            }
        }
    }
}
