"""Settings of brokers, topics and clients: their types in a scenario, and their text for Kafka."""

from __future__ import annotations

Scalar = bool | int | float | str
Config = dict[str, Scalar]

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
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Settings of a topic that decide about records, with the settings of the broker that are their defaults."""


def as_text(value: Scalar) -> str:
    """Return a setting in the form that Kafka and librdkafka read: `true`, `1000`, `all`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def topic_defaults(broker: Config) -> Config:
    """Return what settings of a broker mean for a topic without own values, by the names of the topic's settings."""
    return {topic: broker[name] for topic, name in BROKER_NAMES.items() if name in broker}
