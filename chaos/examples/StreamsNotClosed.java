import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/** Counts the orders of each customer with Kafka Streams and a standby. It ends wherever it is. */
public class StreamsNotClosed {
    private static final Pattern CUSTOMER = Pattern.compile("\"customer\": ?\"([^\"]*)\"");

    public static void main(String[] args) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "counts");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BOOTSTRAP_SERVERS"));
        config.put(StreamsConfig.STATE_DIR_CONFIG, System.getenv("STATE_DIR"));
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
        config.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000");
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("orders")
                .groupBy((key, order) -> customer(order))
                .count()
                .toStream()
                .mapValues(orders -> "{\"orders\": " + orders + "}")
                .to("counts");
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.start();
    }

    private static String customer(String order) {
        Matcher found = CUSTOMER.matcher(order);
        return found.find() ? found.group(1) : "nobody";
    }
}
