"""Names of settings: which ones a client, a topic or a broker knows, and which client a file is written for.

The tables of `chaos.settings` have the names. sarama's settings are fields of its `Config`;
`chaos.clients.sarama.traits` knows them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from functools import cache
from typing import Literal, get_args

from chaos.clients.choice import RUNTIMES
from chaos.clients.java.traits import MISNAMED as LIBRDKAFKA_TO_JAVA
from chaos.clients.kafka_python.traits import SETTINGS as _OF_PYTHON
from chaos.clients.sarama.traits import NAMES as SARAMA
from chaos.errors import UsageError
from chaos.guarantees.values import Problems, Setting, Settings
from chaos.kafka.settings import Scalar
from chaos.settings import table

Role = Literal["producer", "consumer"]
Part = Literal["producer", "consumer", "topic", "cluster"]
PARTS: tuple[Part, ...] = get_args(Part)

ALIASES = {
    "confluent": {
        "request.required.acks": "acks",
        "message.send.max.retries": "retries",
        "max.in.flight": "max.in.flight.requests.per.connection",
        "message.timeout.ms": "delivery.timeout.ms",
    },
    "sarama": {
        "Net.MaxOpenRequests": "max.in.flight.requests.per.connection",
        "Producer.Retry.Backoff": "retry.backoff.ms",
        "Producer.Transaction.ID": "transactional.id",
        "Producer.Transaction.Timeout": "transaction.timeout.ms",
        "Consumer.Offsets.AutoCommit.Enable": "enable.auto.commit",
    },
}
"""Names of settings that `Traits.common` does not rename, with their common names."""

JAVA_TO_LIBRDKAFKA = {
    **{java: own for own, java in LIBRDKAFKA_TO_JAVA.items() if java and java != "acks"},
    "max.poll.records": "",
    "buffer.memory": "queue.buffering.max.kbytes",
    "partitioner.class": "partitioner",
    "partitioner.ignore.keys": "",
    "max.block.ms": "",
    **dict.fromkeys(["key.serializer", "value.serializer", "key.deserializer", "value.deserializer"], ""),
}
"""Settings of the Java client, with their names in librdkafka; empty if it has none."""

_SARAMA = sorted({*SARAMA, *ALIASES["sarama"], "Producer.Partitioner"})
"""The fields of sarama's `Config` that the rules read, or that have a common name."""
_PYTHON = {"error_cb", "logger", "on_commit", "on_delivery", "throttle_cb", "stats_cb"}
"""Settings of confluent-kafka that librdkafka does not have."""
PYTHON = _OF_PYTHON | {"bootstrap_servers", "group_id", "client_id", "enable_auto_commit", "transactional_id"}
"""Settings of kafka-python, which aiokafka has, too, by the names that no other library has."""
_WRAPPERS = re.compile(r"go\.|dotnet\.|(event|rebalance|offset_commit|dr|dr_msg)_cb$")
"""Settings of confluent-kafka-go, Confluent.Kafka for .NET and node-rdkafka that librdkafka does not have."""
_FOREIGN = re.compile(r"(schema\.registry|basic\.auth|bearer\.auth|confluent|apicurio|avro|json|spring|value\.|key\.)")
"""Beginnings of names that serializers and interceptors read."""


@cache
def known(part: str) -> frozenset[str]:
    """Return the names in a table of `chaos.settings`, such as `java-producer` or `topic`, of all releases."""
    return frozenset(name for name, rows in table(part).items() if not rows[-1].values.endswith(" other"))


def common_name(runtime: str, name: str, value: Scalar) -> tuple[str, Scalar]:
    """Return the common name and value of a setting of a client library."""
    ((found, changed),) = RUNTIMES[runtime].common({name: value}).items()
    return ALIASES.get(runtime, {}).get(found, found), changed


