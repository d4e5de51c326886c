package aftershock;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.AppInfoParser;

/** Runs the client of a spec, which is the only argument. Without an argument, prints the release of the library. */
public final class Main {
    private Main() {}

    /** Runs a client. The exit code is 0 only after a clean stop. */
    public static void main(String[] argv) throws Exception {
        if (argv.length == 0) {
            System.out.println(AppInfoParser.getVersion());
            return;
        }
        run(argv[0], Main::build, Map.of());
    }

    /** Makes the client of a spec. */
    interface Builder {
        Client build(String program, Spec spec, Channel channel, Lifecycle lifecycle) throws Exception;
    }

    /**
     * Runs the client of a spec, or its clients, each in a thread.
     *
     * @param libraries those above the Kafka client, with their releases
     */
    static void run(String path, Builder builder, Map<String, String> libraries) {
        int exit = 1;
        try {
            Spec spec = Spec.load(path);
            List<Spec> clients = spec.clients();
            List<Member> members = new ArrayList<>();
            for (Spec client : clients) {
                members.add(new Member(client, clients.size() > 1, builder, libraries));
            }
            Orders.listenFor(members.stream().map(member -> member.channel).toList());
            exit = Member.runAll(members) ? 0 : 1;
        } catch (Throwable e) { // the process ends with the clients
            e.printStackTrace();
            Log.line(Outcomes.describe(e)); // last, because a failure shows the last lines of the log
        }
        System.err.flush();
        Runtime.getRuntime().halt(exit);
    }

    /** Makes the client of a spec for each program that every release has. */
    static Client build(String program, Spec spec, Channel channel, Lifecycle lifecycle) throws Exception {
        return switch (program) {
            case "producer" -> new Producer(spec, channel, lifecycle);
            case "processor" -> new Processor(spec, channel, lifecycle);
            case "group_consumer" -> spec.has("workers")
                    ? new PooledConsumer(spec, channel, lifecycle)
                    : new GroupConsumer(spec, channel, lifecycle);
            case "assign_consumer" -> new AssignConsumer(spec, channel, lifecycle);
            default -> throw new IllegalArgumentException("there is no program " + program);
        };
    }
}
