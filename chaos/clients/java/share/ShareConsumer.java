package aftershock;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The member of a share group: poll, write the rows of the acquired records, process and acknowledge them.
 *
 * <p>With explicit acknowledgement it commits after each batch; with implicit, the next poll accepts all records of the
 * last one. An order to stop ends a batch early: the records that are left go back to the group.
 */
final class ShareConsumer implements Client {
    private static final Duration IDLE_POLL = Duration.ofMillis(100);
    private static final Duration CLOSE = Duration.ofSeconds(10); // its default is as long as `limits.clients`
    private static final double SAME_ERROR_EVERY_S = 1;

    private final Spec spec;
    private final Channel channel;
    private final Lifecycle lifecycle;
    private final Speed speed;
    private final Acquisitions acquisitions;
    private final Acknowledgements acknowledgements;
    private final KafkaShareConsumer<byte[], byte[]> consumer;
    private final boolean explicit;
    private final boolean sync;
    private String lastError = "";
    private double lastErrorAt;

    ShareConsumer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        this.spec = spec;
        this.channel = channel;
        this.lifecycle = lifecycle;
        speed = new Speed(channel, lifecycle);
        acquisitions = new Acquisitions(spec);
        acknowledgements = new Acknowledgements(spec);
        explicit = !spec.text("commit").equals("implicit");
        sync = spec.text("commit").equals("sync");
        Properties settings = Settings.of(spec, spec.map("config"), ConsumerConfig.configNames());
        settings.put("group.id", spec.text("group"));
        settings.put("max.poll.records", String.valueOf(spec.number("max_poll_records")));
        settings.put("share.acknowledgement.mode", explicit ? "explicit" : "implicit");
        consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.setAcknowledgementCommitCallback(acknowledgements);
    }

    @Override
    public boolean run() {
        consumer.subscribe(spec.texts("topics"));
        while (!channel.stopping) {
            ConsumerRecords<byte[], byte[]> records = poll();
            if (!records.isEmpty()) {
                process(records);
            }
            speed.apply();
            progress();
        }
        consumer.close(CLOSE);
        channel.progress(fields());
        return true;
    }

    private ConsumerRecords<byte[], byte[]> poll() {
        try {
            return consumer.poll(IDLE_POLL);
        } catch (RetriableException e) { // an application polls again
            report(Outcomes.describe(e));
            Clock.sleep(Reader.NAP_S);
            return ConsumerRecords.empty();
        }
    }

    private void process(ConsumerRecords<byte[], byte[]> polled) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>(polled.count());
        polled.forEach(records::add);
        long first = acquisitions.write(records, Clock.nowUs());
        boolean working = true;
        for (int i = 0; i < records.size() && (working = work()); i++) {
            if (explicit) {
                acknowledge(records.get(i), first + i);
            }
        }
        if (!explicit) { // the next poll, or the close, accepts all of them
            for (int i = 0; i < records.size(); i++) {
                acknowledgements.requested(records.get(i), first + i, AcknowledgeType.ACCEPT);
            }
        } else if (working && sync) { // else the close commits what is acknowledged, and gives the rest back
            consumer.commitSync().values().forEach(error -> error.ifPresent(e -> report(Outcomes.describe(e))));
        } else if (working) {
            consumer.commitAsync();
        }
    }

    private void acknowledge(ConsumerRecord<byte[], byte[]> record, long ordinal) {
        AcknowledgeType type = type(record);
        acknowledgements.requested(record, ordinal, type);
        try {
            consumer.acknowledge(record, type);
        } catch (IllegalStateException e) {
            acknowledgements.refused(record, Outcomes.describe(e));
        }
    }

    private AcknowledgeType type(ConsumerRecord<byte[], byte[]> record) {
        int count = record.deliveryCount().map(Short::intValue).orElse(1);
        if (isEvery("reject_every", record)) {
            return AcknowledgeType.REJECT;
        }
        boolean release = isEvery("release_every", record) && count <= spec.number("release_times");
        return release ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
    }

    private boolean isEvery(String name, ConsumerRecord<byte[], byte[]> record) {
        return spec.has(name) && (record.offset() + 1) % spec.number(name) == 0;
    }

    /** Lets the processing time of a record pass. Returns false if the order to stop arrives first. */
    private boolean work() {
        double began = Clock.monotonic();
        for (double left; (left = began + spec.seconds("per_record_s") + channel.perRecordS - Clock.monotonic()) > 0; ) {
            Clock.sleep(Math.min(left, Reader.NAP_S));
            if (channel.stopping) {
                return false;
            }
            speed.apply();
            progress();
        }
        return !channel.orphaned;
    }

    private void report(String error) {
        if (!error.equals(lastError) || Clock.monotonic() > lastErrorAt + SAME_ERROR_EVERY_S) {
            lastError = error;
            lastErrorAt = Clock.monotonic();
            lifecycle.error(error, false);
        }
    }

    private void progress() {
        if (channel.progressDue()) {
            channel.progress(fields());
        }
    }

    private Map<String, Object> fields() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("delivered", acquisitions.written());
        fields.put("again", acquisitions.again());
        fields.put("refused", acknowledgements.refused());
        return fields;
    }
}
