"""Compacted topics: which ones a scenario has, and what it must not ask of them.

The log cleaner keeps the last record of each key and may remove every earlier one. A broker refuses a record without a
key in such a topic (INVALID_RECORD); see "Log Compaction" in the documentation of Apache Kafka, and KIP-135.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.faults.base import FaultSpec
from chaos.faults.settings import states_of
from chaos.scenario.expect import Expect
from chaos.setup.model import Setup

OFFSETS_TOPIC = "__consumer_offsets"
"""The topic of the committed offsets, which the brokers compact."""


def compacted_topics(setup: Setup, faults: Sequence[FaultSpec]) -> frozenset[str]:
    """Return the topics with `compact` in their cleanup.policy, from the start or by a fault that changes settings."""
    usual = setup.cluster.config.get("log.cleanup.policy", "delete")
    policies = [
        (t.name, config.get("cleanup.policy", usual)) for t in setup.topics for config, _ in states_of(t, faults)
    ]
    return frozenset(topic for topic, value in policies if "compact" in str(value))


def delete_retention_ms(setup: Setup, faults: Sequence[FaultSpec], topic: str) -> int:
    """Return the shortest delete.retention.ms that a topic has in the run, by default a day.

    The default of a cluster that was not asked for it is not known, so there it is 0: a tombstone may expire at once.
    """
    default = 0 if setup.unasked else setup.cluster.config.get("log.cleaner.delete.retention.ms", 86_400_000)
    states = states_of(setup.topic(topic), faults)
    return min(int(config.get("delete.retention.ms", default)) for config, _ in states)


def problems(setup: Setup, faults: Sequence[FaultSpec], expect: Expect) -> Iterator[str]:
    """Yield producers without keys of compacted topics, tombstones for other topics, and bounds without an object."""
    compacted = compacted_topics(setup, faults)
    why = "is compacted, and brokers refuse a record without a key there (INVALID_RECORD)"
    for i, producer in enumerate(setup.producers):
        for topic in producer.written:
            if topic in compacted and producer.keys is None:
                yield f"producers[{i}].keys: {topic} {why}; set keys, such as keys: 100"
            if producer.tombstone_every and topic not in compacted:
                yield f"producers[{i}].tombstone_every: {topic} is not compacted: a tombstone deletes nothing"
    for i, processor in enumerate(setup.processors):
        if processor.to in compacted:
            yield f"processors[{i}].to: {processor.to} {why}, and a processor writes none"
        if processor.state and (removed := compacted.intersection(processor.topics)):
            yield f"processors[{i}].state: {min(removed)} is compacted, so its log does not show how many inputs it had"
    for topic in expect.superseded:
        if topic == OFFSETS_TOPIC and setup.transactional:
            yield f"expect.superseded: transactions leave markers in {topic}, which do not differ from removed records"
        if topic not in compacted | {OFFSETS_TOPIC}:
            yield f"expect.superseded: {topic} is not compacted, so no record of it can be superseded"
    deleted_from = {topic for p in setup.producers if p.tombstone_every for topic in p.written}
    for topic in expect.expired_tombstones:
        if topic not in deleted_from:
            yield f"expect.expired_tombstones: no producer of {topic} has tombstone_every, so there are no tombstones"
