package aftershock;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;

/**
 * The checkpoint location of a query, read as Spark writes it (OffsetSeqLog, CommitLog, KafkaMicroBatchStream).
 *
 * <p>`sources/0/0` has the offsets at which the query began, `offsets/N` those where batch N ends, before it runs, and
 * `commits/N` appears when it is complete. A query that starts again plans the batch after the last complete one; if
 * that batch had been planned before, it has the same offsets again.
 */
final class SparkCheckpoints {
    private static final long NONE = -1;

    final Path location;

    SparkCheckpoints(Path location) {
        this.location = location;
    }

    /** Returns the number of the last complete batch; -1 without one. */
    long lastComplete() throws IOException {
        return last("commits");
    }

    /** Returns the number of the last planned batch; -1 without one. */
    long lastPlanned() throws IOException {
        return last("offsets");
    }

    /** Returns the offsets where a batch ends; for -1, those at which the query began. Null if they are not stored. */
    Map<TopicPartition, Long> end(long batch) throws IOException {
        Path file = batch == NONE ? location.resolve("sources/0/0") : location.resolve("offsets/" + batch);
        if (!Files.exists(file)) {
            return null;
        }
        List<String> lines = Files.readAllLines(file);
        String offsets = lines.get(lines.size() - 1);
        // the offsets at which the query began: a version, v1, may be in front of them
        return parse(offsets.substring(offsets.indexOf('{')));
    }

    private static Map<TopicPartition, Long> parse(String text) {
        Map<TopicPartition, Long> found = new LinkedHashMap<>();
        ((Map<?, ?>) Json.parse(text)).forEach((topic, partitions) -> ((Map<?, ?>) partitions)
                .forEach((number, offset) -> found.put(
                        new TopicPartition((String) topic, Integer.parseInt((String) number)),
                        ((Number) offset).longValue())));
        return found;
    }

    /** Returns the highest number among the complete files of a log. Others have a name such as .5.UUID.tmp. */
    private long last(String log) throws IOException {
        Path folder = location.resolve(log);
        if (!Files.isDirectory(folder)) {
            return NONE;
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> name.matches("\\d+"))
                    .mapToLong(Long::parseLong)
                    .max()
                    .orElse(NONE);
        }
    }
}
