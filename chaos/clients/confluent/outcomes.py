"""Outcomes of sends and commits by error: ok, fail (definitely did not happen) or unknown (may have happened).

librdkafka retries a send or a commit when the connection breaks or the answer does not arrive, and then reports only
the error of the last attempt. An earlier attempt may have succeeded although its answer was lost. So a refusal is
`fail` only if there was one attempt, or if every attempt must have been refused. Errors that are not in a table are
`unknown`: a wrong `fail` would become a wrong verdict, a wrong `unknown` does not.

librdkafka knows more (`rd_kafka_message_status`: not, possibly or surely persisted), but confluent-kafka does not pass
it on. And after a refusal, that status describes the last attempt only.

`produce` refuses some records at once, such as one above `message.max.bytes` of the client. They are `fail`.
"""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError

from chaos.clients.committer import Outcome

Kept = frozenset[str]
"""What all attempts of a send have in common; each entry of `SENDS` names what its proof needs.

attempt: there is only one attempt. batch: each attempt carries the same batch (an idempotent producer sends a batch
again with exactly the same records: KIP-98, librdkafka's `last_msgid`). settings: those of the topic. limits: those of
the topic and the brokers. rights: what the client may do. timestamps: whether they are within the limits of brokers.
"""
ANYWAY: Kept = frozenset()
ATTEMPT, SETTINGS, RIGHTS = Kept({"attempt"}), Kept({"settings"}), Kept({"rights"})
TIMESTAMPS = Kept({"timestamps"})
BATCH_SETTINGS, BATCH_LIMITS = Kept({"batch", "settings"}), Kept({"batch", "limits"})

# older releases lack these names, and report a whole batch as invalid if one record of it is
_DIFFERENT_RECORD: int = getattr(KafkaError, "_INVALID_DIFFERENT_RECORD", -138)
_OF_ONE_RECORD = SETTINGS if hasattr(KafkaError, "_INVALID_DIFFERENT_RECORD") else BATCH_SETTINGS
_FENCED_MEMBER_EPOCH: int = getattr(KafkaError, "FENCED_MEMBER_EPOCH", 110)
_STALE_MEMBER_EPOCH: int = getattr(KafkaError, "STALE_MEMBER_EPOCH", 113)

SENDS: dict[int, tuple[Kept, str]] = {
    KafkaError.INVALID_RECORD: (_OF_ONE_RECORD, "the broker refuses any batch with this record in it"),
    _DIFFERENT_RECORD: (BATCH_SETTINGS, "refused because of another record of this batch; an earlier batch may differ"),
    KafkaError.MSG_SIZE_TOO_LARGE: (BATCH_LIMITS, "this batch was too large; an earlier one may have been smaller"),
    KafkaError.RECORD_LIST_TOO_LARGE: (BATCH_LIMITS, "as MSG_SIZE_TOO_LARGE, against the segment size"),
    KafkaError.INVALID_MSG: (ATTEMPT, "this batch arrived damaged and was dropped before the append"),
    KafkaError.INVALID_TIMESTAMP: (TIMESTAMPS, "out of bounds in every attempt, if retries cross no limit"),
    KafkaError.INVALID_REQUIRED_ACKS: (ANYWAY, "acks is the same in every attempt, and no broker takes this one"),
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: (BATCH_LIMITS, "the batch was not read; a smaller one is not compressed"),
    KafkaError.POLICY_VIOLATION: (BATCH_LIMITS, "a policy refused this batch before the append"),
    KafkaError.NOT_ENOUGH_REPLICAS: (ATTEMPT, "the leader counted its in-sync replicas before the append"),
    KafkaError.LEADER_NOT_AVAILABLE: (ATTEMPT, "there was no leader to append to"),
    KafkaError.FENCED_LEADER_EPOCH: (ATTEMPT, "the epoch is checked before the append"),
    KafkaError.UNKNOWN_TOPIC_OR_PART: (ATTEMPT, "the broker asked has no such partition, so no log to append to"),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (RIGHTS, "checked before the append, for any batch"),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (RIGHTS, "as TOPIC_AUTHORIZATION_FAILED, for idempotent writes"),
    KafkaError.INVALID_PRODUCER_EPOCH: (ATTEMPT, "the batch of a fenced producer is refused before the append"),
    KafkaError._UNKNOWN_PARTITION: (ATTEMPT, "known locally: no such partition; an earlier attempt may have had one"),
    KafkaError._UNKNOWN_TOPIC: (ATTEMPT, "as _UNKNOWN_PARTITION; a restarting broker can report a topic missing"),
    KafkaError._PURGE_QUEUE: (ATTEMPT, "purged from the queue, before the first attempt or before a retry"),
}
"""Errors of delivery reports that prove a refusal, with the reason (Kafka's `Errors`; the order of the checks is that
of `UnifiedLog.append`, which validates a batch before it looks for a duplicate). All others are `unknown`, deliberately
these: NOT_LEADER_FOR_PARTITION (with acks=all, a leader that steps down while it waits for its followers answers so
after its append: `DelayedProduce.tryComplete`), _MSG_TIMED_OUT, _TIMED_OUT, REQUEST_TIMED_OUT, _PURGE_INFLIGHT,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, _TRANSPORT, _ALL_BROKERS_DOWN, KAFKA_STORAGE_ERROR (an append failed, on some
replica), UNKNOWN_SERVER_ERROR, OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, _FATAL."""

