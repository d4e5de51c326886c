"""Committed offsets that are no longer in force and groups that began again, though no fault of the run changed them.

Kafka removes the offsets of a group without members after offsets.retention.minutes (KIP-211), and the group with them.
A group can also lose its commits with the log of its partition of `__consumer_offsets`. A group that is created again
begins at generation 1.

The evidence is the answer of a coordinator: to the observer, which had got a higher offset before, or to a consumer
that begins below an acknowledged commit. The second needs an interruption of the coordinator after that commit, because
a client may also begin there by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any

from chaos.kafka.partition import TopicPartition
from checks.audit.arrays import NEVER_US
from checks.audit.facts.commit_log import CommitLog
from checks.audit.facts.epochs import Epoch, Epochs, Life, OffsetFetch
from checks.audit.facts.observed import UNKNOWN_GROUP, Observed, offsets_partition
from checks.audit.facts.offset_changes import OffsetChange
from checks.audit.facts.topic_lives import TopicLives

LOOK_US = 3_000_000
"""Maximum time between two observations of a group while its coordinator answers."""
ELECTION_US = 2_000_000
"""Maximum time for which an answering coordinator may differ from the observed leader of its partition."""
Interruption = tuple[int, int]
"""Time span in which a coordinator did not answer (to NEVER_US if it never did again), or the moment at which another
broker was seen to coordinate."""
Change = tuple[int, int, Any, Any]
"""Just after the value before a change was first seen, the time of the change, the values before and after."""
LogRanges = Mapping[tuple[str, int], tuple[int | None, int | None]]


def interruptions(observed: Observed, group: str) -> list[Interruption]:
    """Return the interruptions of a group's coordinator, in order of time; not that before its first answer."""
    entity, found = f"group:{group}", []
    answers = observed.changes(entity, "answers")
    for (at_us, answered), (later_us, _) in pairwise([*answers, (NEVER_US, None)]):
        if answered is False and at_us != answers[0][0]:
            found.append((at_us, later_us))
    found += [(at_us, at_us) for at_us, _ in observed.changes(entity, "coordinator")[1:]]
    return sorted(found)


def is_trusted(observed: Observed, group: str, at_us: int) -> bool:
    """Return whether the coordinator that answered was the leader of the group's partition of `__consumer_offsets`.

    True if that is not known. A broker that is cut off from the others may answer for a partition that it lost.
    """
    partition = offsets_partition(observed, group)
    if partition is None:
        return True
    known = []
    for s in observed.spans((f"group:{group}", "coordinator"), (partition, "leader")):
        if s.begin_us <= at_us + ELECTION_US and s.end_us >= at_us - ELECTION_US:
            known.append((s.values["coordinator"], s.values["leader"]))
    return not known or any(None in pair or min(pair) < 0 or pair[0] == pair[1] for pair in known)


