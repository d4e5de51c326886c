package aftershock;

import java.io.IOException;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * The way from a subtask in a task manager to the program of its job; part of the job.
 *
 * @param spec the spec of the client
 * @param port of the program, on loopback
 * @param sources the sources of the offsets that the program looked up, by partition
 */
record AttemptLink(String spec, int port, HashMap<String, String> sources) implements Serializable {
    static AttemptLink of(Spec spec, int port, Map<TopicPartition, Assignments.Start> starts) {
        HashMap<String, String> sources = new HashMap<>();
        starts.forEach((partition, start) -> sources.put(Assignments.name(partition), start.source()));
        return new AttemptLink(spec.json(), port, sources);
    }

    /** Opens an attempt of a subtask, in its thread. */
    Attempt open(int subtask) throws IOException {
        return new Attempt(this, subtask);
    }
}
