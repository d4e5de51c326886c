"""The clients, topics and brokers of a proof as entries of a scenario, with the settings that their runs have.

A setting of connections, secrets, files and plug-ins is left out: the lab has plain connections and its own programs.
Only names are ever shown, never values. Some times are shorter for speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from chaos.errors import UsageError
from chaos.guarantees.application import Traffic
from chaos.guarantees.facts import (
    AUTO_POLLED,
    AUTO_STORED,
    BROKER_NAMES,
    CLUSTER,
    GREEDY,
    MARKS,
    NO_COMMITS,
    RETENTION,
    ClientPart,
    ClusterPart,
    consumer_facts,
)
from chaos.guarantees.names import LABELS, known
from chaos.guarantees.values import PLACEHOLDER, Facts, Problems, Setting, Settings
from chaos.kafka.settings import FOR_SHORT_RUNS, Config, Scalar

Raw = dict[str, Any]
SHORT_MS = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1500, "max.poll.interval.ms": 6000}
"""Times of a member of a group, at most. Kafka's defaults are between 3 s and 5 min."""
KIP_848 = {"group.consumer.session.timeout.ms": 6000, "group.consumer.min.session.timeout.ms": 6000}
"""The same for members of the protocol of KIP-848: the brokers have their times."""
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
ABORT_EVERY = 5
GROUP = "app"
STORED: dict[str, Raw] = {
    "after_processing": {"when": "after_batch", "kind": "sync"},
    "before_processing": {"when": "before_processing", "kind": "sync"},
    AUTO_STORED: {"when": "before_processing", "kind": "auto"},
    AUTO_POLLED: {"when": "after_batch", "kind": "auto"},
    "never": {"when": "never"},
}
"""When a consumer commits, as `promise` and as a scenario say it."""
PLAIN = {
    "after_processing": "after_output",
    AUTO_POLLED: "after_output",
    "before_processing": "before_output",
    AUTO_STORED: "before_output",
}
"""When a processor without transactions commits, by the commit of its consumer."""
_STORING = ("confluent", "sarama", "franz-go")
"""Client libraries that commit by themselves what the application has stored or marked."""


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
    for name in [name for name in SHORT_MS if name in given]:
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
    """Return the cluster of the runs: the settings on which promises depend, and settings that make runs short."""
    read = {
        *CLUSTER,
        *BROKER_NAMES.values(),
        *RETENTION,
        "message.max.bytes",
        "replica.lag.time.max.ms",
        *FOR_SHORT_RUNS,
    }
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
    for name, value in FOR_SHORT_RUNS.items():
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


def assumed_commit(part: ClientPart, notes: Notes) -> Setting | None:
    """Return when a consumer commits if neither its settings nor app.yaml say it; None if the settings say it."""
    if "consumer.commit" in consumer_facts(part, Problems()):
        return None
    notes.assumed.append("the consumer commits after processing (consumer.commit)")
    return Setting("commit", "after_processing", "assumed", given=False)


def group_of(part: ClientPart | None) -> str:
    """Return the group id of a consumer."""
    given = part.settings.get("group.id") if part else None
    return given.value if given is not None and re.fullmatch(r"[\w.\-]{1,200}", given.value) else GROUP


def uses_kip_848(part: ClientPart | None) -> bool:
    """Return whether a consumer has the group protocol of KIP-848."""
    return part is not None and _is(part, "group.protocol", "consumer")


def _is(part: ClientPart, name: str, value: str) -> bool:
    return name in part.settings and part.settings[name].value.lower() == value


def is_transactional_processor(facts: Facts) -> bool:
    """Return whether the application reads, processes and writes in transactions."""
    commit, transactional = facts.get("consumer.commit"), facts.get("producer.transactional")
    return (
        commit is not None
        and commit.value == "in_transaction"
        and transactional is not None
        and transactional.value == "true"
    )


def producer(part: ClientPart, facts: Facts, topic: str, traffic: Traffic, notes: Notes) -> Raw:
    """Return the producer of an application."""
    config = client_config(part, notes)
    entry = {"name": "producer", "client": _client(part), "config": config, **_load(topic, traffic)}
    if facts["producer.transactional"].value == "true":
        return entry | {"transactions": _transactions(part, facts, traffic)}
    return entry | ({} if part.client.missing("resending") else {"resend": True})


def _load(topic: str, traffic: Traffic) -> Raw:
    load = {"topic": topic, "count": traffic.producers, "records": traffic.records, "rate": f"{traffic.rate:g}/s"}
    keys = {} if traffic.keys is None else {"keys": traffic.keys}
    return {**load, **keys, "value_size": traffic.value_size, "outlast_faults": True}


def feeder(name: str, topic: str, reader: ClientPart | None, traffic: Traffic) -> Raw:
    """Return the producer of an application without one, in transactions if the consumer asks for committed records."""
    config: Config = {"acks": "all", "enable.idempotence": True}
    entry = {"name": name, "config": config, **_load(topic, traffic)}
    committed = reader is not None and _is(reader, "isolation.level", "read_committed")
    return entry | ({"transactions": {"records": traffic.transaction, "abort_every": ABORT_EVERY}} if committed else {})


