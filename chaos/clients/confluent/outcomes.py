"""What an error says about whether the operation happened: ok, fail (it surely did not) or unknown (it may have).

librdkafka repeats a send or a commit by itself when the connection breaks or the answer does not come, and then reports
only the error of the last attempt. A refusal of the last attempt says nothing about an earlier one that got through and
whose answer was lost. So a refusal counts as `fail` only where there was one attempt, or where every attempt must have
been refused. What is not in a table is `unknown`: a wrong `fail` would become a wrong verdict, a wrong `unknown` does
not.
"""

from __future__ import annotations

from typing import Literal

from confluent_kafka import KafkaError

Outcome = Literal["ok", "fail", "unknown"]

NEVER, REFUSED = "never appended", "not by this attempt"

# what older releases have no name for; they report a whole batch as invalid where one record of it is
_DIFFERENT_RECORD: int = getattr(KafkaError, "_INVALID_DIFFERENT_RECORD", -138)
_TELLS_RECORDS_APART = hasattr(KafkaError, "_INVALID_DIFFERENT_RECORD")
_FENCED_MEMBER_EPOCH: int = getattr(KafkaError, "FENCED_MEMBER_EPOCH", 110)
_STALE_MEMBER_EPOCH: int = getattr(KafkaError, "STALE_MEMBER_EPOCH", 113)

SENDS: dict[int, tuple[str, str]] = {
    KafkaError.INVALID_RECORD: (
        NEVER if _TELLS_RECORDS_APART else REFUSED,
        "the broker refuses any batch with this record in it",
    ),
    _DIFFERENT_RECORD: (REFUSED, "refused for another record of this batch; the last one differed"),
    KafkaError.MSG_SIZE_TOO_LARGE: (
        REFUSED,
        "this batch was too large; an earlier one may have been smaller",
    ),
    KafkaError.RECORD_LIST_TOO_LARGE: (REFUSED, "as MSG_SIZE_TOO_LARGE, against the segment size"),
    KafkaError.INVALID_MSG: (REFUSED, "this batch arrived damaged and was dropped before the append"),
    KafkaError.INVALID_TIMESTAMP: (NEVER, "the broker refuses any batch with this timestamp in it"),
    KafkaError.INVALID_REQUIRED_ACKS: (NEVER, "acks is the same in every attempt, and no broker takes this one"),
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: (REFUSED, "the batch was not read; a smaller one is not compressed"),
    KafkaError.POLICY_VIOLATION: (REFUSED, "a policy refused this batch before the append"),
    KafkaError.NOT_ENOUGH_REPLICAS: (REFUSED, "the leader counted its in-sync replicas before the append"),
    KafkaError.NOT_LEADER_FOR_PARTITION: (REFUSED, "a broker that is not the leader appends nothing"),
    KafkaError.LEADER_NOT_AVAILABLE: (REFUSED, "there was no leader to append to"),
    KafkaError.FENCED_LEADER_EPOCH: (REFUSED, "the epoch is checked before the append"),
    KafkaError.UNKNOWN_TOPIC_OR_PART: (REFUSED, "the broker asked has no such partition, so no log to append to"),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (REFUSED, "checked before the append; rights may have been taken since"),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (REFUSED, "as TOPIC_AUTHORIZATION_FAILED, for idempotent writes"),
    KafkaError.INVALID_PRODUCER_EPOCH: (REFUSED, "a fenced producer's batch is refused before the append"),
    KafkaError._UNKNOWN_PARTITION: (REFUSED, "known locally: nothing to send to; an earlier attempt may have had one"),
    KafkaError._UNKNOWN_TOPIC: (REFUSED, "as _UNKNOWN_PARTITION; a restarting broker can report a topic missing"),
    KafkaError._PURGE_QUEUE: (REFUSED, "was in the queue when purged, for the first time or to be repeated"),
}
"""Errors of delivery reports that exclude something, with the reason. All others are `unknown`, on purpose so:
_MSG_TIMED_OUT, _TIMED_OUT, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, _TRANSPORT, _ALL_BROKERS_DOWN,
_PURGE_INFLIGHT, KAFKA_STORAGE_ERROR (the append itself failed, somewhere), UNKNOWN_SERVER_ERROR,
OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, _FATAL."""

COMMITS: dict[int, str] = {
    KafkaError.ILLEGAL_GENERATION: "the group has moved on to another generation",
    KafkaError.UNKNOWN_MEMBER_ID: "the coordinator has removed this member",
    KafkaError.REBALANCE_IN_PROGRESS: "commits are refused until the member has joined again",
    KafkaError.FENCED_INSTANCE_ID: "another process has taken this static member's place",
    _FENCED_MEMBER_EPOCH: "the member's epoch was fenced (KIP-848)",
    _STALE_MEMBER_EPOCH: "the member's epoch is not the current one (KIP-848)",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "checked before anything is written",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "checked before anything is written",
    KafkaError.OFFSET_METADATA_TOO_LARGE: "checked before anything is written",
    KafkaError.INVALID_COMMIT_OFFSET_SIZE: "checked before anything is written",
    KafkaError.INVALID_GROUP_ID: "checked before anything is written",
    KafkaError.NOT_COORDINATOR: "a broker that is not the coordinator writes nothing",
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: "a coordinator that is still loading writes nothing",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the broker knows no such partition, so it took no offset for it",
}
"""Refusals of a commit, with the reason. All others are `unknown`: _TIMED_OUT, REQUEST_TIMED_OUT, _TRANSPORT,
_WAIT_COORD, COORDINATOR_NOT_AVAILABLE (the broker answers so too when its own append timed out), _DESTROY, ..."""

NOT_A_COMMIT = frozenset({KafkaError._NO_OFFSET})
"""There was nothing to commit, and nothing was asked."""


def send_outcome(error: KafkaError, single_attempt: bool) -> Outcome:
    """The outcome of a send whose delivery report carries an error. `single_attempt`: the producer repeats none."""
    certainty = SENDS.get(error.code(), ("", ""))[0]
    return "fail" if certainty == NEVER or (certainty == REFUSED and single_attempt) else "unknown"


def commit_outcome(error: KafkaError | None, took_s: float | None, backoff_s: float) -> Outcome:
    """The outcome of a commit.

    `took_s` is the time from the request to its answer, None if not known. librdkafka waits `backoff_s`
    (retry.backoff.ms, less 20 % of jitter) before it repeats a commit, so a refusal that came sooner is the answer to
    the only attempt.
    """
    if error is None:
        return "ok"
    first_attempt = took_s is not None and took_s < 0.8 * backoff_s
    return "fail" if error.code() in COMMITS and first_attempt else "unknown"


def single_attempt(config: dict[str, bool | int | float | str]) -> bool:
    """Whether a producer with these settings sends each record at most once: no repeats, and so not idempotent."""
    return any(str(config[name]) == "0" for name in ("retries", "message.send.max.retries") if name in config)