def recognize(names: Collection[str], role: Role) -> str:
    """Return the client library that most names of settings belong to: java, confluent or sarama; empty if none does.

    Raises `UsageError` if as many belong to another one.
    """
    java, librdkafka = known(f"java-{role}"), known(f"librdkafka-{role}")
    evidence = {
        "java": [name for name in names if name in java - librdkafka],
        "confluent": [name for name in names if name in librdkafka - java],
        "sarama": [name for name in names if name in {*SARAMA, *ALIASES["sarama"]} and name[:1].isupper()],
    }
    found = {library: sorted(own) for library, own in evidence.items() if own}
    ranked = sorted(found, key=lambda library: len(found[library]), reverse=True)
    if len(ranked) > 1 and len(found[ranked[0]]) == len(found[ranked[1]]):
        both = "; ".join(f"{own[0]} is a setting of {LABELS[library]}" for library, own in found.items())
        raise UsageError(f"the {role}'s settings belong to several clients: {both}; name one with --client")
    return next(iter(ranked), "")


LABELS = {
    "java": "the Java client",
    "confluent": "librdkafka",
    "sarama": "sarama",
    "flink": "Flink",
    "flink-legacy": "Flink",
    "spark": "Spark",
    "streams": "Kafka Streams",
    "franz-go": "franz-go",
    "kafka-python": "kafka-python",
}
"""Client libraries in sentences."""


def check_client_names(runtime: str, role: Role, settings: Settings, problems: Problems) -> None:
    """Add the settings that a client does not know, with their counterpart or the nearest name."""
    traits = RUNTIMES[runtime]
    if runtime in ("java", "confluent"):
        library = "librdkafka" if runtime == "confluent" else "java"
        own, other = known(f"{library}-{role}"), known(f"{library}-{'consumer' if role == 'producer' else 'producer'}")
        counterparts = LIBRDKAFKA_TO_JAVA if runtime == "java" else JAVA_TO_LIBRDKAFKA
        for name, found in settings.items():
            if name not in own and name not in _PYTHON and not (runtime == "confluent" and _WRAPPERS.match(name)):
                _add_unknown(runtime, role, name, found, own, other, counterparts, problems)
        return
    for name, found in settings.items():
        if counterpart := traits.misnamed.get(name):
            problems.refused.append(f"{found.origin}: {name} is no setting of {LABELS[runtime]}; use {counterpart}")
        elif name in traits.reserved or name.startswith(traits.reserved_parts):
            continue  # the library has it, and programs of the lab set it themselves
        elif reason := traits.unknown(name):
            problems.refused.append(f"{found.origin}: {name} is no setting of {LABELS[runtime]}; {reason}")
        elif runtime == "sarama" and name not in _SARAMA and (near := get_close_matches(name, _SARAMA, 1, 0.85)):
            problems.refused.append(f"{found.origin}: {name} is not read by the rules; did you mean {near[0]}?")


def _add_unknown(
    runtime: str,
    role: Role,
    name: str,
    found: Setting,
    own: Collection[str],
    other: Collection[str],
    counterparts: dict[str, str],
    problems: Problems,
) -> None:
    """Add one unknown setting. librdkafka does not start with it, the Java client only warns.

    A name that looks like a setting is refused: the user means something with it, and the client does not do it.
    """
    client = LABELS[runtime]
    if name in other:
        problems.notes.append(
            f"{found.origin}: {found.name} has no effect in a {role}; it is a setting of the other role"
        )
        return
    near = get_close_matches(name, own, 1, 0.8) or _after_beginning(name, own)
    if counterpart := counterparts.get(name):
        advice = f"it is called {counterpart} there"
    elif name in counterparts:
        advice = "it has nothing like it"
    else:
        advice = f"did you mean {near[0]}?" if near else ""
    if runtime == "confluent":
        advice = advice or "leave it out"
        problems.refused.append(f"{found.origin}: {found.name} is no setting of {client}, which refuses it; {advice}")
    elif name in known("topic") | known("broker"):
        problems.notes.append(
            f"{found.origin}: {found.name} has no effect in a {role}; it is a setting of a topic or broker"
        )
    elif near and name not in counterparts and not _FOREIGN.match(name):
        problems.refused.append(f"{found.origin}: {found.name} is no setting of {client}, which ignores it; {advice}")
    else:
        advice = advice or "only a serializer, an interceptor or a plugin may read it"
        problems.notes.append(f"{found.origin}: {found.name} is no setting of {client}, which ignores it; {advice}")


def _after_beginning(name: str, names: Collection[str]) -> list[str]:
    """Return the setting behind a beginning that no client knows, as in `properties.acks`."""
    parts = name.split(".")
    return [tail for start in range(1, len(parts)) if (tail := ".".join(parts[start:])) in names][:1]


