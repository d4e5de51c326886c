"""The clients of a proof: producer, consumer, processor and feeder, as entries of a scenario."""

from __future__ import annotations

import re

from chaos.errors import UsageError
from chaos.kafka.settings import Config
from chaos.promise.app import Traffic
from chaos.promise.client_settings import ClientPart
from chaos.promise.consumer_facts import AUTO_POLLED, AUTO_STORED, consumer_facts
from chaos.promise.names import LABELS
from chaos.promise.problems import Problems
from chaos.promise.settings import Facts, Setting
from chaos.prove.settings import SHORT_MS, Notes, Raw, client_config, shorten

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