COMMITS: dict[int, str] = {
    KafkaError.ILLEGAL_GENERATION: "the group has moved on to another generation",
    KafkaError.UNKNOWN_MEMBER_ID: "the coordinator has removed this member",
    KafkaError.REBALANCE_IN_PROGRESS: "commits are refused until the member has joined again",
    KafkaError.FENCED_INSTANCE_ID: "another process has replaced this static member",
    _FENCED_MEMBER_EPOCH: "the member's epoch was fenced (KIP-848)",
    _STALE_MEMBER_EPOCH: "the member's epoch is not the current one (KIP-848)",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "checked before anything is written",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "checked before anything is written",
    KafkaError.OFFSET_METADATA_TOO_LARGE: "checked before anything is written",
    KafkaError.INVALID_COMMIT_OFFSET_SIZE: "checked before anything is written",
    KafkaError.INVALID_GROUP_ID: "checked before anything is written",
    KafkaError.NOT_COORDINATOR: "only the coordinator writes offsets",
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: "a coordinator writes nothing while it loads",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the broker has no such partition, so it took no offset",
}
"""Refusals of a commit, with the reason. All others are `unknown`: _TIMED_OUT, REQUEST_TIMED_OUT, _TRANSPORT,
_WAIT_COORD, COORDINATOR_NOT_AVAILABLE (also the answer if the broker's own append timed out), _DESTROY, ..."""

NOT_A_COMMIT = frozenset({KafkaError._NO_OFFSET})
"""There was nothing to commit, and no request was sent."""


OUT_OF_RANGE = "is out of range"


def send_outcome(error: KafkaError, kept: Kept, partition: int | None) -> Outcome:
    """Return the outcome of a send with this error in its report. kept: what all its attempts have in common.

    partition: that of the record in the report. librdkafka sets it when it assigns the record to a partition, and keeps
    it (`rd_kafka_msg_partitioner`). Only records of partitions are put in requests, so a record without one was never
    sent, also after a time-out or a purge.
    """
    if partition is None or partition < 0:
        return "fail"
    code = KafkaError.INVALID_TIMESTAMP if refuses_time(error) else error.code()
    if code not in SENDS:
        return "unknown"
    needed, _ = SENDS[code]
    return "fail" if "attempt" in kept or needed <= kept else "unknown"


def refuses_time(error: KafkaError) -> bool:
    """Return whether a broker refused a record for its timestamp.

    If it refused several records of a batch, librdkafka reports INVALID_RECORD for each, with the broker's reason as
    text: `LogValidator.validateTimestamp` says that the timestamp is out of range.
    """
    of_one = error.code() == KafkaError.INVALID_RECORD and OUT_OF_RANGE in error.str()
    return of_one or error.code() == KafkaError.INVALID_TIMESTAMP


def send_error(error: KafkaError) -> str:
    """Return the name of the error of a send, for its row."""
    return "INVALID_TIMESTAMP" if refuses_time(error) else error.name()


def commit_outcome(error: KafkaError | None, took_s: float | None, backoff_s: float) -> Outcome:
    """Return the outcome of a commit.

    `took_s` is the time from the request to the answer, None if unknown. librdkafka waits `backoff_s`
    (retry.backoff.ms, less 20 % of jitter) before it retries a commit, so a refusal within that time answers the only
    attempt.
    """
    if error is None:
        return "ok"
    first_attempt = took_s is not None and took_s < 0.8 * backoff_s
    return "fail" if error.code() in COMMITS and first_attempt else "unknown"


def kept_by(config: dict[str, bool | int | float | str], transactional: bool, steady: Iterable[str]) -> Kept:
    """Return what all attempts of a send have in common, if a producer has these settings.

    steady: which of settings, limits, rights and timestamps do not change during the run.
    """
    kept = {*steady}
    if any(str(config[name]) == "0" for name in ("retries", "message.send.max.retries") if name in config):
        kept.add("attempt")
    if transactional or str(config.get("enable.idempotence", False)).lower() == "true":
        kept.add("batch")
    return Kept(kept)


def describe(error: KafkaError) -> str:
    """Return the name and the text of an error. The text of a fatal error holds that of its cause, which is named."""
    if error.code() != KafkaError._FATAL:
        return f"{error.name()}: {error.str()}"
    codes = {code for name, code in vars(KafkaError).items() if name.isupper() and isinstance(code, int) and code > 0}
    causes = (cause for cause in map(KafkaError, sorted(codes)) if cause.str() in error.str())
    return f"{next((cause.name() for cause in causes), error.name())}: {error.str()}"
