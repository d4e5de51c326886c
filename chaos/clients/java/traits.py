"""The runtime `java`: Apache Kafka's Java client (kafka-clients).

Defaults by release: KIP-679 (acks and idempotence; KAFKA-13598 delays the latter), KIP-735 (session.timeout.ms is not
listed, because a broker may refuse it), KAFKA-12675 (the assignors of 3.0).
"""

from __future__ import annotations

from collections.abc import Iterator

from chaos.clients.traits import (
    IN_FLIGHT,
    OWN_POSITIONS,
    SENDING,
    Given,
    Traits,
    heartbeats,
    idempotence,
    in_all_releases,
    number,
)
from chaos.kafka.settings import Config
from chaos.settings import Source

OLDEST, NEWEST = "2.8.2", "4.3.1"
PACKAGE = "org.apache.kafka.clients.consumer."
ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""The assignors by the names of their classes, with the names that they have in the group protocol."""

MISNAMED = {
    "batch.num.messages": "batch.size",
    "enable.auto.offset.store": "",
    "enable.gapless.guarantee": "",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.queue.backoff.ms": "",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "partitioner": "partitioner.class",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.messages": "buffer.memory",
    "queue.buffering.max.ms": "linger.ms",
    "queued.max.messages.kbytes": "",
    "queued.min.messages": "",
    "request.required.acks": "acks",
    "socket.timeout.ms": "request.timeout.ms",
    "sticky.partitioning.linger.ms": "",
    "topic.auto.offset.reset": "auto.offset.reset",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""Settings of librdkafka, with their names in the Java client. The client only warns of settings that it does not
know, so a scenario that gives one is refused; its programs refuse all other unknown settings when they start."""


PLUGINS = frozenset(
    {
        *("interceptor.classes", "metric.reporters", "partitioner.class", "partition.assignment.strategy"),
        *("config.providers", "security.providers"),
    }
)
"""Settings that name classes of an application, to which the client passes on all settings."""


def defaults(release: str | None) -> Config:
    """Return the settings that a scenario leaves out."""
    found = number(release or NEWEST)
    strong = found >= (3, 0, 0)
    return {
        "acks": "all" if strong else "1",
        "enable.idempotence": strong and found not in ((3, 0, 0), (3, 1, 0)),
        "enable.auto.commit": True,
        "auto.offset.reset": "latest",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": "range,cooperative-sticky" if strong else "range",
    }


def contradictions(given: Given) -> Iterator[str]:
    """Yield settings with which the client does not start. The default of idempotence gives way to most others."""
    if not given.producer:
        yield from heartbeats(given)
        return
    later = number(given.release or NEWEST) >= (4, 0, 0)
    on = given.idempotent if "enable.idempotence" in given.values else given.transactional
    if "enable.idempotence" not in given.values and not on and later and given.number(IN_FLIGHT, 5) > 5:
        found = given.values[IN_FLIGHT]
        yield f"{found} requests in flight contradict enable.idempotence=true (default), which allows 5"
    yield from idempotence(given, on)
    if "delivery.timeout.ms" in given.values:
        linger, request = given.number("linger.ms", 5 if later else 0), given.number("request.timeout.ms", 30_000)
        timeout = given.number("delivery.timeout.ms", 0)
        if timeout < linger + request:
            yield f"delivery.timeout.ms={timeout:g} is below linger.ms={linger:g} plus request.timeout.ms={request:g}"


TRAITS = Traits(
    name="java",
    library="kafka-clients",
    reported={"kafka_clients": "kafka-clients"},
    releases=(OLDEST, NEWEST),
    abilities=in_all_releases(
        "produce",
        "transactions",
        "ignore reports",
        "timestamps of the application",
        *SENDING,
        "process",
        "plain processing",
        "commits before outputs",
        "batches of a size",
        "subscribe",
        "pattern",
        "sticky partitioner",
        "reset to none",
        "assignment without group.id",
        "asynchronous commits",
        "commits after processing",
        "encrypted keys",
        "static membership",
        "poll interval",
        "cooperative",
        "threads",
        "workers",
        "assign",
        "seek",
        "definite errors",
        "wrong clock",
        "checkpoint",
        "automatic commits in assign mode",
        "commit outcomes",
        "rack",
        *OWN_POSITIONS,
    )
    | {"KIP-848": "3.7.0", "share groups": "4.2.0", "tokens": "3.4.0"},
    lacks={
        "library partitioner": "the names are librdkafka's; set partitioner.class in config",
    },
    auto_commits=frozenset({"after_batch"}),
    settings={"producer": (Source("java-producer"),), "consumer": (Source("java-consumer"),)},
    plugins=PLUGINS,
    reserved=frozenset({"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"}),
    misnamed=MISNAMED,
    defaults=defaults,
    contradictions=contradictions,
    long_sessions_since="3.0.0",
    rack="client.rack",
    heap=True,
    mixed_assignors=True,
)
