package aftershock;

/** The log of a client, which is stderr. */
final class Log {
    private Log() {}

    static void line(String message) {
        System.err.println(Clock.nowUs() + " " + message);
    }
}
