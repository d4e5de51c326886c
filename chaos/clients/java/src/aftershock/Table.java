package aftershock;

import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * A ledger file of one table and one incarnation: batch lines, each line one write(2).
 *
 * <p>It is a stream, because the interrupt of a thread that writes would close a FileChannel; Flink interrupts its tasks.
 */
final class Table {
    /** Version of the ledger schema that these programs write. */
    static final int SCHEMA = 1;

    private final FileOutputStream file;

    Table(Spec spec, String table) throws IOException {
        Path path = path(spec, table, spec.incarnation());
        Files.createDirectories(path.getParent());
        Files.createFile(path); // fails if it exists
        file = new FileOutputStream(path.toFile(), true);
        write(new Batch().put("schema", SCHEMA).put("table", table));
    }

    synchronized void write(Batch batch) {
        ByteBuffer bytes = batch.line();
        try {
            file.write(bytes.array(), bytes.position(), bytes.remaining());
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    /** Returns the seq after the highest one in the rows of earlier incarnations; 0 without rows. */
    static long nextSeq(Spec spec) throws IOException {
        long next = 0;
        for (long incarnation = 1; incarnation < spec.incarnation(); incarnation++) {
            Path path = path(spec, "sends", incarnation);
            if (Files.exists(path)) {
                next = Math.max(next, nextSeq(path));
            }
        }
        return next;
    }

    private static long nextSeq(Path path) throws IOException {
        long[] next = {0};
        eachLine(path, line -> next[0] = Math.max(next[0], highest(line.get("seq")) + 1));
        return next[0];
    }

    /** Returns the offset after the last delivered record of each partition in the rows of earlier incarnations. */
    static Map<String, Long> deliveredEnds(Spec spec) throws IOException {
        Map<String, Long> ends = new HashMap<>();
        for (long incarnation = 1; incarnation < spec.incarnation(); incarnation++) {
            Path path = path(spec, "deliveries", incarnation);
            if (Files.exists(path)) {
                eachLine(path, line -> ends.merge(
                        line.get("topic") + "/" + line.get("partition"), highest(line.get("offset")) + 1, Math::max));
            }
        }
        return ends;
    }

    private static void eachLine(Path path, Consumer<Map<?, ?>> use) throws IOException {
        try (BufferedReader lines = Files.newBufferedReader(path)) {
            lines.readLine();
            for (String line; (line = lines.readLine()) != null; ) {
                try {
                    use.accept((Map<?, ?>) Json.parse(line));
                } catch (IllegalArgumentException e) {
                    break; // the last line was cut off
                }
            }
        }
    }

    private static long highest(Object values) {
        if (values instanceof Map<?, ?> numbers) {
            return highestOf(numbers);
        }
        if (values instanceof List<?> all) {
            return all.stream().mapToLong(one -> ((Number) one).longValue()).max().orElse(-1);
        }
        return ((Number) values).longValue();
    }

    /** Returns the highest of numbers that are written as the first one and steps. */
    private static long highestOf(Map<?, ?> numbers) {
        long number = ((Number) numbers.get("first")).longValue();
        if (!(numbers.get("steps") instanceof List<?> steps)) {
            return number + ((Number) numbers.get("rows")).longValue() - 1;
        }
        long highest = number;
        for (Object step : steps) {
            number += ((Number) step).longValue();
            highest = Math.max(highest, number);
        }
        return highest;
    }

    private static Path path(Spec spec, String table, long incarnation) {
        return Path.of(spec.text("ledger"), table, spec.writer(incarnation) + ".jsonl");
    }
}
