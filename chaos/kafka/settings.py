"""Settings of brokers, topics and clients: their types in a scenario, and their text for Kafka."""

from __future__ import annotations

from collections.abc import Iterator

Scalar = bool | int | float | str
Config = dict[str, Scalar]

FOR_SHORT_RUNS: Config = {
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 200,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2000,
}
"""Settings of the brokers that make runs short. The promises do not depend on them."""

BROKER_NAMES = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Settings of a topic that decide about records, with the settings of the broker that are their defaults."""


_OF_NEW_GROUPS = {"session.timeout.ms": (45_000, 45_000, 60_000), "heartbeat.interval.ms": (5_000, 5_000, 15_000)}
LOCK = "record.lock.duration.ms"
_OF_SHARES = {LOCK: (30_000, 15_000, 60_000), "delivery.count.limit": (5, 2, 10)}
GROUP_RANGES = {"consumer": _OF_NEW_GROUPS, "share": _OF_NEW_GROUPS | _OF_SHARES, "streams": _OF_NEW_GROUPS}
"""Settings of brokers for new groups: the default of `group.<kind>.<name>`, and the defaults of its limits, which are
`group.<kind>.min.<name>` and `group.<kind>.max.<name>` (`GroupCoordinatorConfig` and `ShareGroupConfig` of Kafka)."""


def limit_names(kind: str) -> Iterator[str]:
    """Yield the settings of brokers for a kind of new groups, with their limits."""
    return (f"group.{kind}.{limit}{name}" for name in GROUP_RANGES[kind] for limit in ("", "min.", "max."))


def as_text(value: Scalar) -> str:
    """Return a setting in the form that Kafka and librdkafka read: `true`, `1000`, `all`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def topic_defaults(broker: Config) -> Config:
    """Return what settings of a broker mean for a topic without own values, by the names of the topic's settings."""
    return {topic: broker[name] for topic, name in BROKER_NAMES.items() if name in broker}
