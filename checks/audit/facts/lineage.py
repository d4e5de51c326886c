"""Groups of processors: which outputs are traced to the inputs of a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from chaos.scenario.model import Scenario
from checks.audit.facts.readers import processor_groups
from checks.audit.facts.starts import LogRange
from checks.audit.findings import Reason

NO_COORDINATES = Reason("outputs carry no coordinates of their inputs")
OUTPUTS_GONE = Reason(
    "outputs are missing from the begin of their log", "keep retention of the output topic beyond the end of the run"
)
OUTPUTS_UNREAD = Reason("partitions of the output topic were not read back")
OUTPUTS_DELETED = Reason("the output topic was deleted during the run")


@dataclass(frozen=True)
class Lineage:
    """The outputs of a group.

    writers: the scenario entries that write them. topics: output topics. lacking: why an output that is not known may
    exist, None if every output is known: the log of each output topic was read back from its first record, in its only
    life, and each output carries the coordinates of its input. Output topics are not compacted: outputs have no keys,
    and a scenario that compacts them is refused.
    """

    writers: frozenset[str]
    topics: frozenset[str]
    lacking: Reason | None

    @property
    def whole(self) -> bool:
        """Whether every output is known."""
        return self.lacking is None


def lineages(
    scenario: Scenario, log: Mapping[tuple[str, int], LogRange], deleted: Collection[str], untraced: Collection[str]
) -> dict[str, Lineage]:
    """Return the outputs to trace, by group.

    deleted: topics that had another life. untraced: entries with outputs without coordinates.
    """
    found = {}
    for group in processor_groups(scenario):
        entries = [p for p in scenario.processors if p.group == group]
        topics = frozenset(p.to for p in entries)
        ranges = [start for (topic, _), (start, _) in log.items() if topic in topics]
        expected = sum(scenario.topic(topic).partitions for topic in topics)
        writers = frozenset(p.name for p in entries)
        lacking = {
            OUTPUTS_DELETED: not topics.isdisjoint(deleted),
            OUTPUTS_UNREAD: len(ranges) < expected or None in ranges,
            OUTPUTS_GONE: any(ranges),
            NO_COORDINATES: not writers.isdisjoint(untraced),
        }
        found[group] = Lineage(writers, topics, next((reason for reason, here in lacking.items() if here), None))
    return found
