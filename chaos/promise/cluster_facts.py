"""Facts of a topic and of its cluster.

A topic without a value of its own has that of the broker: log.retention.ms is the broker's retention.ms, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chaos.kafka import settings
from chaos.promise.problems import Problems
from chaos.promise.settings import Facts, Setting, Settings, setting
from chaos.promise.values import check_value, defaults

BROKER_NAMES = {
    name: settings.BROKER_NAMES[name]
    for name in (
        *("min.insync.replicas", "unclean.leader.election.enable", "flush.messages"),
        *("cleanup.policy", "retention.ms", "retention.bytes"),
    )
}
"""Settings of a topic that the rules read, with the settings of the broker that are their defaults."""

RETENTION = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}
"""Other settings of the broker for retention.ms, with their unit in ms; log.retention.ms counts before them."""

_TRANSACTIONS = "cluster.transaction.state.log"
CLUSTER = (
    *("offsets.topic.replication.factor", "offsets.retention.minutes", "transaction.state.log.replication.factor"),
    *("transaction.state.log.min.isr", "transaction.max.timeout.ms", "group.min.session.timeout.ms"),
    *("group.max.session.timeout.ms", "min.insync.replicas", "unclean.leader.election.enable"),
)
"""Settings of a broker that the rules read for themselves."""

BROKER_SETTINGS = frozenset({*CLUSTER, *BROKER_NAMES.values(), *RETENTION, "default.replication.factor"})
"""All settings of a broker that the rules read."""


@dataclass
class TopicPart:
    """A topic: its settings, and its numbers of replicas and of partitions if they are known."""

    settings: Settings = field(default_factory=dict)
    replicas: Setting | None = None
    partitions: Setting | None = None


@dataclass
class ClusterPart:
    """A cluster: its settings. brokers: their number if known.

    given: whether anything is known about the settings; if not, defaults say little about a real cluster.
    controllers: number of dedicated ones. No promise depends on it, nor on features, which are levels by their names.
    internal: settings of the internal topics as they are, such as `offsets.topic.replication.factor`; they win.
    asked: how many brokers were asked for their settings; empty if none was.
    """

    settings: Settings = field(default_factory=dict)
    kafka: str | None = None
    brokers: Setting | None = None
    given: bool = False
    controllers: int | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    internal: Settings = field(default_factory=dict)
    asked: str = ""

    @property
    def software(self) -> str:
        """Kafka, with its release if it is known."""
        return f"Kafka {self.kafka}" if self.kafka else "Kafka"


def cluster_facts(topic: TopicPart | None, cluster: ClusterPart, problems: Problems) -> Facts:
    """Return the facts of the topic and of the cluster. A value that is none is added to `problems`."""
    brokers = _broker_settings(cluster, problems)
    facts: Facts = {}
    if cluster.brokers:
        facts["cluster.brokers"] = cluster.brokers
    if cluster.given:
        own = {name: brokers[name] for name in CLUSTER if name in brokers} | _checked(cluster.internal, problems)
        facts |= {f"cluster.{name}": found for name, found in own.items()}
        facts.setdefault("cluster.offsets.min.insync.replicas", facts["cluster.min.insync.replicas"])
    if topic is not None:
        given = _checked({name: s for name, s in topic.settings.items() if name in BROKER_NAMES}, problems)
        facts |= {
            f"topic.{name}": given.get(name) or brokers[own]
            for name, own in BROKER_NAMES.items()
            if name in given or own in brokers
        }
        if replicas := topic.replicas or _default_replicas(brokers, cluster):
            facts["topic.replication.factor"] = replicas
    return facts | _derived(facts)


def _broker_settings(cluster: ClusterPart, problems: Problems) -> Settings:
    """Return the broker settings that the rules read, with defaults."""
    plain = {
        name: setting(name, value, f"default of {cluster.software}", given=False)
        for name, value in defaults("kafka", None).items()
    }
    read = {*plain, *RETENTION}
    given = _checked({name: s for name, s in cluster.settings.items() if name in read}, problems)
    if "log.retention.ms" not in given:
        for name, unit in RETENTION.items():
            if name in given:
                found = given[name]
                time_ms = int(found.value) * unit if int(found.value) >= 0 else -1
                given["log.retention.ms"] = found.meaning(str(time_ms))
                break
    return {**plain, **given}


def _default_replicas(brokers: Settings, cluster: ClusterPart) -> Setting | None:
    """Return the number of replicas of a topic that a broker creates; None if nothing is known of the broker."""
    found = brokers.get("default.replication.factor")
    return replace(found, origin=f"{found.origin}, for a new topic") if found and cluster.given else None


def _checked(settings: Mapping[str, Setting], problems: Problems) -> Settings:
    checked = {name: check_value("kafka", None, name, found, problems) for name, found in settings.items()}
    return {name: found for name, found in checked.items() if found is not None}


def _derived(facts: Facts) -> Facts:
    """Return what follows from replicas and min.insync.replicas: how many may be lost, and how many may be down.

    A topic with more replicas than brokers cannot be created (INVALID_REPLICATION_FACTOR).
    """
    found: Facts = {}
    pairs = (
        ("topic", "topic.replication.factor", "topic.min.insync.replicas"),
        ("cluster.offsets", "cluster.offsets.topic.replication.factor", "cluster.offsets.min.insync.replicas"),
        (
            "cluster.transactions",
            f"{_TRANSACTIONS}.replication.factor",
            f"{_TRANSACTIONS}.min.isr",
        ),
    )
    for part, replicas, least in pairs:
        if replicas in facts and least in facts:
            n, m = int(facts[replicas].value), int(facts[least].value)
            both = f"{facts[replicas].origin}, {facts[least].origin}"
            numbers = {"losable": m - 1, "spare": n - m, "copies.beyond.leader": n - 1}
            found |= {f"{part}.{name}": Setting(name, str(value), both, False) for name, value in numbers.items()}
            if "cluster.brokers" in facts and n > int(facts["cluster.brokers"].value):
                found[f"{part}.uncreated"] = Setting("uncreated", "true", both)
    return found
