package aftershock;

/** One incarnation of a client. */
interface Client {
    /** Runs until the order to stop. Returns whether everything was done that `stopped` means. */
    boolean run() throws Exception;
}
