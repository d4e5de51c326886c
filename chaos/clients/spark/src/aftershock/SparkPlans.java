package aftershock;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The plan of the batch that runs.
 *
 * <p>The checkpoint location has only the offsets where a batch ends. A partition that the query found since its last
 * batch begins at the first offset that Spark looked up when it planned the batch (KafkaOffsetReader).
 */
final class SparkPlans {
    private SparkPlans() {}

    /**
     * Returns the offsets at which the batch of the only query begins. A partition without records begins at its end.
     * Throws if the plan shows no scan: every partition would seem to be without records.
     */
    static Map<TopicPartition, Long> begins(SparkSession spark, Map<TopicPartition, Long> ends) {
        Map<TopicPartition, Long> begins = new HashMap<>(ends);
        StreamingQueryWrapper query = (StreamingQueryWrapper) spark.streams().active()[0];
        SparkPlan plan = query.streamingQuery().lastExecution().executedPlan();
        boolean scans = false;
        for (SparkPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
            if (leaf instanceof MicroBatchScanExec scan) {
                scans = true;
                CollectionConverters.asJava(scan.inputPartitions()).forEach(part -> {
                    KafkaOffsetRange range = ((KafkaBatchInputPartition) part).offsetRange();
                    begins.merge(range.topicPartition(), range.fromOffset(), Math::min);
                });
            }
        }
        if (!scans) {
            throw new IllegalStateException("the plan of a batch shows no scan: " + plan.nodeName());
        }
        return begins;
    }
}
