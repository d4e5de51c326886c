"""The order of matched records of a partition: blocks of offsets of B, looked at one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from checks.compare import buckets
from checks.compare.buckets import Columns, select

FIRST, LAST = -1, int(np.iinfo(np.int64).max)
"""Offsets before and behind all others."""


@dataclass(frozen=True)
class Task:
    """A block. before: the highest offset in A of blocks before it; behind: the lowest one of blocks behind it.

    past: the highest offset in A that earlier rounds matched. What was matched in an earlier round stands before it.
    """

    files: Sequence[Path]
    bucket: int
    before: int = FIRST
    behind: int = LAST
    past: int = FIRST
    examples: int = 0


@dataclass(frozen=True)
class Block:
    """What stands in a block. low, high: offsets in A. late, early: numbers, and the first places in A and B.

    overdue: records that stand before what earlier rounds matched; `late` and `early` are without them.
    """

    low: int
    high: int
    late: int
    early: int
    late_examples: Sequence[tuple[int, int]] = ()
    early_examples: Sequence[tuple[int, int]] = ()
    overdue: int = 0
    overdue_examples: Sequence[tuple[int, int]] = ()


def look(task: Task) -> Block:
    """Return the matched records of a block that are out of order."""
    rows = buckets.read(task.files, task.bucket, ("a", "b"))
    rows = select(rows, np.argsort(rows["b"], kind="stable"))
    overdue = rows["a"] < task.past
    shown = _places(rows, overdue, task.examples)
    rows = select(rows, ~overdue)
    a = rows["a"]
    if not len(a):
        return Block(LAST, FIRST, 0, 0, overdue=int(overdue.sum()), overdue_examples=shown)
    late = a < np.maximum.accumulate(np.concatenate([[task.before], a[:-1]]))
    early = a > np.minimum.accumulate(np.concatenate([[task.behind], a[:0:-1]]))[::-1]
    ends = int(a.min()), int(a.max())
    first, others = (_places(rows, flags, task.examples) for flags in (late, early))
    return Block(*ends, int(late.sum()), int(early.sum()), first, others, int(overdue.sum()), shown)


def _places(rows: Columns, flags: npt.NDArray[np.bool_], most: int) -> list[tuple[int, int]]:
    """Return the first places, in A and B."""
    return [(int(rows["a"][i]), int(rows["b"][i])) for i in np.flatnonzero(flags)[:most]]


def in_order(blocks: Sequence[Block]) -> bool:
    """Return whether the records of blocks, one behind the other, are in the order of A."""
    highest = FIRST
    for block in blocks:
        if block.late or block.overdue or block.low < highest:
            return False
        highest = max(highest, block.high)
    return True


def bounds(blocks: Sequence[Block]) -> list[tuple[int, int]]:
    """Return `before` and `behind` of each block."""
    befores, behinds = [FIRST], [LAST]
    for block in blocks[:-1]:
        befores.append(max(befores[-1], block.high))
    for block in reversed(blocks[1:]):
        behinds.append(min(behinds[-1], block.low))
    return list(zip(befores, reversed(behinds), strict=True))
