package aftershock;

import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.RetriableCommitFailedException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Outcomes of sends and commits by error: ok, fail (definitely did not happen) or unknown (may have happened).
 *
 * <p>The client repeats a send or a commit when an answer is lost, and then reports only the error of the last attempt.
 * So a refusal is `fail` only if there was one attempt, or if each attempt must have been refused. Errors that are not
 * listed are `unknown`.
 */
final class Outcomes {
    static final String OK = "ok";
    static final String FAIL = "fail";
    static final String UNKNOWN = "unknown";

    /** Refusals that every attempt gets. */
    private static final Set<Errors> NEVER = EnumSet.of(Errors.INVALID_REQUIRED_ACKS);

    /**
     * Refusals that every attempt gets if the limits of the topic and the brokers do not change: the client sends a
     * batch again as it was, except that it splits one that is too large, and then the earlier one was larger.
     */
    private static final Set<Errors> BY_LIMITS = EnumSet.of(Errors.MESSAGE_TOO_LARGE, Errors.RECORD_LIST_TOO_LARGE);

    /** Refusals that every attempt gets if the rights of the client do not change. */
    private static final Set<Errors> BY_RIGHTS =
            EnumSet.of(Errors.TOPIC_AUTHORIZATION_FAILED, Errors.CLUSTER_AUTHORIZATION_FAILED);

    /** Refusals that every attempt gets if no retry crosses a limit for timestamps. */
    private static final Set<Errors> BY_TIMESTAMPS = EnumSet.of(Errors.INVALID_TIMESTAMP);

    /**
     * Refusals before the append, by the attempt that got this answer. NOT_LEADER_OR_FOLLOWER is none: with acks=all, a
     * leader that steps down while it waits for its followers answers so after its append (DelayedProduce).
     */
    private static final Set<Errors> REFUSED = EnumSet.of(
            Errors.INVALID_RECORD,
            Errors.INVALID_TIMESTAMP,
            Errors.MESSAGE_TOO_LARGE,
            Errors.RECORD_LIST_TOO_LARGE,
            Errors.CORRUPT_MESSAGE,
            Errors.UNSUPPORTED_COMPRESSION_TYPE,
            Errors.POLICY_VIOLATION,
            Errors.NOT_ENOUGH_REPLICAS,
            Errors.LEADER_NOT_AVAILABLE,
            Errors.FENCED_LEADER_EPOCH,
            Errors.UNKNOWN_TOPIC_OR_PARTITION,
            Errors.TOPIC_AUTHORIZATION_FAILED,
            Errors.CLUSTER_AUTHORIZATION_FAILED,
            Errors.INVALID_PRODUCER_EPOCH,
            Errors.PRODUCER_FENCED);

    /** Refusals of a commit: the coordinator wrote nothing. NOT_COORDINATOR is none: it may have stepped down since. */
    private static final Set<Errors> COMMIT_REFUSED = EnumSet.of(
            Errors.ILLEGAL_GENERATION,
            Errors.UNKNOWN_MEMBER_ID,
            Errors.REBALANCE_IN_PROGRESS,
            Errors.FENCED_INSTANCE_ID,
            Errors.GROUP_AUTHORIZATION_FAILED,
            Errors.TOPIC_AUTHORIZATION_FAILED,
            Errors.OFFSET_METADATA_TOO_LARGE,
            Errors.INVALID_COMMIT_OFFSET_SIZE,
            Errors.INVALID_GROUP_ID,
            Errors.COORDINATOR_LOAD_IN_PROGRESS);

    /** Refusals that only releases with KIP-848 know. */
    private static final Set<String> COMMIT_REFUSED_848 = Set.of("FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH");

    private Outcomes() {}

    /**
     * Returns the outcome of a send with an error.
     *
     * @param queued whether the library had taken the record; a record that it refused at once never left the process
     * @param steady what does not change during the run: limits, rights, timestamps
     * @param definite names of further errors that the application takes for refusals
     */
    static String ofSend(
            Throwable error, boolean queued, boolean singleAttempt, List<String> steady, List<String> definite) {
        Errors code = code(error);
        if (!queued || definite.contains(code.name())) {
            return FAIL;
        }
        boolean never = NEVER.contains(code)
                || (steady.contains("limits") && BY_LIMITS.contains(code))
                || (steady.contains("timestamps") && BY_TIMESTAMPS.contains(code))
                || (steady.contains("rights") && BY_RIGHTS.contains(code));
        return never || (singleAttempt && REFUSED.contains(code)) ? FAIL : UNKNOWN;
    }

    /** Returns the outcome of a commit. `oneAttempt` says whether the error answers the only attempt. */
    static String ofCommit(Throwable error, boolean oneAttempt) {
        if (error == null) {
            return OK;
        }
        Throwable cause = cause(error);
        Errors code = Errors.forException(cause);
        boolean refused = cause instanceof CommitFailedException
                || COMMIT_REFUSED.contains(code)
                || COMMIT_REFUSED_848.contains(code.name());
        return refused && oneAttempt ? FAIL : UNKNOWN;
    }

    /** Returns the name of an error: its name in the protocol, or the class of an error of the client. */
    static String name(Throwable error) {
        Throwable cause = cause(error);
        Errors code = code(cause);
        // as a refused TLS handshake, which has no code
        boolean ofClient = code == Errors.UNKNOWN_SERVER_ERROR
                || code == Errors.REQUEST_TIMED_OUT
                || code == Errors.INVALID_CONFIG;
        return ofClient ? cause.getClass().getSimpleName() : code.name();
    }

    /**
     * Returns the code of an error. If a broker refused several records of a batch, the client has INVALID_RECORD for
     * each, with the broker's reason as message: `LogValidator.validateTimestamp` says that a timestamp is out of range.
     */
    private static Errors code(Throwable error) {
        Errors code = Errors.forException(error);
        boolean time = code == Errors.INVALID_RECORD && String.valueOf(error.getMessage()).contains("is out of range");
        return time ? Errors.INVALID_TIMESTAMP : code;
    }

    /** Returns the name and the message of an error. */
    static String describe(Throwable error) {
        return name(error) + ": " + cause(error).getMessage();
    }

    /** Returns what an error wraps: each call after a fatal error fails with a plain KafkaException around it. */
    private static Throwable cause(Throwable error) {
        boolean wrapper = error instanceof RetriableCommitFailedException || error.getClass() == KafkaException.class;
        return wrapper && error.getCause() != null ? error.getCause() : error;
    }
}
