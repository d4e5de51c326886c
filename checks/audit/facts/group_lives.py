"""Lives of groups. A group ends when its offsets expire, are lost or are deleted, and may begin again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from checks.audit.arrays import NEVER_US
from checks.audit.facts.epochs import Epoch, Epochs
from checks.audit.facts.observed import UNKNOWN_GROUP, Observed
from checks.audit.facts.offset_changes import OffsetChange


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
