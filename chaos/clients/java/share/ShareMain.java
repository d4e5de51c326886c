package aftershock;

import java.util.Map;
import org.apache.kafka.common.utils.AppInfoParser;

/** Runs the client of a spec, as `Main`, with releases that have share groups. */
public final class ShareMain {
    private ShareMain() {}

    public static void main(String[] argv) {
        if (argv.length == 0) {
            System.out.println(AppInfoParser.getVersion());
            return;
        }
        Main.run(argv[0], ShareMain::build, Map.of());
    }

    private static Client build(String program, Spec spec, Channel channel, Lifecycle lifecycle) throws Exception {
        return program.equals("share_consumer")
                ? new ShareConsumer(spec, channel, lifecycle)
                : Main.build(program, spec, channel, lifecycle);
    }
}
