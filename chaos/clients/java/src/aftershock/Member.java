package aftershock;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.AppInfoParser;

/** A client of the process with its channel and its lifecycle. A process may run several clients, each in a thread. */
final class Member implements Runnable {
    final Channel channel;
    private final Spec spec;
    private final Main.Builder builder;
    private final Map<String, String> libraries;
    private final Lifecycle lifecycle;
    private volatile boolean stopped;

    Member(Spec spec, boolean hasMates, Main.Builder builder, Map<String, String> libraries) throws IOException {
        this.spec = spec;
        this.builder = builder;
        this.libraries = libraries;
        channel = new Channel(hasMates ? spec.client() : null);
        String role = spec.text("program").endsWith("consumer") ? "consumer" : "producer";
        lifecycle = new Lifecycle(spec, channel, role);
    }

    /** Runs all, the first in this thread. Returns whether each stopped cleanly. */
    static boolean runAll(List<Member> members) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (Member member : members.subList(1, members.size())) {
            threads.add(new Thread(member, member.spec.client()));
        }
        threads.forEach(Thread::start);
        members.get(0).run();
        for (Thread thread : threads) {
            thread.join();
        }
        return members.stream().allMatch(member -> member.stopped);
    }

    /** Runs the client until it ends. What it throws is recorded as its error; its mates continue. */
    @Override
    public void run() {
        try {
            Client client = builder.build(spec.text("program"), spec, channel, lifecycle);
            lifecycle.event("started", started());
            if (client.run() && !channel.orphaned) {
                lifecycle.event("stopped", Map.of());
                stopped = true;
            }
        } catch (Throwable e) {
            e.printStackTrace();
            lifecycle.error(Outcomes.describe(e), true); // last, because a failure shows the last lines of the log
        }
    }

    private Map<String, Object> started() {
        Map<String, Object> detail = new LinkedHashMap<>(libraries);
        detail.put("kafka_clients", AppInfoParser.getVersion());
        detail.put("java", Runtime.version().toString());
        for (String name : new String[] {"first_seq", "checkpoint"}) {
            if (spec.has(name)) {
                detail.put(name, name.equals("first_seq") ? (Object) spec.number(name) : spec.map(name));
            }
        }
        return detail;
    }
}
