package aftershock;

import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.jar.JarFile;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.streaming.StreamingQuery;

/** Loads what a query loads, for an archive of classes: runs a batch of numbers, without a broker. */
public final class SparkTraining {
    private static final String CLASS = ".class";
    /** What clients use of the Java client: other parts of its jar are as large. */
    private static final List<String> USED = List.of(
            "org/apache/kafka/clients/", "org/apache/kafka/common/", "org/apache/spark/sql/kafka010/");

    private SparkTraining() {}

    /** Runs the batch in an empty directory. */
    public static void main(String[] argv) throws Exception {
        Path directory = Path.of(argv[0]);
        SparkSession spark = SparkSettings.session("training", directory, Map.of());
        Dataset<Row> numbers = spark.readStream()
                .format("rate-micro-batch")
                .option("rowsPerBatch", 10)
                .load()
                .selectExpr("'t' topic", "0 partition", "value offset", "cast(string(value) as binary) value");
        VoidFunction2<Dataset<Row>, Long> each = (batch, number) -> SparkSink.records(batch);
        StreamingQuery query = SparkSettings.start(numbers, each, directory.resolve("checkpoints"), 0.1);
        while (query.lastProgress() == null && query.isActive()) {
            Clock.sleep(0.01);
        }
        query.stop();
        loadJar(KafkaSourceProvider.class);
        loadJar(KafkaConsumer.class);
        Runtime.getRuntime().halt(0);
    }

    /** Loads the classes in the jar of a class, except for those that need a library that is not there. */
    static void loadJar(Class<?> one) throws IOException, URISyntaxException {
        Path path = Path.of(one.getProtectionDomain().getCodeSource().getLocation().toURI());
        try (JarFile jar = new JarFile(path.toFile())) {
            jar.stream()
                    .map(entry -> entry.getName())
                    .filter(name -> name.endsWith(CLASS) && USED.stream().anyMatch(name::startsWith))
                    .forEach(name -> load(name.substring(0, name.length() - CLASS.length()).replace('/', '.')));
        }
    }

    private static void load(String name) {
        try {
            Class.forName(name, false, SparkTraining.class.getClassLoader());
        } catch (ClassNotFoundException | LinkageError e) {
            Log.line(name + " is not in the archive: " + e);
        }
    }
}
