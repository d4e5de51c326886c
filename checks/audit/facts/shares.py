"""Share groups (KIP-932): their settings, what each has to acquire of each partition, and what may end its locks.

A broker keeps the lock and the delivery count of an acquired record in memory until the record is acknowledged or
its lock expires. So locks end, and counts fall back, when the partition gets another leader. Locks also end with the
connection of a member: the broker gives its records back and stores their counts (`releaseAcquiredRecords` in
`SharePartition` of Apache Kafka 4.2). With the last connection of a group it forgets what is not stored (`onGroupEmpty`
in `SharePartitionManager`), so counts may fall back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from chaos.faults import SPECS
from chaos.kafka.settings import as_text
from chaos.scenario.model import Scenario
from chaos.setup.share import DEFAULTS, ISOLATION, LIMIT, LOCK, RESET, Share
from checks.audit.arrays import NEVER_US
from checks.audit.facts.epochs import Life, Row
from checks.audit.facts.observed import Observed, phase_times
from checks.audit.facts.offset_changes import OffsetChange
from checks.audit.facts.readers import entry_of

LATE_US = 10_000_000
"""Time after a change within which the observer surely sees it, also if it waits for the answer of a dead broker."""
CLOSING_US = 2_000_000
"""Time from the end of a member's connection until the member is recorded as gone."""
DISTURBING = frozenset(kind for kind, spec in SPECS.items() if "connections" in spec.effects)
"""The kinds of faults that may end connections or lose answers. The end of a member is on record."""


@dataclass(frozen=True)
class ShareGroup:
    """A share group as the scenario describes it.

    earliest: whether it begins at the start of the log. lock_us, limit: duration of a lock and delivery limit, None if
    the brokers of a user decide them. late_us: time within which brokers surely notice the end of a member. Until then
    they may give new records to a fetch of it that waits for them (DelayedShareFetch).
    """

    name: str
    topics: tuple[str, ...]
    earliest: bool
    committed_only: bool
    lock_us: int | None
    limit: int | None
    late_us: int


@dataclass(frozen=True)
class ShareMember:
    """One incarnation of a member, when it last did something, and when it ended."""

    consumer: str
    incarnation: int
    group: str
    active_us: int
    ended_us: int = NEVER_US

    def may_have_ended(self, at_us: int) -> bool:
        """Return whether its connection may have ended by a moment: it did nothing after it, and soon was gone."""
        return self.active_us <= at_us and self.ended_us <= at_us + CLOSING_US


@dataclass(frozen=True)
class ShareRange:
    """The range of one share group in one partition.

    start: the first offset that it has to acquire, None if unknown. past: the offset before which all records have
    their final state at the end of the drive. leader_changes: when the observer saw another leader epoch.
    offset_changes: by faults that set its start offset. The coordinator then forgets the state of all records.
    """

    group: ShareGroup
    topic: str
    partition: int
    start: int | None
    past: int
    leader_changes: tuple[int, ...]
    offset_changes: tuple[OffsetChange, ...] = ()

    @property
    def done(self) -> bool:
        """Whether all records had their final state at the end of the drive."""
        return self.past == NEVER_US

    def changes_between(self, from_us: int, until_us: int) -> list[OffsetChange]:
        """Return the changes that may have happened within a time."""
        return [change for change in self.offset_changes if change.from_us <= until_us and change.to_us >= from_us]


@dataclass(frozen=True)
class Shares:
    """The share groups of a run.

    ranges: by topic and partition. members: every incarnation with rows. disturbed: begin and end of each time in which
    a fault may have ended connections or lost answers. end_us: the end of the drive.
    """

    ranges: Mapping[tuple[str, int], list[ShareRange]] = field(default_factory=dict)
    members: list[ShareMember] = field(default_factory=list)
    disturbed: tuple[tuple[int, int], ...] = ()
    end_us: int = NEVER_US

    @cached_property
    def numbers(self) -> dict[tuple[str, int, str], int]:
        """The index of each member, by consumer, incarnation and group."""
        return {(m.consumer, m.incarnation, m.group): i for i, m in enumerate(self.members)}


