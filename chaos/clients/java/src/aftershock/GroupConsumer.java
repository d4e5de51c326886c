package aftershock;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * The group consumer: it subscribes, and its rebalance listener records each assignment with the position that the
 * library itself has determined.
 */
class GroupConsumer extends Reader implements ConsumerRebalanceListener {
    GroupConsumer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        this(spec, spec.part("commit"), spec.map("config"), channel, lifecycle);
    }

    GroupConsumer(Spec spec, Spec commit, Map<String, Object> config, Channel channel, Lifecycle lifecycle)
            throws IOException {
        super(spec, commit, config, "subscribe", channel, lifecycle);
    }

    @Override
    public boolean run() {
        subscribe();
        read();
        close();
        return true;
    }

    /** Joins the group. A topic that begins with ^ is a regular expression. */
    final void subscribe() {
        List<String> topics = spec.texts("topics");
        if (topics.get(0).startsWith("^")) {
            consumer.subscribe(Pattern.compile(topics.get(0)), this);
        } else {
            consumer.subscribe(topics, this);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        settle();
        assignments.membership(consumer.groupMetadata());
        if (!partitions.isEmpty()) {
            assignments.begin("assigned", starts(partitions));
        }
        progress();
    }

    /** Returns the positions of the library: the committed offset, or else what auto.offset.reset means now. */
    private Map<TopicPartition, Assignments.Start> starts(Collection<TopicPartition> partitions) {
        Map<TopicPartition, Assignments.Start> starts = new LinkedHashMap<>();
        try {
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(new HashSet<>(partitions));
            for (TopicPartition partition : partitions) {
                String source = committed.get(partition) == null ? "reset" : "committed";
                starts.put(partition, new Assignments.Start(consumer.position(partition), source));
            }
        } catch (org.apache.kafka.common.errors.TimeoutException e) {
            Log.line("positions unknown: " + e.getMessage());
            partitions.forEach(partition -> starts.putIfAbsent(partition, new Assignments.Start(null, null)));
        }
        return starts;
    }

    /** Returns the committed offsets of partitions, or else what auto.offset.reset means now. */
    final Map<TopicPartition, Assignments.Start> rewindTargets(Collection<TopicPartition> partitions) {
        Map<TopicPartition, Assignments.Start> starts = new LinkedHashMap<>();
        List<TopicPartition> others = new ArrayList<>();
        consumer.committed(new HashSet<>(partitions)).forEach((partition, offset) -> {
            if (offset == null) {
                others.add(partition);
            } else {
                starts.put(partition, new Assignments.Start(offset.offset(), "committed"));
            }
        });
        if (!others.isEmpty()) {
            boolean earliest = "earliest".equals(spec.map("consumer_config").get("auto.offset.reset"));
            (earliest ? consumer.beginningOffsets(others) : consumer.endOffsets(others))
                    .forEach((partition, offset) -> starts.put(partition, new Assignments.Start(offset, "reset")));
        }
        return starts;
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        release("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        release("lost", partitions);
    }

    /** Gives partitions up. */
    void release(String event, Collection<TopicPartition> partitions) throws KafkaException {
        giveUp(event, partitions);
    }
}
