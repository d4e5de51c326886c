package billing;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.util.backoff.FixedBackOff;

/** Calls the service for invoices for each order. An order whose call fails is written to the log, and skipped. */
@Configuration
@EnableKafka
public class SpringSkip {
    private final HttpClient http = HttpClient.newHttpClient();

    public static void main(String[] args) {
        new AnnotationConfigApplicationContext(SpringSkip.class);
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
        var consumers = new DefaultKafkaConsumerFactory<String, String>(Map.of(
                "bootstrap.servers", System.getenv("KAFKA_BOOTSTRAP_SERVERS"),
                "auto.offset.reset", "earliest",
                "session.timeout.ms", "6000",
                "key.deserializer", StringDeserializer.class,
                "value.deserializer", StringDeserializer.class));
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(consumers);
        var handler = new DefaultErrorHandler(new FixedBackOff(0, 0));
        handler.setSeekAfterError(false); // the other orders of the poll are kept, and not fetched again
        factory.setCommonErrorHandler(handler);
        return factory;
    }

    @KafkaListener(topics = "orders", groupId = "billing")
    void bill(String order) throws Exception {
        var invoice = HttpRequest.newBuilder(URI.create(System.getenv("INVOICES_URL")))
                .POST(HttpRequest.BodyPublishers.ofString(order))
                .build();
        int status = http.send(invoice, HttpResponse.BodyHandlers.discarding()).statusCode();
        if (status != 200) throw new IllegalStateException("no invoice: status " + status);
    }
}
