"""Matching of records by identity, one bucket at a time: the n-th record of an identity in A with the n-th in B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from checks.compare import buckets
from checks.compare.buckets import Columns, select

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
ABSENT = -1
"""The hash of a key, value or headers that are not there: an empty one has another."""
COLUMNS = ("partition", "offset", "at_ms", "key", "value", "headers")
"""The columns of a record."""
IDENTITIES: dict[str, tuple[str, ...]] = {
    "content": ("partition", "key", "value", "headers"),
    "content anywhere": ("key", "value", "headers"),
    "key": ("partition", "key or time"),
    "key anywhere": ("key or time",),
    "value": ("partition", "value", "headers", "at_ms"),
    "value anywhere": ("value", "headers", "at_ms"),
}
"""What two records have in common to be matched. A record without a key has its timestamp in place of the key."""
SEEN = "seen"
COPY, LIKELY_COPY = 1, 2
"""A record without a match, with content that is matched: with its timestamp, or only without it."""


@dataclass(frozen=True)
class Pass:
    """One way to match: an identity, and what a pair that only this identity matches is; empty: the same record."""

    by: str
    kind: str = ""


def passes(whole: bool) -> list[Pass]:
    """Return the passes over the records that earlier ones left. whole: partitions do not correspond."""
    if whole:
        return [Pass("content anywhere"), Pass("key anywhere", "altered"), Pass("value anywhere", "altered_key")]
    moved = Pass("content anywhere", "moved")
    return [Pass("content"), moved, Pass("key", "altered"), Pass("value", "altered_key")]


def values_of(rows: Columns, name: str) -> Ints:
    """Return a column of an identity."""
    if name != "key or time":
        return rows[name]
    return np.where(rows["key"] == ABSENT, _mixed(rows["at_ms"].view(np.uint64)).view(np.int64), rows["key"])


def identity(rows: Columns, names: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return one number for the values of some columns."""
    found = np.zeros(len(rows["offset"]), np.uint64)
    for name in names:
        found = _mixed(found * np.uint64(0x9E3779B97F4A7C15) + values_of(rows, name).view(np.uint64))
    return found


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the numbers with their bits mixed (splitmix64), one to one."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def bucket_of(identities: npt.NDArray[np.uint64], buckets: int) -> Ints:
    """Return the bucket of each identity."""
    return ((identities >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.int64)


def grouped(rows: Columns, names: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the rows in an order in which those of one identity are neighbours, and the number of each one's group.

    Rows of a group keep their order.
    """
    identities = identity(rows, names)
    order = np.argsort(identities, kind="stable")
    ordered = identities[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    columns = [values_of(rows, name) for name in names]
    differ = np.zeros(len(order), np.bool_)
    for values in columns:
        sorted_values = values[order]
        differ[1:] |= sorted_values[1:] != sorted_values[:-1]
    if (differ & ~new).any():  # two identities have one number
        order = np.lexsort(columns)
        new = np.ones(len(order), np.bool_)
        new[1:] = np.any([values[order][1:] != values[order][:-1] for values in columns], axis=0)
    return order, np.cumsum(new) - 1


def last_values(rows: Columns, names: Sequence[str]) -> Columns:
    """Return the last row of each identity, without tombstones: what compaction leaves in the end."""
    order, group = grouped(rows, names)
    if not len(order):
        return rows
    last = np.append(group[1:] != group[:-1], True)
    kept = np.sort(order[last])
    return select(rows, kept[rows["value"][kept] != ABSENT])


@dataclass(frozen=True)
class Matches:
    """Indexes of rows. The rows of a pair have one place in `a` and `b`. left: rows without a match, in their order.
    counterparts: whether such a row of A, or of B, has its identity on the other side."""

    a: Ints
    b: Ints
    left: tuple[Ints, Ints]
    counterparts: tuple[Flags, Flags]


def matched(a: Columns, b: Columns, names: Sequence[str]) -> Matches:
    """Match the n-th row of an identity in A with the n-th in B."""
    count = len(a["offset"])
    order, group = grouped({name: np.concatenate([a[name], b[name]]) for name in a}, names)
    of_b = order >= count
    groups = int(group[-1]) + 1 if len(group) else 0
    counts = [np.bincount(group[~of_b], minlength=groups), np.bincount(group[of_b], minlength=groups)]
    begins = np.cumsum(counts[0] + counts[1]) - counts[0] - counts[1]
    # the rows of A are first in their group
    rank = np.arange(len(order)) - begins[group] - np.where(of_b, counts[0][group], 0)
    paired = rank < np.minimum(*counts)[group]
    left, counterparts = [], []
    for side, own in enumerate((~of_b, of_b)):
        alone = own & ~paired
        at = order[alone] - side * count
        in_rows = np.argsort(at)
        left.append(at[in_rows])
        counterparts.append((counts[1 - side][group[alone]] > 0)[in_rows])
    pairs = order[~of_b & paired], order[of_b & paired] - count
    return Matches(*pairs, (left[0], left[1]), (counterparts[0], counterparts[1]))


@dataclass(frozen=True)
class Blocks:
    """Buckets of matched records by partition and offset in B, for their order."""

    firsts: Ints
    starts: Ints
    size: int
    count: int

    def of(self, partition: Ints, offset: Ints) -> Ints:
        """Return the bucket of each place."""
        behind = np.maximum(0, offset - self.starts[partition])  # what an earlier round carried stands before its start
        found: Ints = self.firsts[partition] + behind // self.size
        return found


@dataclass(frozen=True)
class Task:
    """A bucket to match (None: the whole files). dropped: offsets that are left out, from and to by side and partition.

    by: how rows that are left go to buckets for the next pass. blocks: None if no order is looked at. seen: files of
    the records that earlier rounds matched; None if there are no rounds.
    """

    files: tuple[Sequence[Path], Sequence[Path]]
    bucket: int | None
    number: int
    what: Pass
    first: bool
    compacted: bool
    dropped: tuple[tuple[Ints, Ints], tuple[Ints, Ints]]
    by: str
    buckets: int
    blocks: Blocks | None
    folder: Path
    examples: int
    seen: Sequence[Path] | None = None


@dataclass
class Tally:
    """What a task found, by partition of A, or of B where A has none."""

    matched: Ints
    first: tuple[Ints, Ints]
    """The first offset of A, and of B, with a match."""
    last: tuple[Ints, Ints]
    """The last offset of A, and of B, with a match."""
    retimed: Ints
    shifts: tuple[int, int] | None = None
    examples: list[tuple[int, ...]] = field(default_factory=list)
    """Pairs: partition, offset and timestamp in A, then in B."""
    retimed_examples: list[tuple[int, ...]] = field(default_factory=list)
    left: int = 0

    @classmethod
    def of(cls, partitions: tuple[int, int]) -> Tally:
        """Return the tally of no record."""
        a, b = partitions
        most = np.iinfo(np.int64).max
        firsts = np.full(a, most, np.int64), np.full(b, most, np.int64)
        lasts = np.full(a, -1, np.int64), np.full(b, -1, np.int64)
        return cls(np.zeros(a, np.int64), firsts, lasts, np.zeros(a, np.int64))

    def add(self, other: Tally, examples: int) -> None:
        """Add what another task found."""
        self.matched += other.matched
        self.retimed += other.retimed
        for own, more in zip(self.first, other.first, strict=True):
            np.minimum(own, more, out=own)
        for own, more in zip(self.last, other.last, strict=True):
            np.maximum(own, more, out=own)
        if other.shifts:
            low, high = self.shifts or other.shifts
            self.shifts = min(low, other.shifts[0]), max(high, other.shifts[1])
        self.examples = sorted([*self.examples, *other.examples])[:examples]
        self.retimed_examples = sorted([*self.retimed_examples, *other.retimed_examples])[:examples]
        self.left += other.left


def run(task: Task) -> Tally:
    """Match a bucket; write pairs for their order, and what is left of each side for the next pass."""
    names = IDENTITIES[task.what.by]
    rows = [_loaded(task, side) for side in (0, 1)]
    tally = Tally.of((len(task.dropped[0][0]), len(task.dropped[1][0])))
    left = _without_exact(task, tally, rows, names) if task.first else rows
    rest = [select(side, side["copy"] == 0) for side in left]
    found = matched(rest[0], rest[1], names)
    _note(task, tally, select(rest[0], found.a), select(rest[1], found.b), part=1)
    if task.first and task.seen is not None:
        both = np.intersect1d(identity(rows[0], names), identity(rows[1], names))
        np.save(task.folder / f"{SEEN}-{task.number:05}.npy", both)
    for side in (0, 1):
        kept = select(rest[side], found.left[side])
        if task.first:
            kept["copy"] = _likely(kept, rows[1 - side], names)
            kept["copy"][(kept["copy"] == 0) & seen_before(kept, task.seen or (), names)] = COPY
        copies = select(left[side], left[side]["copy"] != 0)
        kept = {name: np.concatenate([kept[name], copies[name]]) for name in kept}
        tally.left += len(kept["offset"])
        if len(kept["offset"]):
            kept = select(kept, np.lexsort((kept["offset"], kept["partition"])))
            place = bucket_of(identity(kept, IDENTITIES[task.by]), task.buckets)
            buckets.write(kept, place, task.buckets, task.folder / f"left-{'ab'[side]}-{task.number:05}.parquet")
    return tally


def _without_exact(task: Task, tally: Tally, rows: list[Columns], names: Sequence[str]) -> list[Columns]:
    """Match records of one timestamp, and return the others, with `copy`.

    Equal records, such as heartbeats, are told apart by their timestamps. If most records have another timestamp on the
    other side, that is no identity, equal ones are a coincidence, and no record is matched here.
    """
    exact = matched(rows[0], rows[1], (*names, "at_ms"))
    if 2 * len(exact.a) < min(len(side["offset"]) for side in rows):
        return [side | {"copy": np.zeros(len(side["offset"]), np.int64)} for side in rows]
    _note(task, tally, select(rows[0], exact.a), select(rows[1], exact.b), part=0)
    return [
        select(side, at) | {"copy": np.where(counterpart, COPY, 0)}
        for side, at, counterpart in zip(rows, exact.left, exact.counterparts, strict=True)
    ]


def _loaded(task: Task, side: int) -> Columns:
    """Return the rows of a side, in the order of partitions and offsets."""
    names = COLUMNS if task.first else (*COLUMNS, "copy")
    rows = buckets.read(task.files[side], task.bucket, names)
    begin, end = task.dropped[side]
    if (begin < end).any():
        partition = rows["partition"]
        rows = select(rows, (rows["offset"] < begin[partition]) | (rows["offset"] >= end[partition]))
    if task.compacted and task.first:
        rows = last_values(rows, IDENTITIES["key"])
    return rows


def _likely(kept: Columns, others: Columns, names: Sequence[str]) -> Ints:
    """Return `LIKELY_COPY` for rows with an identity that the other side has too."""
    there = np.isin(identity(kept, names), identity(others, names)) if len(kept["offset"]) else np.zeros(0, np.bool_)
    return np.where(there, LIKELY_COPY, 0)


def seen_before(rows: Columns, files: Sequence[Path], names: Sequence[str]) -> Flags:
    """Return whether earlier rounds matched records with the identities of rows. files: sorted identities."""
    own = identity(rows, names)
    found = np.zeros(len(own), np.bool_)
    for file in files if len(own) else ():
        known = np.load(file, mmap_mode="r")
        if len(known):
            found |= known[np.minimum(np.searchsorted(known, own), len(known) - 1)] == own
    return found


def _note(task: Task, tally: Tally, a: Columns, b: Columns, part: int) -> None:
    """Count pairs, and write their places if their order is looked at."""
    if not len(a["offset"]):
        return
    at, there = a["partition"], b["partition"]
    tally.matched += np.bincount(at, minlength=len(tally.matched))
    for side, (partition, rows) in enumerate(((at, a), (there, b))):
        np.minimum.at(tally.first[side], partition, rows["offset"])
        np.maximum.at(tally.last[side], partition, rows["offset"])
    if task.what.kind:
        tally.examples = _places(a, b, np.ones(len(at), np.bool_), task.examples)
        return
    shifts = b["at_ms"] - a["at_ms"]
    if (moved := shifts != 0).any():
        tally.retimed += np.bincount(at[moved], minlength=len(tally.retimed))
        low, high = tally.shifts or (0, 0)
        tally.shifts = min(low, int(shifts.min())), max(high, int(shifts.max()))
        tally.retimed_examples = _places(a, b, moved, task.examples)
    if task.blocks is not None:
        pairs = {"partition": at, "a": a["offset"], "b": b["offset"]}
        place = task.blocks.of(there, b["offset"])
        buckets.write(pairs, place, task.blocks.count, task.folder / f"pairs-{task.number:05}-{part}.parquet")


def _places(a: Columns, b: Columns, chosen: Flags, most: int) -> list[tuple[int, ...]]:
    """Return the first places, by A."""
    a, b = select(a, chosen), select(b, chosen)
    order = np.lexsort((a["offset"], a["partition"]))[:most]
    columns = [rows[name][order].tolist() for rows in (a, b) for name in ("partition", "offset", "at_ms")]
    return list(zip(*columns, strict=True))
