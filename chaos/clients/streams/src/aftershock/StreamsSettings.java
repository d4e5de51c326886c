package aftershock;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.streams.StreamsConfig;

/** The settings of an instance: of Kafka Streams, and, with its prefixes, of its Kafka clients. */
final class StreamsSettings {
    private static final String MAIN_CONSUMER = "main.consumer.";
    private static final Map<String, Set<String>> CLIENTS = Map.of(
            "consumer.", ConsumerConfig.configNames(),
            MAIN_CONSUMER, ConsumerConfig.configNames(),
            "restore.consumer.", ConsumerConfig.configNames(),
            "global.consumer.", ConsumerConfig.configNames(),
            "producer.", ProducerConfig.configNames(),
            "admin.", AdminClientConfig.configNames());

    private final Properties all;

    StreamsSettings(Spec spec, int threads) throws IOException {
        Map<String, Object> config = new HashMap<>(spec.map("config"));
        spec.map("consumer_config").forEach((name, value) -> config.put(MAIN_CONSUMER + name, value));
        all = Settings.of(spec, config, known(config.keySet()));
        boolean exactlyOnce = spec.has("transactions");
        Object isolation = spec.map("consumer_config").get("isolation.level");
        if (exactlyOnce && isolation != null && !isolation.equals("read_committed")) {
            throw new IllegalArgumentException("isolation.level: with exactly-once it is read_committed");
        }
        all.put("application.id", spec.text("group"));
        all.put("num.stream.threads", String.valueOf(threads));
        all.put("state.dir", stateDirectory(spec).toString());
        all.put("processing.guarantee", exactlyOnce ? exactlyOnce() : StreamsConfig.AT_LEAST_ONCE);
    }

    /** Returns the names of settings that the library knows; of topics, it knows any. */
    private static Set<String> known(Set<String> given) {
        Set<String> known = new HashSet<>(StreamsConfig.configDef().names());
        known.addAll(ConsumerConfig.configNames());
        known.addAll(ProducerConfig.configNames());
        for (String name : given) {
            boolean ofClient = CLIENTS.entrySet().stream()
                    .anyMatch(client -> name.startsWith(client.getKey())
                            && client.getValue().contains(name.substring(client.getKey().length())));
            if (ofClient || name.startsWith("topic.")) {
                known.add(name);
            }
        }
        return known;
    }

    /** Returns exactly-once with one producer for each thread (KIP-447): it has another name before 3.0. */
    private static String exactlyOnce() {
        return AppInfoParser.getVersion().startsWith("2.") ? "exactly_once_beta" : "exactly_once_v2";
    }

    private static Path stateDirectory(Spec spec) {
        String client = spec.client().replace('/', '-');
        String name = spec.flag("lose_state") ? client + "." + spec.incarnation() : client;
        return Path.of(spec.text("ledger")).resolveSibling("streams").resolve(name);
    }

    Properties properties() {
        return all;
    }

    /** Returns whether the stores are in memory, not in RocksDB. */
    boolean keepsStateInMemory() {
        return "in_memory".equalsIgnoreCase(all.getProperty("default.dsl.store"));
    }
}
