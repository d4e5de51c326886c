package aftershock;

import java.util.BitSet;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** Records of one partition that were polled together: which of them workers have taken and finished. */
final class PolledRun {
    final TopicPartition partition;
    final List<ConsumerRecord<byte[], byte[]>> records;
    final long polledUs;
    final long firstOrdinal;
    private final BitSet finished;
    private int taken;
    private int prefix;

    PolledRun(
            TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records, long polledUs, long firstOrdinal) {
        this.partition = partition;
        this.records = records;
        this.polledUs = polledUs;
        this.firstOrdinal = firstOrdinal;
        finished = new BitSet(records.size());
    }

    /** Returns the index of the next record to process. */
    int take() {
        return taken++;
    }

    boolean isTaken() {
        return taken == records.size();
    }

    void finish(int index) {
        finished.set(index);
        prefix = finished.nextClearBit(prefix);
    }

    boolean isFinished() {
        return prefix == records.size();
    }

    /** Returns the offset after the records that are finished without a gap; `none` if there are none. */
    long prefixEnd(long none) {
        return prefix == 0 ? none : records.get(prefix - 1).offset() + 1;
    }

    /** Returns the offset after the highest finished record; `none` if there is none. */
    long highestEnd(long none) {
        return finished.isEmpty() ? none : records.get(finished.length() - 1).offset() + 1;
    }
}
