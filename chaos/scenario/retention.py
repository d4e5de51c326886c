"""Retention: the topics from which Kafka may delete old records during a run.

Time retention deletes segments in which every record is older than retention.ms, size retention those beyond
retention.bytes; both only if cleanup.policy contains `delete`. See "Topic Configs" in Apache Kafka's documentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.kafka.settings import Scalar
from chaos.scenario.faults.admin import states_of
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.setup import Setup

_BROKER_NAMES = (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
"""Settings of a broker for the time retention, with their unit in ms; the first that is set counts."""
_DEFAULT_MS = 7 * 24 * 3_600_000
_SLACK_MS = 60_000
"""Clocks of clients, which set the timestamps, may be this far behind those of brokers."""


def retained_topics(setup: Setup, faults: Sequence[FaultSpec], run_ms: int) -> frozenset[str]:
    """Return the topics from which retention may delete records in a run of that many ms.

    On a cluster that was not asked for its settings these are all topics: what else may delete there is not known.
    """
    found = set()
    for topic in setup.topics:
        states = states_of(topic, faults)
        if setup.unasked or any(_deletes(setup.cluster.config, config, run_ms) for config, _ in states):
            found.add(topic.name)
    return frozenset(found)


def _deletes(broker: Mapping[str, Scalar], topic: Mapping[str, Scalar], run_ms: int) -> bool:
    """Return whether retention may delete with these settings. One that is no number may mean anything."""
    if "delete" not in str(topic.get("cleanup.policy", broker.get("log.cleanup.policy", "delete"))):
        return False
    try:
        size = int(topic.get("retention.bytes", broker.get("log.retention.bytes", -1)))
        usual = next((int(broker[name]) * unit for name, unit in _BROKER_NAMES if name in broker), _DEFAULT_MS)
        time_ms = int(topic.get("retention.ms", usual))
    except ValueError:
        return True
    return size >= 0 or 0 <= time_ms <= run_ms + _SLACK_MS