def consumer(part: ClientPart, facts: Facts, topic: str, group: str, traffic: Traffic, notes: Notes) -> Raw:
    """Return the consumer of an application, as a group. Raises `UsageError` for one that is no group."""
    commit = facts["consumer.commit"].value if "consumer.commit" in facts else "after_processing"
    if commit not in STORED:
        wanted = (
            "with a producer that has a transactional.id" if commit == "in_transaction" else "a consumer of a group"
        )
        raise UsageError(f"consumer.commit is {commit}, and prove knows that only {wanted}")
    if reason := part.client.missing("subscribe"):
        raise UsageError(f"prove runs consumers of a group, and {LABELS[part.client.runtime]} has none: {reason}")
    when = STORED[commit]
    if when.get("kind") != "auto" and _stores(part):
        when = {"when": "after_batch", "kind": "auto"}
    return {
        "mode": "subscribe",
        "name": "consumer",
        "client": _client(part),
        "group": group,
        "members": traffic.members,
        "topics": [topic],
        "commit": when,
        "per_record": f"{traffic.per_record * 1000:g}ms",
        "config": _member_config(part, notes),
    }


def _stores(part: ClientPart) -> bool:
    """Return whether the library commits by itself what the application has stored or marked."""
    automatic = consumer_facts(part, Problems()).get("consumer.enable.auto.commit")
    return automatic is not None and automatic.value == "true" and part.client.runtime in _STORING


def _member_config(part: ClientPart, notes: Notes) -> Config:
    config = client_config(part, notes)
    if uses_kip_848(part):
        return shorten(config, ["max.poll.interval.ms"], notes)
    return shorten(config, SHORT_MS, notes) if part.client.runtime in ("java", "confluent") else config


def processing_of(reader: ClientPart, facts: Facts, traffic: Traffic, notes: Notes) -> Raw:
    """Return how a processor writes and commits: in transactions or not. Raises `UsageError` if it never commits."""
    if is_transactional_processor(facts):
        if reason := reader.client.missing("transactions of a size"):
            raise UsageError(f"prove cannot run a processor of {LABELS[reader.client.runtime]}: {reason}")
        return {"transactions": {"records": traffic.transaction}}
    commit = facts["consumer.commit"].value if "consumer.commit" in facts else "after_processing"
    if commit not in PLAIN:
        raise UsageError(
            f"consumer.commit is {commit}, and prove knows an application that reads one topic and writes another only "
            f"with {', '.join(PLAIN)}, or in_transaction with a producer that has a transactional.id"
        )
    when = PLAIN[commit]
    order = "after its outputs are acknowledged" if when == "after_output" else "before it writes its outputs"
    if commit not in STORED or STORED[commit].get("kind") == "auto":
        notes.assumed.append(f"the automatic commit of a batch comes {order} (consumer.commit)")
    if reason := reader.client.missing("plain processing"):
        raise UsageError(
            f"prove cannot run a processor of {LABELS[reader.client.runtime]} without transactions: {reason}"
        )
    size = {} if reader.client.missing("batches of a size") else {"records": traffic.transaction}
    return {"plain": {"commit": when, **size}}


def processing(
    writer: ClientPart,
    reader: ClientPart,
    topics: tuple[Raw, Raw],
    group: str,
    how: Raw,
    traffic: Traffic,
    notes: Notes,
) -> Raw:
    """Return topics, processor and a reader of its outputs, for read-process-write.

    topics: input and output. how: what `processing_of` returns.
    """
    topic, out = topics
    if writer.client != reader.client:
        raise UsageError(
            f"producer.client is {writer.client.describe()} and consumer.client is {reader.client.describe()}; one "
            "client library reads, processes and writes: give both the same"
        )
    processor = {
        "name": "processor",
        "client": _client(writer),
        "group": group,
        "topics": [topic["name"]],
        "to": out["name"],
        "members": traffic.members,
        **how,
        "config": client_config(writer, notes),
        "consumer_config": _member_config(reader, notes),
    }
    isolation = "read_committed" if "transactions" in how else "read_uncommitted"
    outputs = {
        "mode": "subscribe",
        "name": "outputs",
        "group": "outputs",
        "topics": [out["name"]],
        "config": {"auto.offset.reset": "earliest", "isolation.level": isolation},
    }
    notes.assumed.append(f"a reader of the outputs with isolation.level={isolation}")
    return {"topics": [topic, out], "processors": [processor], "consumers": [outputs]}


def _transactions(part: ClientPart, facts: Facts, traffic: Traffic) -> Raw:
    given = facts.get("producer.transaction.timeout.ms")
    timeout = {"timeout": f"{given.value}ms"} if given is not None and int(given.value) >= 1000 else {}
    if part.client.missing("transactions of a size"):
        return timeout
    return {"records": traffic.transaction, "abort_every": ABORT_EVERY, **timeout}


def _client(part: ClientPart) -> str:
    return part.client.describe()
