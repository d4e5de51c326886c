"""The settings of a topic and of the brokers, from a cluster that exists. Nothing is changed there.

What the user gives besides counts instead, and a note names the difference. The number of replicas is taken from the
partitions of the topic, also for internal topics: offsets.topic.replication.factor counts only when __consumer_offsets
is created.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from chaos.cluster.attached.driver import ANSWER_S, no_topic, reach
from chaos.errors import UsageError
from chaos.guarantees.facts import BROKER_NAMES, BROKER_SETTINGS, ClusterPart, TopicPart
from chaos.guarantees.values import Problems, Setting, Settings, setting
from chaos.kafka.admin import DescribedSetting, broker_settings, topic_settings
from chaos.kafka.client import Kafka
from chaos.kafka.metadata import Metadata, PartitionState
from chaos.kafka.security import Access, Security
from chaos.kafka.settings import limit_names
from chaos.setup.names import Bootstrap

_AUDITED = (
    *("log.cleaner.delete.retention.ms", "inter.broker.protocol.version"),
    *("group.share.record.lock.duration.ms", "group.share.delivery.count.limit"),
)
"""Settings of brokers that the audit of a run reads, and no rule."""
_IF_ALIKE = frozenset(
    {
        *("log.retention.check.interval.ms", "log.initial.task.delay.ms", "log.message.timestamp.type"),
        *("group.consumer.session.timeout.ms", *limit_names("share")),
    }
).difference(_AUDITED)
"""Settings of brokers that a run knows only if all brokers have one value; no promise depends on them."""
_BROKER_SETTINGS = sorted({*BROKER_SETTINGS, *_AUDITED, *_IF_ALIKE})
_INTERNAL = {
    "__consumer_offsets": ("offsets.topic.replication.factor", "offsets.min.insync.replicas"),
    "__transaction_state": ("transaction.state.log.replication.factor", "transaction.state.log.min.isr"),
}
"""Internal topics, with the facts that their replicas and their min.insync.replicas are."""
DIFFER = "brokers differ in"
"""The beginning of a note about a setting in which brokers differ."""
_SHOWN = 3
"""Number of partitions that a note names."""


def add_cluster(
    bootstrap: str,
    security: Security,
    name: str,
    topic: TopicPart | None,
    cluster: ClusterPart,
    problems: Problems,
) -> TopicPart | None:
    """Add the settings of a cluster that the user did not give; return the topic.

    name: the topic; empty for none. Raises `UsageError` if access is refused or there is no such topic, and
    `ClusterError` if the cluster does not answer.
    """
    try:
        TypeAdapter(Bootstrap).validate_python(bootstrap)
    except ValidationError:
        raise UsageError(f"--bootstrap {bootstrap!r} is no address; write host:port, or several with commas") from None
    access = Access.of(security)
    metadata = reach(bootstrap, access)
    kafka = Kafka(bootstrap, ANSWER_S, access)
    try:
        kafka.metadata()  # so that each broker can be asked for its own settings
        _add_brokers(kafka, metadata, cluster, problems)
        for internal, facts in _INTERNAL.items():
            if states := _states(metadata, internal):
                least = topic_settings(kafka, internal, ["min.insync.replicas"])["min.insync.replicas"]
                cluster.internal[facts[0]] = _replicas(internal, states)
                cluster.internal[facts[1]] = _setting(f"min.insync.replicas of {internal}", least, internal)
        return _with_topic(kafka, metadata, name, topic, problems) if name else topic
    finally:
        kafka.close()


def _add_brokers(kafka: Kafka, metadata: Metadata, cluster: ClusterPart, problems: Problems) -> None:
    """Add the settings of the brokers. Where they differ, the first broker counts."""
    of_brokers = {broker: broker_settings(kafka, broker, _BROKER_SETTINGS) for broker in metadata.brokers}
    first = min(of_brokers)
    for name in _BROKER_SETTINGS:
        values = {broker: found[name].value for broker, found in of_brokers.items() if name in found}
        if len(set(values.values())) > 1 and name in _IF_ALIKE:
            del of_brokers[first][name]
        elif len(set(values.values())) > 1:
            listed = ", ".join(f"{value} on broker {broker}" for broker, value in values.items())
            problems.notes.append(f"{DIFFER} {name}: {listed}; the answers use the value of broker {first}")
    theirs = {name: _setting(name, found, f"broker {first}") for name, found in of_brokers[first].items()}
    cluster.settings = _overridden(theirs, cluster.settings, problems)
    cluster.given = True
    cluster.asked = f"{len(metadata.brokers)} brokers asked"


def _with_topic(kafka: Kafka, metadata: Metadata, name: str, topic: TopicPart | None, problems: Problems) -> TopicPart:
    """Return the topic as it is in the cluster, with what the user gave instead."""
    states = _states(metadata, name)
    if not states:
        raise no_topic(name, metadata)
    theirs = {
        key: _setting(key, found, name) for key, found in topic_settings(kafka, name, sorted(BROKER_NAMES)).items()
    }
    given = topic or TopicPart()
    replicas = _replicas(name, states)
    if given.replicas is not None and given.replicas.value != replicas.value:
        problems.notes.append(_difference(given.replicas, replicas))
    if len({len(state.replicas) for state in states.values()}) > 1:
        problems.notes.append(f"partitions of {name} differ in their number of replicas; the smallest one counts")
    lagging = [partition for partition, state in states.items() if len(state.isr) < len(state.replicas)]
    if lagging:
        listed = ", ".join(lagging[:_SHOWN]) + (" …" if len(lagging) > _SHOWN else "")
        problems.notes.append(f"{len(lagging)} of {len(states)} partitions lack a replica in sync now: {listed}")
    return TopicPart(_overridden(theirs, given.settings, problems), given.replicas or replicas)


def _states(metadata: Metadata, topic: str) -> dict[str, PartitionState]:
    """Return the partitions of a topic by their text form."""
    return {str(partition): state for partition, state in metadata.partitions.items() if partition.topic == topic}


def _replicas(topic: str, states: Mapping[str, PartitionState]) -> Setting:
    least = min(len(state.replicas) for state in states.values())
    name = f"replication factor of {topic}" if topic in _INTERNAL else "replication factor"
    return setting(name, least, f"cluster, {topic}")


def _overridden(theirs: Settings, given: Settings, problems: Problems) -> Settings:
    """Return the settings of the cluster with what the user gave instead, and note the differences."""
    for name in given:
        if name in theirs and theirs[name].value != given[name].value:
            problems.notes.append(_difference(given[name], theirs[name]))
    return {**theirs, **given}


def _difference(given: Setting, theirs: Setting) -> str:
    return f"{given.origin}: {given.name} is {given.value} here, and {theirs.value} in the cluster ({theirs.origin})"


def _setting(name: str, found: DescribedSetting, where: str) -> Setting:
    return Setting(name, found.value, _origin(found, where), found.level != "default")


def _origin(found: DescribedSetting, where: str) -> str:
    """Return the origin of a value in a cluster: `where` is the topic or the broker that was asked."""
    levels = {
        "topic": f"cluster, topic {where}",
        "broker": "cluster, set on a broker while it runs",
        "all brokers": "cluster, set on all brokers while they run",
        "file": "cluster, server.properties",
        "default": "cluster, Kafka's default",
    }
    return levels[found.level]
