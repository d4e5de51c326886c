"""Compacted topics: which ones a scenario has, and what it must not ask of them.

The log cleaner keeps the last record of each key and may remove every earlier one. A broker refuses a record without a
key in such a topic (INVALID_RECORD); see "Log Compaction" in the documentation of Apache Kafka, and KIP-135.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chaos.scenario.expect import Bound
from chaos.scenario.faults.admin import TopicConfig
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.setup import Setup


def compacted_topics(setup: Setup, faults: Sequence[FaultSpec]) -> frozenset[str]:
    """Return the topics with `compact` in their cleanup.policy, from the start or by a fault `topic.config`."""
    policy = setup.cluster.config.get("log.cleanup.policy", "delete")
    policies = [(t.name, t.config.get("cleanup.policy", policy)) for t in setup.topics]
    changes = [f for f in faults if isinstance(f, TopicConfig)]
    policies += [(str(f.target.topic), f.settings.get("cleanup.policy", "")) for f in changes]
    return frozenset(topic for topic, value in policies if "compact" in str(value))


def problems(setup: Setup, faults: Sequence[FaultSpec], superseded: Mapping[str, Bound]) -> Iterator[str]:
    """Yield producers without keys of compacted topics, and bounds (`expect.superseded`) of other topics."""
    compacted = compacted_topics(setup, faults)
    why = "is compacted, and brokers refuse a record without a key there (INVALID_RECORD)"
    for i, producer in enumerate(setup.producers):
        if producer.topic in compacted and producer.keys is None:
            yield f"producers[{i}].keys: {producer.topic} {why}; set keys, such as keys: 100"
    for i, processor in enumerate(setup.processors):
        if processor.to in compacted:
            yield f"processors[{i}].to: {processor.to} {why}, and a processor writes none"
    for topic in superseded:
        if topic not in compacted:
            yield f"expect.superseded: {topic} is not compacted, so no record of it can be superseded"
