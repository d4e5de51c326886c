"""What nothing matched: missing, extra, a copy, behind, or not comparable."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from checks.compare import buckets
from checks.compare.buckets import Columns, select
from checks.compare.match import COLUMNS, LIKELY_COPY, Ints

Flags = npt.NDArray[np.bool_]
Both = tuple[Flags, Flags]
"""A flag for each partition of A, and of B."""


@dataclass(frozen=True)
class Known:
    """What decides about records without a match, by partition.

    first, last: the first and last offset with a match. gaps: whether the start of the log is lacking. open: whether a
    transaction is open; its records are not read. grew: whether the log grew after its end was asked. whole:
    partitions do not correspond. begins: the first offset that was read in this round; None if there are no rounds.
    """

    first: tuple[Ints, Ints]
    last: tuple[Ints, Ints]
    gaps: Both
    open: Both
    grew: Both
    whole: bool
    compacted: bool
    begins: tuple[Ints, Ints] | None = None


@dataclass(frozen=True)
class Task:
    """A file of rows without a match. side: 0 for A, 1 for B. carry: where to write what the next round looks at."""

    path: Path
    side: int
    known: Known
    examples: int
    carry: Path | None = None


@dataclass
class Left:
    """Numbers by kind and partition; places (partition, offset, timestamp) of the first ones by kind.

    carried: numbers of what the next round looks at again, which are in `counts` too.
    """

    counts: dict[str, Ints] = field(default_factory=dict)
    carried: dict[str, Ints] = field(default_factory=dict)
    examples: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)


def judge(task: Task) -> Left:
    """Return what the rows of a file are."""
    rows = buckets.read([task.path], None, (*COLUMNS, "copy"))
    kinds, again = _kinds(rows, task.side, task.known)
    found = Left()
    partitions = len(task.known.gaps[task.side])
    for kind in np.unique(kinds).tolist():
        chosen = kinds == kind
        found.counts[kind] = np.bincount(rows["partition"][chosen], minlength=partitions)
        order = np.lexsort((rows["offset"][chosen], rows["partition"][chosen]))[: task.examples]
        places = [rows[name][chosen][order].tolist() for name in ("partition", "offset", "at_ms")]
        found.examples[kind] = list(zip(*places, strict=True))
        if task.carry and (chosen & again).any():
            found.carried[kind] = np.bincount(rows["partition"][chosen & again], minlength=partitions)
    if task.carry and again.any():
        kept = select({name: rows[name] for name in COLUMNS}, again)
        buckets.write(kept, np.zeros(len(kept["offset"]), np.int64), 1, task.carry)
    return found


def _kinds(rows: Columns, side: int, known: Known) -> tuple[npt.NDArray[np.str_], Flags]:
    """Return what each row is, and whether a later round may find its counterpart.

    Logs are copied in order. So what the other side may have removed stands before the first match, and what it may not
    have yet, or not show yet, stands behind the last one. Over a whole topic, and of last values, no place says that.
    What a round before carried was in A for that long. Where the other side removed records between two rounds, no
    place is certain, because a carried record may have been matched late.
    """
    partition, offset = rows["partition"], rows["offset"]
    count = len(known.gaps[side])
    gap, hidden = (_flags(of[1 - side], count, known.whole)[partition] for of in (known.gaps, known.open))
    grew = (_flags(known.grew[0], count, known.whole) | _flags(known.grew[1], count, known.whole))[partition]
    if known.compacted:  # of a partition that changed meanwhile, nothing is decided: `stage.undecided`
        kinds = np.where(gap, "unknown", "missing" if side == 0 else "extra")
        return kinds, np.zeros(len(offset), np.bool_)
    before = known.whole | (offset < known.first[side][partition]) | (rows["copy"] == LIKELY_COPY)
    behind = known.whole | (offset > known.last[side][partition])
    if known.begins is not None:
        before |= known.begins[side][partition] > 0
        grew = offset >= known.begins[side][partition]
    lost, hidden = gap & before, hidden & behind
    if side:
        return np.select([lost | hidden, rows["copy"] != 0], ["unknown", "duplicated"], "extra"), hidden & ~lost
    return np.select([lost | hidden, grew & behind], ["unknown", "behind"], "missing"), ~lost


def _flags(flags: Flags, count: int, whole: bool) -> Flags:
    """Return a flag for each of `count` partitions; over a whole topic, whether any partition has it."""
    return np.full(count, bool(flags.any())) if whole else flags
