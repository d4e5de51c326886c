"""The runtime `confluent`: confluent-kafka, and with it librdkafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from chaos.clients.contradictions import Given, idempotence
from chaos.clients.traits import OWN_POSITIONS, SENDING, Role, Traits, in_all_releases, number
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
    rack="client.rack",
)
