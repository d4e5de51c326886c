package aftershock;

import java.util.Map;

/** Runs a streaming query as a client: Spark, query and ledger in one JVM. Without an argument, prints Spark's release. */
public final class SparkMain {
    private SparkMain() {}

    /** Runs a client. The exit code is 0 only after a clean stop. */
    public static void main(String[] argv) {
        String release = org.apache.spark.package$.MODULE$.SPARK_VERSION();
        if (argv.length == 0) {
            System.out.println(release);
            return;
        }
        Main.run(argv[0], SparkMain::build, Map.of("spark", release));
    }

    private static Client build(String program, Spec spec, Channel channel, Lifecycle lifecycle) throws Exception {
        if (!program.equals("assign_consumer")) {
            throw new IllegalArgumentException("there is no program " + program + ": a query assigns partitions itself");
        }
        return new SparkConsumer(spec, channel, lifecycle);
    }
}
