package aftershock;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.AppInfoParser;

/** The settings of a Kafka client: the connection with its security, then the scenario's settings. */
final class Settings {
    private static final String ASSIGNORS = "partition.assignment.strategy";
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";
    private static final String TOKENS = "org.apache.kafka.common.security.oauthbearer.";
    /** Settings that name classes of an application, which may read settings that the library does not know. */
    private static final Set<String> PLUGINS = Set.of(
            "interceptor.classes",
            "metric.reporters",
            "partitioner.class",
            ASSIGNORS,
            "config.providers",
            "security.providers");

    private static final Map<String, String> CLASSES = Map.of(
            "range", PACKAGE + "RangeAssignor",
            "roundrobin", PACKAGE + "RoundRobinAssignor",
            "sticky", PACKAGE + "StickyAssignor",
            "cooperative-sticky", PACKAGE + "CooperativeStickyAssignor");

    private Settings() {}

    /** Returns the settings of a client. Throws IllegalArgumentException for a setting that the library lacks. */
    static Properties of(Spec spec, Map<String, Object> config, Set<String> known) throws IOException {
        Set<String> unknown = new TreeSet<>(config.keySet());
        unknown.removeAll(known);
        if (!unknown.isEmpty() && config.keySet().stream().noneMatch(PLUGINS::contains)) {
            throw new IllegalArgumentException(
                    "kafka-clients " + AppInfoParser.getVersion() + " has no setting " + String.join(", ", unknown));
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", spec.text("bootstrap"));
        settings.put("client.id", spec.client());
        if (spec.has("security")) {
            secure(settings, spec.part("security"));
        }
        config.forEach((name, value) -> settings.put(name, String.valueOf(value)));
        settings.computeIfPresent(ASSIGNORS, (name, value) -> classes((String) value));
        return settings;
    }

    /** Returns assignors by their classes; a scenario may give the names that they have in the group protocol. */
    private static String classes(String names) {
        return Stream.of(names.split(","))
                .map(name -> CLASSES.getOrDefault(name.trim(), name.trim()))
                .collect(Collectors.joining(","));
    }

    private static void secure(Properties settings, Spec security) throws IOException {
        String protocol = security.text("protocol");
        settings.put("security.protocol", protocol);
        if (protocol.startsWith("SASL_")) {
            String mechanism = security.text("mechanism");
            settings.put("sasl.mechanism", mechanism);
            if (mechanism.equals("OAUTHBEARER")) {
                getTokens(settings, security);
            } else {
                logIn(settings, security, mechanism);
            }
        }
        if (protocol.endsWith("SSL")) {
            encrypt(settings, security);
        }
    }

    private static void logIn(Properties settings, Spec security, String mechanism) throws IOException {
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        settings.put(
                "sasl.jaas.config",
                String.format(
                        "org.apache.kafka.common.security.%s required username=%s password=%s;",
                        module, quoted(security.text("username")), quoted(secret(security.text("password")))));
    }

    /** Sets that the library gets tokens from an issuer (KIP-768), which a property of the JVM has to allow. */
    private static void getTokens(Properties settings, Spec security) throws IOException {
        String endpoint = security.text("token_endpoint");
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", endpoint);
        settings.put("sasl.login.callback.handler.class", TOKENS + "OAuthBearerLoginCallbackHandler");
        settings.put("sasl.oauthbearer.token.endpoint.url", endpoint);
        settings.put(
                "sasl.jaas.config",
                String.format(
                        "%sOAuthBearerLoginModule required clientId=%s clientSecret=%s;",
                        TOKENS, quoted(security.text("username")), quoted(secret(security.text("password")))));
    }

    private static void encrypt(Properties settings, Spec security) throws IOException {
        if (security.has("ca")) { // PEM files: KIP-651
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.certificates", read(security.text("ca")));
        }
        if (security.has("certificate")) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.certificate.chain", read(security.text("certificate")));
            String key = read(security.text("key"));
            settings.put(
                    "ssl.keystore.key",
                    security.has("key_password")
                            ? PemKey.decrypted(key, secret(security.text("key_password")), security.text("key"))
                            : key);
        }
        if (!security.flag("verify_hostname")) {
            settings.put("ssl.endpoint.identification.algorithm", "");
        }
    }

    /** Returns a text as JAAS reads it: a line end inside quotes would end the text (java.io.StreamTokenizer). */
    private static String quoted(String text) {
        String escaped = text.replace("\\", "\\\\")
                .replace("\"", "\\\"")
                .replace("\n", "\\n")
                .replace("\r", "\\r");
        return '"' + escaped + '"';
    }

    /** Returns the secret that a reference names: env:NAME or file:PATH. */
    private static String secret(String reference) throws IOException {
        String name = reference.substring(reference.indexOf(':') + 1);
        if (reference.startsWith("file:")) {
            return read(name).replaceFirst("\\r?\\n\\z", ""); // the last line end belongs to the file
        }
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalArgumentException("the environment variable " + name + " is not set");
        }
        return value;
    }

    private static String read(String path) throws IOException {
        return Files.readString(Path.of(path), StandardCharsets.UTF_8);
    }
}
