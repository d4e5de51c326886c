"""Groups: who owned a partition when, and whose commit moved a reader. Over epochs only, so on the driver."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Any

from checks.audit.epochs import Epoch, Epochs
from checks.audit.findings import Finding, finding
from checks.audit.moves import BY_FAULT, Move, begun_anew
from checks.audit.starts import Known


def double_ownership(epochs: Epochs, moves: Collection[Move]) -> Iterator[Finding]:
    """Two members of a subscribe group owned a partition in the same generation; each pair counts.

    Generations from `assigned` to the last known at the end decide. Where they are unknown, times that overlap do,
    unless the earlier owner was thrown out or died: it cannot know that the partition was no longer its own. Those of
    a group that a fault deleted in between are of two groups.
    """
    for turns in epochs.by_place().values():
        if turns[0].mode != "subscribe":
            continue
        for a, b in combinations(turns, 2):
            if a.holder == b.holder:
                continue
            if how := _both_owned(a, b, begun_anew(moves, a.group, a.begin_us, b.begin_us)):
                yield _of_epoch(
                    "double_ownership",
                    b,
                    how=how,
                    other=a.consumer,
                    other_incarnation=a.incarnation,
                    other_generations=[a.generation, a.end_generation],
                    other_held_us=[a.begin_us, a.end_us],
                    other_end=a.end_reason,
                    generations=[b.generation, b.end_generation],
                    held_us=[b.begin_us, b.end_us],
                )


def _both_owned(a: Epoch, b: Epoch, apart: bool) -> str:
    first, second = _generations(a), _generations(b)
    if first and second and not apart:
        common = max(first[0], second[0])
        return f"both in generation {common}" if common <= min(first[1], second[1]) else ""
    if a.end_reason in ("lost", "crashed", "open"):
        return ""
    return "at the same time" if b.begin_us < a.end_us else ""


def _generations(e: Epoch) -> tuple[int, int] | None:
    if e.generation is None:
        return None
    return e.generation, max(e.generation, e.end_generation if e.end_generation is not None else e.generation)


def foreign_commit(epochs: Epochs, known: dict[int, Known]) -> Iterator[Finding]:
    """An epoch that began at the committed offset of its group, where the last commit was another job's.

    Another job is, for an assign-mode consumer, any other consumer (with another offset than its own last commit); for
    a subscribe group, an assign-mode consumer. What a fault set is nobody's.
    """
    for index, e in enumerate(epochs.all):
        if e.source != "committed" or e.position is None or index not in known:
            continue
        makers = known[index].makers.get(e.position, set())
        if any(mode == BY_FAULT for _, mode in makers):
            continue
        others = {name for name, mode in makers if (mode == "assign" if e.mode == "subscribe" else name != e.consumer)}
        own = len(makers) > len(others) or (e.mode == "assign" and known[index].own == e.position)
        if others and not own:
            yield _of_epoch(
                "foreign_commit",
                e,
                offset=e.position,
                committed_by=sorted(others),
                own_last_commit=known[index].own,
                resumed_at=e.position,
            )


def _of_epoch(check: str, e: Epoch, offset: int | None = None, **evidence: Any) -> Finding:
    evidence |= {"consumer_incarnation": e.incarnation, "assignment": e.assignment}
    place: dict[str, Any] = {"topic": e.topic, "partition": e.partition, "offset": offset}
    return finding(check, e.reader, evidence=evidence, consumer=e.consumer, at_us=e.begin_us, **place)
