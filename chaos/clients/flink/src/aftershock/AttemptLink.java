package aftershock;

import java.io.IOException;
import java.io.Serializable;

/**
 * The way from a subtask in a task manager to the program of its job; part of the job.
 *
 * @param spec the spec of the client
 * @param port of the program, on loopback
 */
record AttemptLink(String spec, int port) implements Serializable {
    /** Opens an attempt of a subtask, in its thread. */
    Attempt open(int subtask) throws IOException {
        return new Attempt(this, subtask);
    }
}
