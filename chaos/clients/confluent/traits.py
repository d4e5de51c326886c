"""The runtime `confluent`: confluent-kafka, and with it librdkafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from chaos.clients.traits import (
    COMMITS,
    IN_FLIGHT,
    OWN_POSITIONS,
    SENDING,
    Given,
    Role,
    Traits,
    idempotence,
    in_all_releases,
    number,
    refusals,
)
from chaos.kafka.settings import Config
from chaos.settings import Source

DEFAULTS: Config = {
    "acks": "all",
    "enable.idempotence": False,
    "enable.auto.commit": True,
    "auto.offset.reset": "latest",
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "range,roundrobin",
}


def defaults(_: str | None) -> Config:
    """Return the settings that a scenario leaves out; they are the same in all releases."""
    return DEFAULTS


SENDS = {
    **refusals((), INVALID_REQUIRED_ACKS="acks is the same in every attempt, and no broker takes this one"),
    **refusals(("settings",), INVALID_RECORD="the broker refuses any batch with this record in it"),
    **refusals(
        ("batch", "settings"),
        _INVALID_DIFFERENT_RECORD="refused because of another record of this batch; an earlier batch may differ",
    ),
    **refusals(
        ("batch", "limits"),
        MESSAGE_TOO_LARGE="this batch was too large; an earlier one may have been smaller",
        RECORD_LIST_TOO_LARGE="as MESSAGE_TOO_LARGE, against the segment size",
        UNSUPPORTED_COMPRESSION_TYPE="the batch was not read; a smaller one is not compressed",
        POLICY_VIOLATION="a policy refused this batch before the append",
    ),
    **refusals(("timestamps",), INVALID_TIMESTAMP="out of bounds in every attempt, if retries cross no limit"),
    **refusals(
        ("rights",),
        TOPIC_AUTHORIZATION_FAILED="checked before the append, for any batch",
        CLUSTER_AUTHORIZATION_FAILED="as TOPIC_AUTHORIZATION_FAILED, for idempotent writes",
    ),
    **refusals(
        ("attempt",),
        CORRUPT_MESSAGE="this batch arrived damaged and was dropped before the append",
        NOT_ENOUGH_REPLICAS="the leader counted its in-sync replicas before the append",
        LEADER_NOT_AVAILABLE="there was no leader to append to",
        FENCED_LEADER_EPOCH="the epoch is checked before the append",
        UNKNOWN_TOPIC_OR_PARTITION="the broker asked has no such partition, so no log to append to",
        INVALID_PRODUCER_EPOCH="the batch of a fenced producer is refused before the append",
        _UNKNOWN_PARTITION="known locally: no such partition; an earlier attempt may have had one",
        _UNKNOWN_TOPIC="as _UNKNOWN_PARTITION; a restarting broker can report a topic missing",
        _PURGE_QUEUE="purged from the queue, before the first attempt or before a retry",
    ),
}
"""Errors of delivery reports that prove a refusal (Kafka's `Errors`; `UnifiedLog.append` validates a batch before it
looks for a duplicate). librdkafka retries a send when the connection breaks or the answer does not arrive, and reports
only the error of the last attempt, so most need a single attempt. An idempotent producer sends a batch again with
exactly the same records (KIP-98, librdkafka's `last_msgid`). librdkafka knows more (`rd_kafka_message_status`), but
confluent-kafka does not pass it on, and after a refusal, that status describes the last attempt only.

All others are `unknown`, deliberately these: NOT_LEADER_OR_FOLLOWER (with acks=all, a leader that steps down while it
waits for its followers answers so after its append: `DelayedProduce.tryComplete`), _MSG_TIMED_OUT, _TIMED_OUT,
REQUEST_TIMED_OUT, _PURGE_INFLIGHT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, _TRANSPORT, _ALL_BROKERS_DOWN,
KAFKA_STORAGE_ERROR (an append failed, on some replica), UNKNOWN_SERVER_ERROR, OUT_OF_ORDER_SEQUENCE_NUMBER,
DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, _FATAL. Of commits: _TIMED_OUT, _TRANSPORT, _WAIT_COORD, _DESTROY, and
COORDINATOR_NOT_AVAILABLE (also the answer if the broker's own append timed out)."""
RECORD_OF_BATCH = {**SENDS, **refusals(("batch", "settings"), INVALID_RECORD="as _INVALID_DIFFERENT_RECORD")}
"""`SENDS` of releases that report a whole batch as invalid if one record of it is."""

LONG_SESSIONS_SINCE = "1.7.0"


def contradictions(given: Given) -> Iterator[str]:
    """Yield settings with which librdkafka does not start."""
    if given.producer:
        yield from idempotence(given, given.idempotent)
        timeout, linger = given.number("delivery.timeout.ms", 0), given.number("linger.ms", 5)
        if timeout and timeout <= linger:
            yield f"message.timeout.ms={timeout:g} is not above linger.ms={linger:g}"
    elif "max.poll.interval.ms" in given.values:
        old = number(given.release or "99") < number(LONG_SESSIONS_SINCE)
        session = given.number("session.timeout.ms", 0) or (10_000 if old else 45_000)
        if (poll := given.number("max.poll.interval.ms", 0)) < session:
            yield f"max.poll.interval.ms={poll:g} is below session.timeout.ms={session:g}"


TRAITS = Traits(
    name="confluent",
    library="confluent-kafka",
    reported={"confluent_kafka": "confluent-kafka", "librdkafka": "librdkafka"},
    abilities=in_all_releases(
        "produce",
        "transactions",
        "library partitioner",
        "tombstones",
        "values of the user",
        "arrivals",
        "ignore reports",
        "timestamps of the application",
        *SENDING,
        "throttle times",
        "process",
        "plain processing",
        "commits before outputs",
        "batches of a size",
        "subscribe",
        "pattern",
        "static membership",
        "poll interval",
        "assignment by the application",
        "cooperative",
        "KIP-848",
        "threads",
        "sticky partitioner",
        "workers",
        "reset to none",
        "assignment without group.id",
        "asynchronous commits",
        "commits after processing",
        "encrypted keys",
        "assign",
        "seek",
        "wrong clock",
        "resume",
        "assignments in turn",
        "checkpoint",
        "checkpoint interval",
        "automatic commits in assign mode",
        "commit outcomes",
        "automatic commit outcomes",
        "rack",
        *OWN_POSITIONS,
    )
    | {"tokens": "1.9.0"},
    settings={role: tuple(Source(f"librdkafka-{role}", p) for p in ("", "topic.")) for role in get_args(Role)},
    auto_commits=frozenset({"before_processing", "after_batch", "after_record"}),
    stores_offsets=True,
    defaults=defaults,
    contradictions=contradictions,
    long_sessions_since=LONG_SESSIONS_SINCE,
    # it is sticky for records without a key, whatever the hash is
    sticky={"partitioner": "consistent_random"},
    # With several requests in flight, a producer may write records of a partition twice when another one has an error:
    # it takes a new epoch for all, in which unanswered records have new sequence numbers (librdkafka issue 4953).
    careful={IN_FLIGHT: 1},
    rack="client.rack",
    sends=SENDS,
    commits=COMMITS,
)
