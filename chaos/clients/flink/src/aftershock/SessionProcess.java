package aftershock;

import java.io.IOException;
import java.util.Arrays;
import org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint;
import org.apache.flink.runtime.taskexecutor.TaskManagerRunner;

/** A process of a session cluster: a job manager or a task manager. When its stdin ends, the fleet is gone, and it ends. */
final class SessionProcess {
    private static String name = "";

    private SessionProcess() {}

    /** Returns the name of this task manager. */
    static String name() {
        return name;
    }

    /** argv: `jobmanager` or `taskmanager`, the folder of the settings, and the name of a task manager. */
    static void main(String[] argv) throws Exception {
        Thread thread = new Thread(SessionProcess::awaitEnd, "fleet");
        thread.setDaemon(true);
        thread.start();
        String[] settings = {"--configDir", argv[1]};
        if (argv[0].equals("jobmanager")) {
            StandaloneSessionClusterEntrypoint.main(settings);
            return;
        }
        name = argv[2];
        String[] named = Arrays.copyOf(settings, settings.length + 2);
        named[settings.length] = "-D";
        named[settings.length + 1] = "taskmanager.resource-id=" + name;
        TaskManagerRunner.main(named);
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() != -1) {
                // no order is for this process
            }
        } catch (IOException e) {
            Log.line("stdin cannot be read: " + e);
        }
        Runtime.getRuntime().halt(1);
    }
}
