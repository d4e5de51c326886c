"""Both sides of a pair of topics: the offsets to compare, and their records in files of buckets."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from chaos.compare.model import Comparison, Pair, Side
from chaos.errors import ClusterError, MachineError
from chaos.units import rounded_size
from checks.compare import read
from checks.compare.earlier import Earlier, Rebucket, rebucket
from checks.compare.left import Both
from checks.compare.match import Flags, Ints
from checks.compare.work import Work
from checks.readback.source import OffsetRange
from checks.readback.stage import log_ranges, split, stable_offsets, topic_ids

TASKS_PER_CORE = 4
ROWS_PER_BUCKET = 1 << 20
"""Most records of both sides in a bucket: a task holds some 200 bytes for each."""
BYTES_PER_RECORD = 110
"""Upper limit of what a record takes on the disk, in all steps together."""
GREW = "records were written while they were read, so that the end of A may not have been copied yet"
Range = tuple[int, int]


@dataclass(frozen=True)
class Ends:
    """A topic at one moment, by partition. stable: last stable offset. end: of the log. id: empty if unknown."""

    start: Ints
    stable: Ints
    end: Ints
    id: str

    @property
    def open(self) -> Flags:
        """Whether a transaction is open in a partition."""
        return self.stable < self.end


@dataclass(frozen=True)
class Cut:
    """The offsets to read of each partition of A and of B, start and end; and what is known of their logs.

    gaps, open, grew: as in `left.Known`.
    """

    ranges: tuple[Sequence[Range], Sequence[Range]]
    gaps: Both
    open: Both
    grew: Both
    ends: tuple[Ends, Ends]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Files:
    """The rows of both sides. records: by partition. dropped: offsets to leave out, from and to by partition."""

    paths: tuple[Sequence[Path], Sequence[Path]]
    rows: int
    buckets: int
    records: tuple[Ints, Ints]
    dropped: tuple[tuple[Ints, Ints], tuple[Ints, Ints]]


class AnotherLog(ClusterError):
    """A topic is not the one that earlier rounds read: it was made again, or lost its end."""


def cut(asked: Comparison, pair: Pair, earlier: Earlier | None = None) -> Cut:
    """Return what is to be read. B is asked before A: so a record below the end of B was below the end of A.

    Raises `ClusterError`; `AnotherLog` if a log is not the one of earlier rounds.
    """
    of_b = _ends(asked.b, pair, 1)
    of_a = _ends(asked.a, pair, 0)
    ranges, gaps, notes = [], [], list[str]()
    for side, ends in enumerate((of_a, of_b)):
        begins = np.zeros_like(ends.start)
        if earlier:
            begins = earlier.begins[side]
            _check_same(f"{'AB'[side]}: {(pair.a, pair.b)[side]}", ends, earlier.ids[side], begins)
        gap = ends.start > begins
        lacking = [f"{p} (from {ends.start[p]:,})" for p in np.flatnonzero(gap).tolist()]
        if lacking:
            notes.append(
                f"{'AB'[side]} lacks offsets before those of partition {_few(lacking)}: retention removed them"
            )
        held = [f"{p} ({ends.stable[p]:,})" for p in np.flatnonzero(ends.open).tolist()]
        if held:
            notes.append(f"{'AB'[side]} is read to the begin of a transaction that is open in partition {_few(held)}")
        starts = np.maximum(ends.start, begins)
        ranges.append(list(zip(starts.tolist(), np.maximum(starts, ends.stable).tolist(), strict=True)))
        gaps.append(gap)
    none = np.zeros(pair.partitions[0], np.bool_), np.zeros(pair.partitions[1], np.bool_)
    return Cut((ranges[0], ranges[1]), (gaps[0], gaps[1]), (of_a.open, of_b.open), none, (of_a, of_b), notes)


def _check_same(name: str, ends: Ends, topic_id: str, begins: Ints) -> None:
    """Raise `AnotherLog` if a topic is not the one that earlier rounds read."""
    if topic_id and ends.id and topic_id != ends.id:
        raise AnotherLog(f"{name} was deleted and made again")
    if (shorter := ends.stable < begins).any():
        p = int(np.flatnonzero(shorter)[0])
        raise AnotherLog(
            f"{name}, partition {p}, ends at {ends.stable[p]:,} and was read to {begins[p]:,}: its log was truncated"
        )


def _ends(at: Side, pair: Pair, side: int) -> Ends:
    topic, name = (pair.a, pair.b)[side], "AB"[side]
    try:
        logs = sorted(log_ranges(at.bootstrap, [topic], at.security).items())
        stable = stable_offsets(at.bootstrap, [topic], at.security)
    except ClusterError as e:
        raise ClusterError(f"{name}: {e}") from None
    if len(logs) != pair.partitions[side]:
        raise ClusterError(
            f"{name}: {topic} had {pair.partitions[side]} partitions and has {len(logs)} now; compare again"
        )
    columns = [(start, stable[place], end) for place, (start, end) in logs]
    starts, stables, ends = np.array(columns, np.int64).reshape(-1, 3).T
    return Ends(starts, stables, ends, topic_ids(at.bootstrap, [topic], at.security).get(topic, ""))


def looked_again(asked: Comparison, pair: Pair, what: Cut) -> Cut:
    """Return the cut with the partitions that grew meanwhile. Raises `ClusterError` if logs are not the same.

    A topic that was deleted and made again, or lost its end to an unclean election, has other records than were read.
    """
    grew = []
    for side, at in enumerate((asked.a, asked.b)):
        before, now = what.ends[side], _ends(at, pair, side)
        name = f"{'AB'[side]}: {(pair.a, pair.b)[side]}"
        if before.id and now.id and before.id != now.id:
            raise ClusterError(f"{name} was deleted and made again while it was read; compare again")
        if (shorter := now.stable < np.maximum(before.stable, before.start)).any():
            p = int(np.flatnonzero(shorter)[0])
            raise ClusterError(
                f"{name}, partition {p}, ended at {before.stable[p]:,} and ends at {now.stable[p]:,} now: its log was "
                "truncated while it was read; compare again"
            )
        grew.append(now.end > before.end)
    if not (grew[0].any() or grew[1].any()):
        return what
    return replace(what, grew=(grew[0], grew[1]), notes=[*what.notes, GREW])


def _few(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def identity_of(pair: Pair) -> str:
    """Return the identity by which rows go to buckets: the rows of a key of a compacted topic are in one bucket."""
    return "key" if pair.compacted else "content anywhere" if pair.whole else "content"


def read_sides(work: Work, pair: Pair, what: Cut, folder: Path, earlier: Earlier | None = None) -> Files:
    """Write the rows of the cut, and what earlier rounds carried, into `folder`. Raises `ClusterError`."""
    carried = earlier.rows if earlier else 0
    rows = carried + sum(end - start for own in what.ranges for start, end in own)
    _check_room(rows, pair, folder)
    count, by = _buckets(rows, work), identity_of(pair)
    folders = [folder / "a", folder / "b"]
    for own in folders:
        own.mkdir()
    tasks = _tasks(work, pair, what, folders, (by, count))
    done = work.each(read.read, [task for _, task in tasks], rows, "readback")
    if errors := sorted({one.error for one in done if one.error}):
        raise ClusterError("; ".join(errors))
    a, b = pair.partitions
    records = np.zeros(a, np.int64), np.zeros(b, np.int64)
    dropped = (_nothing(a), _nothing(b))
    for (side, task), one in zip(tasks, done, strict=True):
        p = task.part.partition
        records[side][p] += one.rows
        if one.evicted:
            begin, end = dropped[side]
            begin[p], end[p] = what.ranges[side][p][0], max(one.evicted, int(end[p]))
    paths = [sorted(own.glob("*.parquet")) for own in folders]
    if earlier and carried:
        again = [[Rebucket(p, own / p.name, by, count) for p in earlier.carried[i]] for i, own in enumerate(folders)]
        work.each(rebucket, [task for tasks in again for task in tasks], carried, "readback")
        paths = [[task.into for task in again[side]] + own for side, own in enumerate(paths)]  # they are older
    return Files((paths[0], paths[1]), rows, count, records, dropped)


def _buckets(rows: int, work: Work) -> int:
    """Return the number of buckets: several for each core, and none of many millions of rows."""
    return max(-(-rows // ROWS_PER_BUCKET), TASKS_PER_CORE * work.cores if rows > work.small else 1)


def with_evicted(what: Cut, files: Files) -> Cut:
    """Return the cut with what retention removed while it was read, as a later start of the log."""
    evicted = [begin < end for begin, end in files.dropped]
    if not any(flags.any() for flags in evicted):
        return what
    notes = [
        f"{'AB'[side]} lost offsets before {end[p]:,} of partition {p} to retention while they were read"
        for side, (_, end) in enumerate(files.dropped)
        for p in np.flatnonzero(evicted[side]).tolist()
    ]
    gaps = what.gaps[0] | evicted[0], what.gaps[1] | evicted[1]
    return replace(what, gaps=gaps, notes=[*what.notes, *notes])


def _nothing(partitions: int) -> tuple[Ints, Ints]:
    return np.zeros(partitions, np.int64), np.zeros(partitions, np.int64)


def _tasks(
    work: Work, pair: Pair, what: Cut, folders: Sequence[Path], by: tuple[str, int]
) -> list[tuple[int, read.Task]]:
    """Return the parts to read with their side; the sides alternate, so that both clusters are read all the time."""
    asked, share = work.asked, sum(e - s for own in what.ranges for s, e in own) // (TASKS_PER_CORE * work.cores)
    rate = asked.rate and asked.rate / work.cores
    found = []
    for side, (at, topic) in enumerate(((asked.a, pair.a), (asked.b, pair.b))):
        ranges = {(topic, p): reach for p, reach in enumerate(what.ranges[side])}
        for i, (_, p, start, end) in enumerate(split(ranges, share)):
            stable = what.ranges[side][p][1]
            part = OffsetRange(at.bootstrap, topic, p, start, end, folders[side], i, at.security, stable)
            found.append((i, side, read.Task(part, *by, rate)))
    return [(side, task) for _, side, task in sorted(found, key=lambda entry: entry[:2])]


def _check_room(rows: int, pair: Pair, folder: Path) -> None:
    needed, free = rows * BYTES_PER_RECORD, shutil.disk_usage(folder).free
    if needed > free:
        raise MachineError(
            f"{rows:,} records of {pair.name} may take {rounded_size(needed)} at {folder.parent}, and "
            f"{rounded_size(free)} are free; make room, or choose another --into"
        )
