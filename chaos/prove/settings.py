"""The settings of an application in the runs of a proof: which ones they have, and which times are shorter for speed.

A setting of connections, secrets, files and plug-ins is left out: the lab has plain connections and its own programs.
Only names are ever shown, never values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from chaos.kafka.settings import Config, Scalar
from chaos.promise.client_settings import ClientPart
from chaos.promise.cluster_facts import BROKER_NAMES, CLUSTER, RETENTION, ClusterPart
from chaos.promise.consumer_facts import GREEDY, MARKS, NO_COMMITS
from chaos.promise.names import known
from chaos.promise.settings import Setting, Settings
from chaos.promise.values import PLACEHOLDER

Raw = dict[str, Any]

SPEED: Config = {
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 200,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2000,
}
"""Settings of the brokers that make runs short. The promises do not depend on them."""

SHORT_MS = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1500, "max.poll.interval.ms": 6000}
"""Times of a member of a group, at most. Kafka's defaults are between 3 s and 5 min."""
KIP_848 = {"group.consumer.session.timeout.ms": 6000, "group.consumer.min.session.timeout.ms": 6000}
"""The same for members of the protocol of KIP-848, of which the brokers have the times."""

_CONNECTION = re.compile(
    r"(security|sasl|ssl|enable\.ssl|broker\.address|client\.(id|rack|dns)|bootstrap|metadata\.broker|oauthbearer)"
)
_SECRET = re.compile(r"password|secret|token|credential|jaas|\.key$|private", re.IGNORECASE)
_PLUGIN = re.compile(r"(\.location|\.file|\.path|\.paths|\.classes|\.reporters|\.class|serializer|deserializer|_cb)$")
_KAFKAS = "org.apache.kafka."
_OF_THE_LAB = frozenset(
    {
        *("group.id", "group.instance.id", "enable.auto.commit", "enable.auto.offset.store", "group.remote.assignor"),
        *("group_id", "enable_auto_commit", NO_COMMITS, MARKS, GREEDY),
        *("transactional.id", "transaction.timeout.ms", "key.serializer", "value.serializer", "debug", "logger"),
    }
)
"""Settings that a scenario has keys for."""
_LISTS = {"java": "java", "confluent": "librdkafka"}
"""Client libraries with a list of the settings that they know."""
_COMPACT = "cleanup.policy"
_TOPIC_STATES = re.compile(r"(remote\.|leader\.replication|follower\.replication)")


@dataclass
class Notes:
    """What was assumed, left out and changed on the way from an application to a scenario."""

    assumed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def dump(raw: Raw) -> str:
    """Return a scenario as YAML."""
    return yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, width=120)


def value_of(text: str) -> Scalar:
    """Return a setting as a scenario has it: true and false, whole numbers, else text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def client_config(part: ClientPart, notes: Notes) -> Config:
    """Return the settings of a client that its runs have."""
    traits = part.client.traits
    library = _LISTS.get(part.client.runtime)
    allowed = known(f"{library}-{part.role}") if library else None
    found: Config = {}
    for name, given in part.settings.items():
        if name in _OF_THE_LAB:
            continue
        reserved = name in traits.reserved or name.startswith(traits.reserved_parts)
        if why := "the lab sets it itself" if reserved else _why_left_out(name, given, allowed):
            notes.left_out.append(f"{name} ({given.origin}): {why}")
        else:
            found[name] = value_of(given.value)
    return found


def _why_left_out(name: str, given: Setting, allowed: frozenset[str] | None) -> str:
    """Return why a setting is left out; empty if it is not."""
    if _CONNECTION.match(name) or _SECRET.search(name):
        return "the lab has plain connections"
    if allowed is not None and name not in allowed:
        return "the client library does not know it"
    if PLACEHOLDER.search(given.value):
        return "it has a placeholder, and no promise depends on it"
    foreign = "." in given.value and not given.value.startswith(_KAFKAS) and name.endswith(("class", "strategy"))
    if foreign or (_PLUGIN.search(name) and not given.value.startswith(_KAFKAS)):
        return "the lab has neither its file nor its class"
    return ""


def shorten(config: Config, given: Iterable[str], notes: Notes) -> Config:
    """Return the settings of a member of a group with shorter times. given: the names that its library has."""
    for name in set(SHORT_MS) & set(given):
        before = config.get(name)
        if not isinstance(before, int) or before > SHORT_MS[name]:
            config[name] = SHORT_MS[name]
            notes.changed.append(f"{name}={SHORT_MS[name]}" + (f" instead of {before}" if before is not None else ""))
    return config


def shorten_kip_848(config: Config, notes: Notes) -> None:
    """Add the times of members of the protocol of KIP-848 to the settings of the brokers."""
    for name, value in KIP_848.items():
        if name not in config:
            config[name] = value
            notes.changed.append(f"{name}={value}")


def topic_config(settings: Settings, notes: Notes) -> Config:
    """Return the settings of the topic that its runs have."""
    found: Config = {}
    for name, given in settings.items():
        compacts = name == _COMPACT and "compact" in given.value
        if compacts or _TOPIC_STATES.match(name):
            why = "compaction takes longer than a run" if compacts else "the lab has no such storage or throttle"
            notes.left_out.append(f"{name} ({given.origin}): {why}")
        elif PLACEHOLDER.search(given.value):
            notes.left_out.append(f"{name} ({given.origin}): it has a placeholder, and no promise depends on it")
        elif name in known("topic"):
            found[name] = value_of(given.value)
    return found


def cluster(part: ClusterPart, notes: Notes) -> Raw:
    """Return the cluster of the runs: the settings on which promises depend, and those that make runs short."""
    read = {*CLUSTER, *BROKER_NAMES.values(), *RETENTION, "message.max.bytes", "replica.lag.time.max.ms", *SPEED}
    config: Config = {}
    for name, given in part.settings.items():
        if name in read and not PLACEHOLDER.search(given.value):
            if not (name == f"log.{_COMPACT}" and "compact" in given.value):
                config[name] = value_of(given.value)
        elif given.given:
            notes.left_out.append(f"{name} ({given.origin}): no promise depends on it")
    for name, given in part.internal.items():
        if name in CLUSTER:
            config[name] = value_of(given.value)
    for name, value in SPEED.items():
        if name not in config:
            config[name] = value
            notes.changed.append(f"{name}={value}")
    brokers = int(part.brokers.value) if part.brokers else 3
    found: Raw = {"brokers": brokers, "kafka": _release(part.kafka), "config": config}
    own = {"controllers": part.controllers, "features": dict(part.features)}
    return found | {name: value for name, value in own.items() if value}


def _release(kafka: str | None) -> str:
    """Return a release with three numbers: `3.9` means its first one."""
    text = str(kafka)
    return text if text.count(".") == 2 else f"{text}.0"


def internal_replicas(brokers: int) -> Config:
    """Return the replicas of internal topics that the lab gives to a cluster."""
    return {
        "offsets.topic.replication.factor": min(3, brokers),
        "transaction.state.log.replication.factor": min(3, brokers),
        "transaction.state.log.min.isr": min(2, brokers),
    }