def check_understood(runtime: str, role: Role, settings: Settings, label: str) -> None:
    """Raise `UsageError` if a file has no setting of a client: its defaults would be no answer about the file."""
    if runtime not in ("java", "confluent"):
        return
    library = "librdkafka" if runtime == "confluent" else "java"
    both = known(f"{library}-producer") | known(f"{library}-consumer")
    counterparts = LIBRDKAFKA_TO_JAVA if runtime == "java" else JAVA_TO_LIBRDKAFKA
    if settings.keys() & {*both, *counterparts, *_PYTHON}:
        return
    name, first = next(iter(settings.items()))
    part = next((part for part in ("broker", "topic") if name in known(part)), "")
    options = {"broker": "--server-properties", "topic": "--topic-config"}
    advice = f"it is a setting of a {part}; give the file with {options[part]}" if part else _nearest(name, both)
    raise UsageError(f"{label} has no setting of a {role}: {name} ({first.origin}) is not understood; {advice}")


def _nearest(name: str, names: Collection[str]) -> str:
    near = get_close_matches(name, names, 1, 0.6)
    return f"did you mean {near[0]}?" if near else "write lines such as acks=all"


def parts_of_names(names: Collection[str], label: str) -> tuple[Part, ...]:
    """Return the parts that a file with Kafka's names is for. Raises `UsageError` if the names do not say it."""
    if any("_" in name and name in PYTHON for name in names):
        raise UsageError(
            f"{label}: its names belong to kafka-python and aiokafka; the rules know the consumer of kafka-python: "
            "give the file with --consumer-properties and --client kafka-python"
        )
    every = {role: known(f"java-{role}") | known(f"librdkafka-{role}") for role in ("producer", "consumer")}
    clients, given = every["producer"] | every["consumer"], set(names)
    sarama = {name.partition(".")[0].lower() for name in given & {*SARAMA, *ALIASES["sarama"], "Producer.Partitioner"}}
    broker = known("broker") - known("topic") - clients
    own: dict[Part, set[str]] = {
        "producer": (given & (every["producer"] - every["consumer"] - known("broker"))) | (sarama & {"producer"}),
        "consumer": (given & (every["consumer"] - every["producer"] - known("broker"))) | (sarama & {"consumer"}),
        "cluster": given & broker,
        "topic": set() if given & broker else given & (known("topic") - clients),
    }
    found = [part for part, evidence in own.items() if evidence]
    if not found or (len(found) > 1 and {"cluster", "topic"} & set(found)):
        listed = "; ".join(f"{sorted(evidence)[0]} is of a {part}" for part, evidence in own.items() if evidence)
        every_name = clients | known("broker") | known("topic")
        near = sorted(name for name in given - every_name if get_close_matches(name, every_name, 1, 0.8))
        hint = f" ({near[0]} looks like {_nearest(near[0], every_name)[13:-1]})" if near else ""
        raise UsageError(
            f"{label}: {listed or f'no name in it says what it is for{hint}'}; give it with one of "
            "--producer-properties, --consumer-properties, --topic-config, --server-properties"
        )
    return tuple(found)


def check_topic_names(settings: Settings, problems: Problems) -> None:
    """Add settings that no topic has. The broker refuses a topic with one of them."""
    for name, found in settings.items():
        if name not in known("topic"):
            own = name.removeprefix("log.")
            near = [own] if own in known("topic") else get_close_matches(name, known("topic"), 1, 0.6)
            advice = f"did you mean {near[0]}?" if near else "see Topic Configs in Kafka's documentation"
            problems.refused.append(
                f"{found.origin}: {name} is no setting of a topic, and a broker refuses it; {advice}"
            )


def check_broker_names(settings: Settings, problems: Problems) -> None:
    """Add settings that no broker has, and that look like one. A broker ignores them."""
    for name, found in settings.items():
        if name in known("broker") or name.startswith("listener.name."):
            continue
        if near := get_close_matches(name, known("broker"), 1, 0.85):
            problems.refused.append(f"{found.origin}: {name} is no setting of a broker; did you mean {near[0]}?")
