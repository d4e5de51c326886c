"""Explanation below the scenario: the events in the logs by time, as comments for the user."""

from __future__ import annotations

from chaos.incident.logs import events as e
from chaos.incident.logs.broker_timeline import Timeline
from chaos.incident.logs.cluster_state import internal
from chaos.incident.logs.events import Event
from chaos.incident.logs.yaml_page import YamlPage, clock_time
from chaos.kafka.partition import TopicPartition

MAX_LINES = 120
TOGETHER_US = 2 * 10**6
"""Maximum time between events of one kind that share a line."""
_SEPARATE = (
    e.BrokerFenced,
    e.UncleanElection,
    e.Truncated,
    e.MemberFailed,
    e.MemberLeft,
    e.RebalanceBegan,
    e.RebalanceDone,
)
"""Events that always have a line for themselves."""


def write_explanation(page: YamlPage, timeline: Timeline) -> None:
    """Append the explanation to the page."""
    page.comment("Events in the logs by time (UTC); events of one kind that follow closely are counted:")
    groups = _groups(timeline)
    for first, *others in groups[:MAX_LINES]:
        more = f" (and {len(others)} more like it)" if others else ""
        page.comment(f"{clock_time(first.at_us)}  {first.describe()}{more}  {first.source}")
    if len(groups) > MAX_LINES:
        page.comment(f"… and {len(groups) - MAX_LINES} more")


def _groups(timeline: Timeline) -> list[list[Event]]:
    """Return the events to explain, by time; each group shares one line."""
    groups: list[list[Event]] = []
    latest: dict[tuple[type[Event], int], list[Event]] = {}
    unclean: set[tuple[TopicPartition | None, int]] = set()
    coordinating: set[tuple[int, TopicPartition]] = set()
    for event in timeline.events:
        match event:
            case e.CoordinatorLoaded():
                coordinating.add((event.node, event.partition))
            case e.CoordinatorUnloaded() if (event.node, event.partition) not in coordinating:
                continue  # when a broker starts, it resigns from partitions that it did not coordinate
            case e.UncleanElection():
                if (event.partition, event.leader) in unclean:
                    continue  # another controller logs it, too
                unclean.add((event.partition, event.leader))
        if not _is_relevant(event):
            continue
        group = latest.get((type(event), event.node))
        if group and event.at_us - group[-1].at_us <= TOGETHER_US and not isinstance(event, _SEPARATE):
            group.append(event)
        else:
            latest[type(event), event.node] = [event]
            groups.append(latest[type(event), event.node])
    return groups


def _is_relevant(event: Event) -> bool:
    match event:
        case e.JvmStep():
            return event.step == 0
        case e.LogLoaded():
            return event.end_offset > 0 and not internal(event.partition.topic)
        case e.UncleanElection():
            return event.partition is not None and not internal(event.partition.topic)
        case e.CoordinatorLoaded() | e.CoordinatorUnloaded():
            return True
        case e.PartitionEvent() if internal(event.partition.topic):
            return False
    return bool(event.summary)
