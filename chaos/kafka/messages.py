"""Requests of Kafka's protocol, written with plain dicts and the field names of the protocol guide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from chaos.kafka.partition import TopicPartition


def request(kind: Any, **fields: Any) -> Any:
    """Return a message. `kind` is a kafka-python class with its version; nested structures are dicts."""
    values = {}
    for name, value in fields.items():
        field = kind.fields[name]
        nested = field.is_struct_array() and value is not None
        values[name] = [request(field.data_class, **item) for item in value] if nested else value
    return kind(**values)


def topics(partitions: Mapping[TopicPartition, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the `topics` field that most requests have, given the further fields of each partition."""
    found: dict[str, list[dict[str, Any]]] = {}
    for partition, fields in partitions.items():
        found.setdefault(partition.topic, []).append({"partition_index": partition.number, **fields})
    return [{"name": name, "partitions": parts} for name, parts in found.items()]


def versions() -> Any:
    """Return an ApiVersions request, which every broker answers at once, without a look at the cluster."""
    return ApiVersionsRequest[0]()


TOPIC_IDS = 10
"""The first version of Metadata with topic ids (KIP-516, Kafka 2.8)."""


def metadata(topics: Iterable[str] | None = (), topic_ids: bool = False) -> Any:
    """Return a Metadata request for the brokers and these topics (None: all topics); topic_ids: with their ids."""
    names = None if topics is None else [{"name": name} for name in topics]
    return request(MetadataRequest[TOPIC_IDS if topic_ids else 8], topics=names, allow_auto_topic_creation=False)