def share_groups(scenario: Scenario) -> list[ShareGroup]:
    """Return the share groups of a scenario; the entries of a group have the same settings."""
    found: dict[str, ShareGroup] = {}
    for entry in scenario.shares:
        topics = tuple(sorted({*entry.topics, *(found[entry.group].topics if entry.group in found else ())}))
        lock_ms, limit = (_number(scenario, entry, name) for name in (LOCK, LIMIT))
        wait_us = 1000 * int(as_text(entry.config.get("fetch.max.wait.ms", 500)))
        late_us = max(wait_us + LATE_US, found[entry.group].late_us if entry.group in found else 0)
        found[entry.group] = ShareGroup(
            entry.group,
            topics,
            entry.setting(RESET) == "earliest",
            entry.setting(ISOLATION) == "read_committed",
            None if lock_ms is None else lock_ms * 1000,
            limit,
            late_us,
        )
    return list(found.values())


def _number(scenario: Scenario, entry: Share, name: str) -> int | None:
    """Return a setting of the group, or else of its brokers, or else Kafka's default."""
    of_brokers = {f"group.{name}": scenario.cluster.config[f"group.{name}"]} if _of_brokers(scenario, name) else {}
    if name not in entry.settings and not of_brokers and scenario.unasked:
        return None
    return int(as_text(entry.settings.get(name, of_brokers.get(f"group.{name}", DEFAULTS[name]))))


def _of_brokers(scenario: Scenario, name: str) -> bool:
    return f"group.{name}" in scenario.cluster.config


def members_of(
    active: Mapping[tuple[str, int, str], int], lives: Mapping[tuple[str, int], Life], shares: Iterable[Share]
) -> list[ShareMember]:
    """Return every incarnation of a member with its end. shares: the entries of the scenario.

    active: the last time in the rows of each consumer, incarnation and group. A member without rows may have had
    records, too: records that it fetched and did not poll.
    """
    groups = {entry.name: entry.group for entry in shares}
    idle = {(*life, groups[entry_of(life[0])]): 0 for life in lives if entry_of(life[0]) in groups}
    members = []
    for (consumer, incarnation, group), active_us in sorted({**idle, **active}.items()):
        life = lives.get((consumer, incarnation))
        ended = life.ended_us if life and life.ended_us is not None else NEVER_US
        members.append(ShareMember(consumer, incarnation, group, active_us, ended))
    return members


def share_ranges(
    groups: Iterable[ShareGroup],
    partitions: Iterable[tuple[str, int]],
    lowest: Mapping[tuple[str, str, int], int],
    observed: Observed,
    offset_changes: Sequence[OffsetChange],
) -> dict[tuple[str, int], list[ShareRange]]:
    """Return the ranges by partition. lowest: the lowest offset acquired, by group, topic and partition.

    A group that begins at the latest offset begins at the first one that it acquired, as far as the ledger shows.
    """
    found: dict[tuple[str, int], list[ShareRange]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        epochs = observed.changes(f"{topic}/{partition}", "leader_epoch")
        changes = tuple(at_us for at_us, _ in epochs[1:])
        for group in groups:
            if topic in group.topics:
                start = 0 if group.earliest else lowest.get((group.name, topic, partition))
                past = _past(observed, group.name, topic, partition)
                own = tuple(m for m in offset_changes if m.group == group.name and m.touches(topic, partition))
                found[topic, partition].append(ShareRange(group, topic, partition, start, past, changes, own))
    return dict(found)


def _past(observed: Observed, group: str, topic: str, partition: int) -> int:
    """Return the offset before which the group had dealt with all records: all there are if it has no lag."""
    entity = f"group:{group}/{topic}/{partition}"
    start = observed.value(entity, "share_start", observed.end_us)
    lag = observed.value(entity, "share_lag", observed.end_us)
    if lag == 0:
        return NEVER_US
    return start if isinstance(start, int) else 0


def disturbed_times(faults: list[Row], end_us: int) -> tuple[tuple[int, int], ...]:
    """Return from when to when each fault may have ended connections or lost answers."""
    began, healed = phase_times(faults, "injecting"), phase_times(faults, "healed")
    kinds = {row["fault"]: row["kind"] for row in faults}
    return tuple(
        (at_us, healed.get(fault, end_us) + LATE_US) for fault, at_us in began.items() if kinds[fault] in DISTURBING
    )
