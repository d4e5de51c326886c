package aftershock;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** Logs which stores are restored from their changelogs. */
final class RestoreLog implements StateRestoreListener {
    @Override
    public void onRestoreStart(TopicPartition changelog, String store, long from, long to) {
        Log.line("restoring " + store + " from " + changelog + ", offsets " + from + " to " + to);
    }

    @Override
    public void onBatchRestored(TopicPartition changelog, String store, long to, long records) {}

    @Override
    public void onRestoreEnd(TopicPartition changelog, String store, long records) {
        Log.line("restored " + store + " from " + changelog + ", " + records + " records");
    }
}
