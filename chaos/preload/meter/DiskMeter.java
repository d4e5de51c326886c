import java.lang.instrument.Instrumentation;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Writes, over and over, how long the node says that it took to handle Produce requests and to flush its logs. */
public final class DiskMeter extends Thread {
    private static final long EVERY_MS = 100;
    private static final String[][] METERS = {
        {"produce", "kafka.network:type=RequestMetrics,name=LocalTimeMs,request=Produce"},
        {"flush", "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"},
    };

    private final Path file;
    private final Path draft;
    private MBeanServer server;

    private DiskMeter(Path file) {
        super("aftershock-disk-meter");
        this.file = file;
        this.draft = file.resolveSibling(file.getFileName() + ".new");
        setDaemon(true);
    }

    public static void premain(String file, Instrumentation unused) {
        new DiskMeter(Path.of(file)).start();
    }

    @Override
    public void run() {
        server = ManagementFactory.getPlatformMBeanServer();
        for (long reading = 1;; reading++) {
            try {
                Files.write(draft, text(reading).getBytes(StandardCharsets.US_ASCII));
                Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
                Thread.sleep(EVERY_MS);
            } catch (Exception e) {
                System.err.println("the disk meter ended: " + e);
                return;
            }
        }
    }

    /** Returns a line for each meter that exists: its name, how often it measured, and the mean in ms since the start. */
    private String text(long reading) throws JMException {
        StringBuilder text = new StringBuilder("reading " + reading + " " + ProcessHandle.current().pid() + "\n");
        for (String[] meter : METERS) {
            ObjectName name = new ObjectName(meter[1]);
            if (server.isRegistered(name)) {
                Object count = server.getAttribute(name, "Count");
                text.append(meter[0] + " " + count + " " + server.getAttribute(name, "Mean") + "\n");
            }
        }
        return text.toString();
    }
}
