"""The sources of rules: short forms in the table, names and addresses for the user.

- `producer:acks`, `consumer:…`, `topic:…`, `broker:…`: a setting in Apache Kafka's documentation.
- `docs:semantics`: a section of it. `javadoc:KafkaConsumer`: a class of the Java client.
- `KIP-679`, `KAFKA-13598`: a proposal, an issue of Kafka.
- `librdkafka:acks`: a setting in CONFIGURATION.md. `librdkafka#1092`, `sarama#2619`: an issue.
- `page:NAME`: a page in `_PAGES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from chaos.setup.triggers import Strict

_KAFKA = "https://kafka.apache.org/documentation/"
_LIBRDKAFKA = "https://github.com/confluentinc/librdkafka/"

_PAGES = {
    "librdkafka-introduction": ("librdkafka, INTRODUCTION.md", f"{_LIBRDKAFKA}blob/master/INTRODUCTION.md"),
    "sarama-config": ("sarama, config.go", "https://github.com/IBM/sarama/blob/main/config.go"),
    "sarama-group": ("sarama, consumer_group.go", "https://github.com/IBM/sarama/blob/main/consumer_group.go"),
    "flink-kafka": (
        "Flink, Apache Kafka Connector",
        "https://nightlies.apache.org/flink/flink-docs-stable/docs/connectors/datastream/kafka/",
    ),
    "franz-go-config": (
        "franz-go, package kgo, config.go",
        "https://github.com/twmb/franz-go/blob/master/pkg/kgo/config.go",
    ),
    "kafka-python-consumer": (
        "kafka-python, KafkaConsumer",
        "https://kafka-python.readthedocs.io/en/master/apidoc/KafkaConsumer.html",
    ),
    "limits": ("Aftershock, chaos/README.md, Limits", ""),
}

_SECTIONS = {
    "appvsosflush": "Application vs. OS Flush Management",
    "basic_ops_modify_topic": "Modifying topics",
    "compaction": "Log Compaction",
    "design_ha": "Availability and Durability Guarantees",
    "design_uncleanleader": "Unclean leader election",
    "impl_offsettracking": "Consumer Offset Tracking",
    "replication": "Replication",
    "semantics": "Message Delivery Semantics",
}


class Source(Strict):
    """A source with its address, which may be empty."""

    name: str
    url: str


def _setting(section: str, anchor: str) -> Callable[[str], Source]:
    return lambda name: Source(name=f"Kafka, {section}, {name}", url=f"{_KAFKA}#{anchor}_{name}")


_KINDS: dict[str, Callable[[str], Source]] = {
    "producer": _setting("Producer Configs", "producerconfigs"),
    "consumer": _setting("Consumer Configs", "consumerconfigs"),
    "topic": _setting("Topic Configs", "topicconfigs"),
    "broker": _setting("Broker Configs", "brokerconfigs"),
    "docs": lambda part: Source(name=f"Kafka, {_SECTIONS[part]}", url=f"{_KAFKA}#{part}"),
    "javadoc": lambda name: Source(
        name=f"Java client, {name}",
        url="https://kafka.apache.org/43/javadoc/org/apache/kafka/clients/"
        f"{'producer' if 'Producer' in name else 'consumer'}/{name}.html",
    ),
    "librdkafka": lambda name: Source(
        name=f"librdkafka, CONFIGURATION.md, {name}", url=f"{_LIBRDKAFKA}blob/master/CONFIGURATION.md"
    ),
    "page": lambda name: Source(name=_PAGES[name][0], url=_PAGES[name][1]),
}


def source(short: str) -> Source:
    """Return the source of a short form. Raises `ValueError` for another text."""
    if re.fullmatch(r"KIP-\d+", short):
        return Source(name=short, url=f"https://cwiki.apache.org/confluence/display/KAFKA/{short}")
    if re.fullmatch(r"KAFKA-\d+", short):
        return Source(name=short, url=f"https://issues.apache.org/jira/browse/{short}")
    if issue := re.fullmatch(r"(librdkafka|sarama)#(\d+)", short):
        project = "confluentinc/librdkafka" if issue[1] == "librdkafka" else "IBM/sarama"
        return Source(name=f"{issue[1]} issue {issue[2]}", url=f"https://github.com/{project}/issues/{issue[2]}")
    kind, _, name = short.partition(":")
    if kind not in _KINDS or not name:
        raise ValueError(f"{short!r} is no source")
    return _KINDS[kind](name)
