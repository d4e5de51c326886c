package aftershock;

import java.util.LinkedHashMap;
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

    /** Runs the client of a spec. libraries: those above the Kafka client, with their releases. */
    static void run(String path, Builder builder, Map<String, String> libraries) {
        Lifecycle lifecycle = null;
        int exit = 1;
        try {
            Spec spec = Spec.load(path);
            Channel channel = new Channel();
            String program = spec.text("program");
            lifecycle = new Lifecycle(spec, channel, program.endsWith("consumer") ? "consumer" : "producer");
            channel.listen();
            Client client = builder.build(program, spec, channel, lifecycle);
            lifecycle.event("started", started(spec, libraries));
            if (client.run() && !channel.orphaned) {
                lifecycle.event("stopped", Map.of());
                exit = 0;
            }
        } catch (Throwable e) { // the process ends with the client
            e.printStackTrace();
            String reason = Outcomes.describe(e); // last in the log, whose last lines are shown
            if (lifecycle == null) {
                Log.line(reason);
            } else {
                lifecycle.error(reason, true);
            }
        }
        System.err.flush();
        Runtime.getRuntime().halt(exit);
    }

    private static Client build(String program, Spec spec, Channel channel, Lifecycle lifecycle) throws Exception {
        return switch (program) {
            case "producer" -> new Producer(spec, channel, lifecycle);
            case "processor" -> new Processor(spec, channel, lifecycle);
            case "group_consumer" -> new GroupConsumer(spec, channel, lifecycle);
            case "assign_consumer" -> new AssignConsumer(spec, channel, lifecycle);
            default -> throw new IllegalArgumentException("there is no program " + program);
        };
    }

    private static Map<String, Object> started(Spec spec, Map<String, String> libraries) {
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
