package aftershock;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * A group member that polls in one thread and processes in several, also records of one partition.
 *
 * <p>It is "Decouple Consumption and Processing" of the documentation of KafkaConsumer. The thread that polls also
 * commits: `window` up to the first unfinished record of a partition, `naive` after the highest finished one, so that
 * unfinished records below are lost if the process dies. It hands out runs of records; workers take the
 * runs one by one, so a record costs no object before it is written. Delivery rows are written as records are finished; their
 * ordinal is the order of the polls.
 */
final class PooledConsumer extends GroupConsumer {
    private static final long WAIT_MS = 2;

    private final Spec workers;
    private final boolean naive;
    private final long maxPollRecords;
    private final long straggleEvery;
    private final Object lock = new Object();
    /** Guarded by the lock, as the next three: runs with records that no worker has taken. */
    private final Queue<PolledRun> waiting = new ArrayDeque<>();

    private final Map<TopicPartition, Tracking> tracking = new HashMap<>();
    private int unfinished;
    private RuntimeException failure;

    private final Map<TopicPartition, Long> requested = new HashMap<>();
    private long polled;

    PooledConsumer(Spec spec, Channel channel, Lifecycle lifecycle) throws IOException {
        super(spec, channel, lifecycle);
        workers = spec.part("workers");
        naive = workers.text("tracking").equals("naive");
        straggleEvery = workers.has("straggle_every") ? workers.number("straggle_every") : 0;
        maxPollRecords = spec.number("max_poll_records");
        for (int n = 0; n < workers.number("count"); n++) {
            Thread worker = new Thread(this::processAll, spec.client() + " worker " + n);
            worker.setDaemon(true);
            worker.start();
        }
    }

    @Override
    void process(List<ConsumerRecord<byte[], byte[]>> batch, long polledUs) {
        synchronized (lock) {
            Deliveries.eachRun(batch, (partition, records) -> {
                PolledRun run = new PolledRun(partition, records, polledUs, polled);
                polled += records.size();
                tracking.computeIfAbsent(partition, none -> new Tracking()).polled(run);
                waiting.add(run);
            });
            unfinished += batch.size();
            lock.notifyAll();
        }
        while (unfinished() >= maxPollRecords && !channel.stopping) {
            await();
            commit();
        }
    }

    @Override
    void betweenPolls() {
        commit();
    }

    /** Waits until all polled records are finished, then drops the tracking: each assignment has its own. */
    @Override
    void settle() {
        while (unfinished() > 0 && !channel.stopping) {
            await();
        }
        commit();
        synchronized (lock) {
            if (unfinished == 0) {
                tracking.clear();
                requested.clear();
            }
        }
    }

    private int unfinished() {
        synchronized (lock) {
            if (failure != null) {
                throw failure;
            }
            return unfinished;
        }
    }

    private void await() {
        Clock.sleep(WAIT_MS / 1000.0);
        idle();
    }

    /** Commits up to the tracked offsets. */
    private void commit() {
        Map<TopicPartition, Long> processed = new HashMap<>();
        Map<TopicPartition, Long> due = new HashMap<>();
        synchronized (lock) {
            tracking.forEach((partition, tracked) -> {
                if (tracked.prefix() != Tracking.NONE) {
                    processed.put(partition, tracked.prefix());
                }
                long end = naive ? tracked.highest() : tracked.prefix();
                if (end > requested.getOrDefault(partition, Tracking.NONE)) {
                    due.put(partition, end);
                }
            });
        }
        assignments.processed(processed);
        requested.putAll(due);
        committer.afterBatch(consumer, due);
    }

    private void processAll() {
        try {
            while (true) {
                processNext();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | Error e) { // the client ends with it
            synchronized (lock) {
                failure = new IllegalStateException("a worker failed: " + e, e);
            }
        }
    }

    private void processNext() throws InterruptedException {
        PolledRun run;
        int index;
        synchronized (lock) {
            while (waiting.isEmpty()) {
                lock.wait();
            }
            run = waiting.element();
            index = run.take();
            if (run.isTaken()) {
                waiting.remove();
            }
        }
        boolean done = takesTime(run.records.get(index).offset());
        synchronized (lock) {
            unfinished--;
            if (done && !channel.stopping) { // partitions may be given up at once after the order to stop
                deliveries.write(
                        run.partition,
                        run.records.subList(index, index + 1),
                        run.polledUs,
                        run.firstOrdinal + index);
                tracking.get(run.partition).finish(run, index);
            }
        }
    }

    /** Lets the processing time of a record pass. Returns false if the order to stop arrives first. */
    private boolean takesTime(long offset) {
        boolean straggles = straggleEvery > 0 && offset % straggleEvery == straggleEvery - 1;
        double extraS = straggles ? workers.seconds("straggle_s") : 0;
        double began = Clock.monotonic();
        for (double left; (left = began + perRecordS() + extraS - Clock.monotonic()) > 0; ) {
            if (channel.stopping) {
                return false;
            }
            Clock.sleep(Math.min(left, NAP_S));
        }
        return true;
    }
}
