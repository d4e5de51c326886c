package aftershock;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** What the program of a job that reads does with its rows. In a session cluster, the task managers write them. */
interface JobRows {
    /** Records where the partitions of the job begin, unless the task managers do. */
    void begin(Map<TopicPartition, Assignments.Start> found);

    /** Does what is due every few milliseconds. */
    void flush();

    /** Reports the progress of the job. */
    void progress();

    /** Writes what is left. Call it when the job has ended. */
    void close();
}
