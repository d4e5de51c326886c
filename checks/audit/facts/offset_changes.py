"""Offsets of a group or share group that a fault deleted or set, or that were lost (`lost_offsets`); lives of groups.

A redelivery from a moved offset is legal, and a commit below the offset that was in force before the change is no
rewind. A record that the reader leaves out because of a change is still a skip.
A group ends when its offsets expire, are lost or are deleted, and may begin again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from checks.audit.arrays import NEVER_US
from checks.audit.facts.epochs import Epoch, Epochs, Row
from checks.audit.facts.observed import UNKNOWN_GROUP, Observed

STALE_ANSWER_US = 2_000_000
"""Up to this long after a change the observer may report the former offset: its request was already on its way."""
BY_FAULT = "fault"
"""The mode of a committed offset that a fault set."""


@dataclass(frozen=True)
class OffsetChange:
    """A change of a group's committed offsets, at some time from from_us to to_us.

    fault: the fault that made it, "" if none did. sure: whether the change certainly happened. offsets: by partition
    such as orders/0, None for a deleted offset; None if a fault deleted the whole group; empty if the group was no
    longer known. lost_offset: the committed offset that was no longer in force, though no fault changed it.
    interrupted: whether the coordinator had been interrupted just before that. in_log: whether the log of
    `__consumer_offsets` still has that commit at the end, None if that is not known.
    """

    fault: str
    group: str
    from_us: int
    to_us: int
    sure: bool
    offsets: dict[str, int | None] | None
    lost_offset: int | None = None
    interrupted: bool = False
    in_log: bool | None = None

    @property
    def recreates(self) -> bool:
        """Whether the group may begin again at generation 1 after it."""
        return self.offsets is None or not self.fault

    def touches(self, topic: str, partition: int) -> bool:
        """Return whether it changes a partition."""
        return self.offsets is None or f"{topic}/{partition}" in self.offsets

    def offset(self, topic: str, partition: int) -> int | None:
        """Return the offset that it set, None if it deleted it."""
        return None if self.offsets is None else self.offsets[f"{topic}/{partition}"]


def group_recreated(offset_changes: Iterable[OffsetChange], group: str | None, from_us: int, to_us: int) -> bool:
    """Return whether a group may have begun again in a time span: generations before and after do not compare."""
    return any(m.recreates and m.group == group and m.from_us <= to_us and m.to_us >= from_us for m in offset_changes)


def offset_changes_of(faults: Iterable[Row]) -> list[OffsetChange]:
    """Return the changes by faults. A fault that failed may or may not have changed offsets."""
    phases: dict[tuple[str, str, str], dict[str, Row]] = defaultdict(dict)
    for row in sorted(faults, key=lambda r: -r["at_us"]):
        if row["kind"].startswith(("group.", "share.")):
            phases[row["fault"], row["kind"], row["target"]][row["phase"]] = row
    found = []
    for (fault, kind, target), rows in phases.items():
        done, failed = rows.get("injected"), rows.get("failed")
        result = done or failed
        begun = rows.get("injecting") or result
        offsets = _object(evidence_of(result).get("offsets")) if result else {}
        if begun is None or (kind != "group.delete" and not offsets):
            continue  # the affected partitions are unknown
        to_us = result["at_us"] if result else NEVER_US
        affected = None if kind == "group.delete" else offsets
        group = target.removeprefix("group ")
        found.append(OffsetChange(fault, group, min(begun["at_us"], to_us), to_us, done is not None, affected))
    return found


def evidence_of(row: Row) -> dict[str, Any]:
    """Return the evidence of a row of table `faults`; empty if it is not a JSON object."""
    try:
        return _object(json.loads(row["evidence"] or "{}"))
    except json.JSONDecodeError:
        return {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class GroupLife:
    """One life of a group.

    life: its number, from 1. end_us: when the coordinator no longer knew the group, or the next life began; None if it
    goes on. first_generation, last_generation: from its assignments, None without an assignment.
    """

    group: str
    life: int
    begin_us: int
    end_us: int | None
    first_generation: int | None
    last_generation: int | None


def group_lives(observed: Observed, restarts: Iterable[OffsetChange], epochs: Epochs) -> list[GroupLife]:
    """Return the lives of each group that the observer saw, in their order.

    A life begins when the coordinator begins to know the group, or when the generations of a member begin again without
    an end that was observed since that member's last assignment. restarts: see `lost_offsets.restarts`.
    """
    found = []
    again = sorted(restarts, key=lambda m: m.to_us)
    for entity in observed.entities("state"):
        group = entity.removeprefix("group:")
        spans = _spans(observed.changes(entity, "state"))
        for change in (m for m in again if m.group == group):
            _begin_again(spans, change)
        mine = [e for e in epochs.all if e.group == group and e.generation is not None]
        after_us = 0
        for life, (begin_us, end_us) in enumerate(spans, start=1):
            known = _generations(mine, after_us, NEVER_US if end_us is None else end_us)
            first, last = (min(known), max(known)) if known else (None, None)
            found.append(GroupLife(group, life, begin_us, end_us, first, last))
            after_us = end_us or 0
    return found


Span = tuple[int, int | None]
"""Begin and end of a life; None if it goes on."""


def _spans(states: Iterable[tuple[int, object]]) -> list[Span]:
    """Return the spans in which the coordinator knew the group."""
    spans: list[Span] = []
    for at_us, state in states:
        alive = bool(spans) and spans[-1][1] is None
        if state == UNKNOWN_GROUP and alive:
            spans[-1] = spans[-1][0], at_us
        elif state != UNKNOWN_GROUP and not alive:
            spans.append((at_us, None))
    return spans


def _begin_again(spans: list[Span], change: OffsetChange) -> None:
    """Split the span in which generations began again, unless a begin or an end in that time explains it."""
    edges = [edge for span in spans for edge in span][1:]  # the first begin is the begin of the observation
    if any(edge is not None and change.from_us <= edge <= change.to_us for edge in edges):
        return
    for i, (begin_us, end_us) in enumerate(spans):
        if begin_us < change.to_us and (end_us is None or change.to_us < end_us):
            spans[i : i + 1] = [(begin_us, change.to_us), (change.to_us, end_us)]
            return


def _generations(epochs: Iterable[Epoch], after_us: int, until_us: int) -> list[int]:
    return [e.generation for e in epochs if after_us <= e.begin_us < until_us and e.generation is not None]