@dataclass(frozen=True)
class LostOffsets:
    """Finds the offsets of one run that are no longer in force.

    lives: topics that were deleted during the run. Their committed offsets vanish with them.
    """

    observed: Observed
    by_faults: tuple[OffsetChange, ...]
    lives: TopicLives

    def ended_groups(self) -> list[OffsetChange]:
        """Return each end of a group that no fault deleted, as a change without an offset."""
        found = []
        for entity in self.observed.entities("state"):
            group = entity.removeprefix("group:")
            for from_us, to_us, _, _ in self._changes(entity, "state", lambda old, new: new == UNKNOWN_GROUP != old):
                change = OffsetChange("", group, from_us, to_us, sure=True, offsets={})
                if not _changed(change, (m for m in self.by_faults if m.offsets is None)):
                    found.append(change)
        return found

    def observed_changes(self) -> list[OffsetChange]:
        """Return each committed offset that an observation shows gone, or lower than the one before.

        A lower one may be a commit; see `explained`.
        """
        found = []
        for entity in self.observed.entities("committed"):
            group, _, number = entity.removeprefix("group:").rpartition("/")
            group, _, topic = group.rpartition("/")
            if topic in self.lives.of:
                continue
            for from_us, to_us, old, offset in self._changes(entity, "committed", _is_below):
                change = OffsetChange(
                    "", group, from_us, to_us, sure=True, offsets={f"{topic}/{number}": offset}, lost_offset=old
                )
                change = replace(change, interrupted=self._interrupted(group, to_us - LOOK_US, to_us))
                by_a_fault = _changed(change, (m for m in self.by_faults if m.touches(topic, int(number))))
                lost = offset is None or change.interrupted
                if lost and not by_a_fault and is_trusted(self.observed, group, to_us):
                    found.append(change)
        return found

    def _changes(self, entity: str, key: str, wanted: Callable[[Any, Any], bool]) -> Iterator[Change]:
        """Yield the changes that `wanted` selects by the values before and after."""
        for (before_us, before), (at_us, now) in pairwise(self.observed.changes(entity, key)):
            if wanted(before, now):
                yield min(before_us + 1, at_us), at_us, before, now

    def _interrupted(self, group: str, from_us: int, to_us: int) -> bool:
        """Return whether an interruption ended in a time span."""
        return any(from_us <= ended_us <= to_us for _, ended_us in interruptions(self.observed, group))

    def begun_below(
        self, epochs: Epochs, commits: Mapping[int, dict[str, Any]], known: Iterable[OffsetChange], ranges: LogRanges
    ) -> list[OffsetChange]:
        """Return the commits below which an epoch began after an interruption of the coordinator.

        commits: by index of the epoch, the result of `commits.commits_at_begin`. known: the changes found before.
        """
        found, others = [], [*self.by_faults, *known]
        for e in epochs.all:
            row = commits.get(e.index)
            recreated = self.lives.name(e.topic) in self.lives.of
            if recreated or e.group is None or row is None or row["settled"] is None:
                continue
            settled = row["settled"]
            offset = e.position if e.source == "committed" else None
            key = f"{e.topic}/{e.partition}"
            change = OffsetChange(
                "", e.group, settled["to_us"], e.begin_us, True, {key: offset}, settled["offset"], True
            )
            here = (m for m in others if m.touches(e.topic, e.partition))
            if (
                _is_below_all(e, settled["offset"], row["candidates"], ranges)
                and not _changed(replace(change, from_us=settled["from_us"]), here)
                and self._no_longer_in_force(change, key, row["next_done"])
            ):
                seen_us = self._last_seen(change, key) + 1
                found.append(replace(change, from_us=min(max(change.from_us, seen_us), change.to_us)))
        return found

    def _no_longer_in_force(self, change: OffsetChange, partition: str, next_done: int | None) -> bool:
        """Return whether the coordinator was interrupted after a commit, and nobody saw that commit after that.

        next_done: the end of the first commit after the change; observations from then on show that one.
        """
        entity, offset = f"group:{change.group}/{partition}", change.lost_offset or 0
        interrupted = False
        for begin_us, end_us in interruptions(self.observed, change.group):
            if not change.from_us <= begin_us <= change.to_us + LOOK_US:
                continue
            interrupted = True
            seen = [row for row in self.observed.changes(entity, "committed") if row[0] > end_us]
            if end_us != NEVER_US:
                seen.append((end_us, self.observed.value(entity, "committed", end_us)))
            for at_us, value in seen:
                of_it = at_us <= change.to_us or next_done is None or at_us < next_done
                if of_it and isinstance(value, int) and value >= offset:
                    return False
        return interrupted

    def _last_seen(self, change: OffsetChange, partition: str) -> int:
        """Return the time of the last change of an offset that was observed before a change, 0 without one."""
        changes = self.observed.changes(f"group:{change.group}/{partition}", "committed")
        return max((at_us for at_us, _ in changes if at_us <= change.to_us), default=0)


def compared_with_log(offset_changes: Iterable[OffsetChange], log: CommitLog, clock_us: int) -> list[OffsetChange]:
    """Return changes of lost offsets, each with whether the log still has the commit.

    It has if a record is older than the change, not aborted, and not deleted until then. A coordinator answers from
    below its high watermark, which a broker that takes over may learn only after its first answers: the commit was not
    in force for a moment, but it is not lost (`CoordinatorRuntime.scheduleReadOperation` in Apache Kafka).
    """
    offset_changes = list(offset_changes)
    if not offset_changes:
        return []
    records, deletions = log.records(m.lost_offset or 0 for m in offset_changes), log.deletions()

    def in_log(change: OffsetChange) -> bool | None:
        if log.why_unread(change.group) is not None:
            return None
        partition = TopicPartition.parse(next(iter(change.offsets or ())))
        place = change.group, partition.topic, partition.number
        committed = [
            record.appended_us
            for record in records.get((place, change.lost_offset or 0), ())
            if record.transaction != "aborted" and record.appended_us <= change.from_us + clock_us
        ]
        deleted = [at_us for at_us in deletions.get(place, ()) if at_us <= change.to_us + clock_us]
        return bool(committed) and max(deleted, default=-1) < max(committed)

    return [replace(change, in_log=in_log(change)) for change in offset_changes]


