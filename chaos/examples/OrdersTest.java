import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.BufferedReader;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Lets Aftershock judge an application: `python -m chaos control --socket FILE` serves it; AFTERSHOCK_SOCKET=FILE. */
class OrdersTest {
    static final String SCENARIO = """
            {"title": "No order is lost when billing dies before a commit",
             "cluster": {"brokers": 1},
             "topics": [{"name": "orders", "replication_factor": 1}, {"name": "invoices", "replication_factor": 1}],
             "producers": [{"name": "shop", "topic": "orders", "records": 600, "rate": "200/s", "outlast_faults": true,
                            "value": {"samples": "FOLDER/orders.jsonl", "id": "$.order_id"}}],
             "apps": [{"name": "billing", "command": ["{python}", "work_then_commit.py"], "directory": "FOLDER",
                       "env": {"KAFKA_BOOTSTRAP_SERVERS": "{bootstrap}"}, "group": "billing", "reads": ["orders"]}],
             "effects": [{"name": "invoices", "topic": "invoices", "id": "$.order_id"}],
             "faults": [{"name": "crash", "kind": "app.kill", "target": {"app": "billing"},
                         "when": {"wire": {"app": "billing", "api": "OffsetCommit", "nth": 3}}}],
             "expect": {"effects": {"invoices": {"missing": 0, "duplicate": {"max": 400}}}}}
            """;

    @Test
    void noOrderIsLost() throws Exception {
        String folder = Path.of("").toAbsolutePath().toString();
        String request = "{\"run\": " + SCENARIO.replace("FOLDER", folder).replace("\n", " ") + "}\n"; // one line
        try (SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(System.getenv("AFTERSHOCK_SOCKET")))) {
            channel.write(ByteBuffer.wrap(request.getBytes(StandardCharsets.UTF_8)));
            BufferedReader answers = new BufferedReader(Channels.newReader(channel, StandardCharsets.UTF_8));
            String answer = answers.readLine();
            while (answer.startsWith("{\"step\"")) {
                System.out.println(answer);
                answer = answers.readLine();
            }
            Matcher verdict = Pattern.compile("^\\{\"verdict\": \"(\\w+)\"").matcher(answer);
            assertEquals("pass", verdict.find() ? verdict.group(1) : "none", answer);
        }
    }
}
