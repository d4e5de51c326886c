package aftershock;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.ClusterOptions;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.configuration.HeartbeatManagerOptions;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** The settings of a job: of Flink, and of its Kafka clients. */
final class FlinkSettings {
    private static final long CHECKPOINT_MS = 1000;
    private static final Class<?>[] OPTIONS = {
        CoreOptions.class,
        PipelineOptions.class,
        CheckpointingOptions.class,
        StateBackendOptions.class,
        TaskManagerOptions.class,
        JobManagerOptions.class,
        HeartbeatManagerOptions.class,
        ClusterOptions.class,
    };

    private final Spec spec;
    private final Map<String, Object> ofFlink = new HashMap<>();
    private final Map<String, Object> ofKafka = new HashMap<>();

    FlinkSettings(Spec spec) {
        this.spec = spec;
        Set<String> options = options();
        spec.map("config").forEach((name, value) -> (options.contains(name) ? ofFlink : ofKafka).put(name, value));
    }

    private static Set<String> options() {
        Set<String> names = new HashSet<>();
        for (Class<?> holder : OPTIONS) {
            for (Field field : holder.getFields()) {
                try {
                    if (Modifier.isStatic(field.getModifiers()) && field.get(null) instanceof ConfigOption<?> option) {
                        names.add(option.key());
                    }
                } catch (IllegalAccessException e) {
                    throw new IllegalStateException(e);
                }
            }
        }
        return names;
    }

    int parallelism() {
        return Integer.parseInt(String.valueOf(ofFlink.getOrDefault("parallelism.default", 1)));
    }

    /** Returns what Flink does with an offset out of range. */
    String reset() {
        return String.valueOf(ofKafka.getOrDefault("auto.offset.reset", "latest")).toLowerCase();
    }

    boolean commits() {
        return !spec.part("commit").text("when").equals("never");
    }

    private long checkpointMs() {
        return spec.has("checkpoint_every_s") ? Math.round(spec.seconds("checkpoint_every_s") * 1000) : CHECKPOINT_MS;
    }

    /** Returns milliseconds between two searches for new partitions; null for none. */
    Long discoverMs() {
        return spec.has("discover_s") ? Math.max(1, Math.round(spec.seconds("discover_s") * 1000)) : null;
    }

    /** Returns the settings of Flink. restored: the checkpoint to start from, or null. */
    Configuration flink(Path checkpoints, String restored) {
        Map<String, String> all = new HashMap<>();
        all.put("execution.checkpointing.dir", checkpoints.toUri().toString());
        all.put("state.checkpoints.dir", checkpoints.toUri().toString()); // its name in Flink 1
        all.put("execution.checkpointing.interval", checkpointMs() + " ms");
        all.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        if (!spec.has("session")) {
            all.put("restart-strategy.type", "none"); // a job that fails ends its client
        }
        all.put("taskmanager.memory.network.min", "8m");
        all.put("taskmanager.memory.network.max", "8m");
        all.put("taskmanager.memory.managed.size", "1m");
        if (restored != null) {
            all.put("execution.savepoint.path", restored); // its name in Flink 1
            all.put("execution.state-recovery.path", restored);
        }
        ofFlink.forEach((name, value) -> all.put(name, String.valueOf(value)));
        return Configuration.fromMap(all);
    }

    /** Returns the settings of the Kafka producers. Throws IllegalArgumentException for one that nobody knows. */
    Properties producer() throws IOException {
        Properties settings = Settings.of(spec, ofKafka, ProducerConfig.configNames());
        if (spec.has("transactions")) {
            long timeoutMs = Math.round(spec.part("transactions").seconds("timeout_s") * 1000);
            settings.put("transaction.timeout.ms", String.valueOf(timeoutMs));
        }
        return settings;
    }

    /** Returns the settings of the Kafka consumers. Throws IllegalArgumentException for one that nobody knows. */
    Properties kafka() throws IOException {
        Properties settings = Settings.of(spec, ofKafka, ConsumerConfig.configNames());
        if (spec.has("group")) {
            settings.put("group.id", spec.text("group"));
        }
        settings.put("max.poll.records", String.valueOf(spec.number("max_poll_records")));
        settings.put("enable.auto.commit", "false");
        return settings;
    }

    /** Returns the same, with the listener for confirmed commits. */
    Properties listened() throws IOException {
        Properties settings = kafka();
        settings.merge("interceptor.classes", FlinkCommitListener.class.getName(), (own, other) -> own + "," + other);
        return settings;
    }
}