def restarts(epochs: Epochs) -> list[OffsetChange]:
    """Return where the generations of a group began again, as changes without an offset.

    A member is in a lower generation than before, or, with another member id, in the same one. A restarted static
    member keeps its generation (KIP-345), so the second holds only within one incarnation.
    """
    found, latest = [], dict[tuple[str | None, str], Epoch]()
    for e in sorted(epochs.all, key=attrgetter("begin_us", "incarnation", "assignment", "topic", "partition")):
        if e.mode != "subscribe" or e.generation is None:
            continue
        before = latest.get((e.group, e.consumer))
        latest[e.group, e.consumer] = e
        if before is None or before.generation is None or before.begin_us == e.begin_us:
            continue
        rejoined = before.incarnation == e.incarnation and before.member_id != e.member_id
        if e.generation < before.generation or (e.generation == before.generation and rejoined):
            found.append(OffsetChange("", str(e.group), before.begin_us + 1, e.begin_us, sure=True, offsets={}))
    return found


def _is_below(old: Any, new: Any) -> bool:
    return isinstance(old, int) and (new is None or (isinstance(new, int) and new < old))


def _changed(change: OffsetChange, others: Iterable[OffsetChange]) -> bool:
    """Return whether another change of the group may be this one."""
    return any(m.group == change.group and m.from_us <= change.to_us and m.to_us >= change.from_us for m in others)


def _is_below_all(e: Epoch, settled: int, candidates: Iterable[tuple[int, str, str, int]], ranges: LogRanges) -> bool:
    """Return whether an epoch began below all commits that may have been in force, which were in range."""
    offsets = {settled, *(candidate[0] for candidate in candidates)}
    if e.source == "committed":
        return e.position is not None and e.position < min(offsets)
    start, end = ranges.get((e.topic, e.partition), (None, None))
    inside = start is not None and end is not None and all(start <= offset <= end for offset in offsets)
    return e.source == "reset" and inside


def lower_fetches(offset_changes: Iterable[OffsetChange]) -> dict[tuple[str, int], list[OffsetFetch]]:
    """Return a fetch for each change to a lower offset, by (topic, partition), with -1, -2, … in place of an epoch."""
    found: dict[tuple[str, int], list[OffsetFetch]] = {}
    for index, m in _lower(offset_changes):
        partition = TopicPartition.parse(next(iter(m.offsets or ())))
        fetch = OffsetFetch(index, m.group, "", m.from_us - 1, m.to_us, m.to_us)
        found.setdefault((partition.topic, partition.number), []).append(fetch)
    return found


def explained(
    offset_changes: Iterable[OffsetChange],
    commits: Mapping[int, dict[str, Any]],
    epochs: Epochs,
    lives: Mapping[tuple[str, int], Life],
) -> list[OffsetChange]:
    """Return the changes without those to a lower offset that a commit explains, or may explain.

    commits: the result for `lower_fetches`. The row of a commit by a member that crashed may be missing.
    """
    offset_changes = list(offset_changes)
    members = [(e.group, lives[e.member]) for e in epochs.all if e.member in lives]
    crashed = {(group, life.ended_us) for group, life in members if life.end == "crashed"}
    kept = [m for m in offset_changes if None in (m.offsets or {}).values()]
    for index, m in _lower(offset_changes):
        offset = next(iter((m.offsets or {}).values()))
        committed = {candidate[0] for candidate in commits.get(index, {}).get("candidates", ())}
        near = any(group == m.group and at_us is not None and m.from_us <= at_us <= m.to_us for group, at_us in crashed)
        if offset not in committed and not near:
            kept.append(m)
    return sorted(kept, key=lambda m: m.to_us)


def _lower(offset_changes: Iterable[OffsetChange]) -> Iterator[tuple[int, OffsetChange]]:
    lower = [m for m in offset_changes if m.offsets and None not in m.offsets.values()]
    return ((-1 - i, m) for i, m in enumerate(lower))
