"""What the rows of both sides show: pass by pass of matching, then the order, then what nothing matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from chaos.compare.model import Example, Pair
from checks.compare import left, match, order
from checks.compare.earlier import Earlier
from checks.compare.match import Ints, Tally
from checks.compare.sides import ROWS_PER_BUCKET, TASKS_PER_CORE, Cut, Files
from checks.compare.work import Work


@dataclass
class Found:
    """Numbers of records by kind and partition, and the first ones of each kind."""

    counts: dict[str, Ints] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)

    def add(self, kind: str, counts: Ints, examples: Sequence[Example] = ()) -> None:
        """Add records of a kind, if there are any."""
        if not counts.any():
            return
        if kind in self.counts:
            own, size = self.counts[kind], max(len(self.counts[kind]), len(counts))
            counts = np.pad(own, (0, size - len(own))) + np.pad(counts, (0, size - len(counts)))
        self.counts[kind] = counts
        self.examples += examples


@dataclass(frozen=True)
class Matched:
    """What the passes found. left: files of rows without a match."""

    tally: Tally
    found: Found
    left: tuple[Sequence[Path], Sequence[Path]]
    blocks: match.Blocks | None
    folder: Path


def match_sides(
    work: Work, pair: Pair, what: Cut, files: Files, folder: Path, earlier: Earlier | None = None
) -> Matched:
    """Match both sides by content, and what that leaves by less."""
    blocks = None if pair.whole or pair.compacted else _blocks(what, work.cores)
    total, found = Tally.of(pair.partitions), Found()
    lacking = all(flags.any() for flags in what.gaps)
    paths, rows, ways = files.paths, files.rows, match.passes(pair.whole)
    for number, way in enumerate(ways):
        own = folder / f"pass-{number}"
        own.mkdir()
        following = ways[min(number + 1, len(ways) - 1)].by
        whole = number > 0 and rows <= ROWS_PER_BUCKET
        tasks = [
            match.Task(
                *(paths, None if whole else bucket, bucket, way, number == 0, pair.compacted, files.dropped, following),
                *(files.buckets, blocks if number == 0 else None, own, work.asked.examples),
                earlier.seen if earlier else None,
            )
            for bucket in range(1 if whole else files.buckets)
        ]
        tally = Tally.of(pair.partitions)
        for one in work.each(match.run, tasks, rows, "audit"):
            tally.add(one, work.asked.examples)
        _note(way, tally, total, found, lacking)
        paths, rows = (sorted(own.glob("left-a-*")), sorted(own.glob("left-b-*"))), tally.left
        if not rows:
            break
    return Matched(total, found, paths, blocks, folder / "pass-0")


def _note(way: match.Pass, tally: Tally, total: Tally, found: Found, lacking: bool) -> None:
    """Add what a pass matched: the same records, or a kind of difference.

    lacking: both sides lack the start of a log. Then equal records in two partitions may be two records.
    """
    if way.kind:
        kind = "unknown" if way.kind == "moved" and lacking else way.kind
        found.add(kind, tally.matched, [_pair_example(kind, place) for place in tally.examples])
        tally.matched = np.zeros_like(tally.matched)
    if tally.retimed.any():
        found.add("retimed", tally.retimed, [_pair_example("retimed", place) for place in tally.retimed_examples])
    if way.kind == "moved":  # its offsets say nothing about its partition
        tally = Tally.of((len(tally.first[0]), len(tally.first[1])))
    total.add(tally, 0)


def _pair_example(kind: str, place: tuple[int, ...]) -> Example:
    return Example(kind=kind, partitions=place[::3], offsets=place[1::3], times_ms=place[2::3])


def _blocks(what: Cut, cores: int) -> match.Blocks:
    """Return blocks of offsets of B, for the order of records: several for each core, and none of many millions."""
    size = max(1, min(ROWS_PER_BUCKET, sum(end - start for start, end in what.ranges[1]) // (TASKS_PER_CORE * cores)))
    counts = [max(1, -(-(end - start) // size)) for start, end in what.ranges[1]]
    firsts = np.cumsum([0, *counts], dtype=np.int64)
    starts = np.array([start for start, _ in what.ranges[1]], np.int64)
    return match.Blocks(firsts[:-1], starts, size, int(firsts[-1]))


def look_at_order(work: Work, done: Matched, rows: int, earlier: Earlier | None = None) -> Found:
    """Return the matched records that are in another order in B."""
    found = Found()
    if done.blocks is None:
        return found
    files = sorted(done.folder.glob("pairs-*"))
    ends = [*done.blocks.firsts[1:].tolist(), done.blocks.count]
    past = earlier.highest.tolist() if earlier else [order.FIRST] * len(ends)
    spans = list(zip(done.blocks.firsts.tolist(), ends, strict=True))
    tasks = [order.Task(files, i, past=past[p]) for p, span in enumerate(spans) for i in range(*span)]
    blocks = work.each(order.look, tasks, rows, "audit")
    counts = np.zeros(len(ends), np.int64)
    for p, (first, end) in enumerate(spans):
        if order.in_order(blocks[first:end]):
            continue
        bounds = order.bounds(blocks[first:end])
        own = {"past": past[p], "examples": work.asked.examples}
        tasks = [order.Task(files, first + i, *bound, **own) for i, bound in enumerate(bounds)]
        again = work.each(order.look, tasks, rows, "audit")
        late, early = sum(b.late for b in again), sum(b.early for b in again)
        fewer_late = late <= early
        counts[p] = (late if fewer_late else early) + sum(b.overdue for b in again)
        shown = [(place, "late in B, after a round without it") for b in again for place in b.overdue_examples]
        detail = "late in B" if fewer_late else "early in B"
        shown += [(place, detail) for b in again for place in (b.late_examples if fewer_late else b.early_examples)]
        examples = [
            Example(kind="reordered", partitions=(p, p), offsets=place, detail=words)
            for place, words in shown[: work.asked.examples]
        ]
        found.examples += examples
    if counts.any():
        found.add("reordered", counts)
    return found


def judge_left(
    work: Work, pair: Pair, what: Cut, rows: int, done: Matched, earlier: Earlier | None = None
) -> tuple[Found, Found]:
    """Return what the rows without a match are, and what the next round looks at again."""
    flags = what.gaps, what.open, what.grew
    begins = earlier.begins if earlier else None
    known = left.Known(done.tally.first, done.tally.last, *flags, pair.whole, pair.compacted, begins)
    tasks = [
        left.Task(path, side, known, work.asked.examples, earlier.carry(side, n) if earlier else None)
        for side in (0, 1)
        for n, path in enumerate(done.left[side])
    ]
    found, again, shown = Found(), Found(), dict[tuple[str, int], list[tuple[int, int, int]]]()
    for task, one in zip(tasks, work.each(left.judge, tasks, rows, "audit"), strict=True):
        for kind, counts in one.carried.items():
            again.add(kind, counts)
        for kind, counts in one.counts.items():
            found.add(kind, counts)
            shown.setdefault((kind, task.side), []).extend(one.examples[kind])
    for (kind, side), places in shown.items():
        for partition, offset, at_ms in sorted(places)[: work.asked.examples]:
            only = [(value, None) if side == 0 else (None, value) for value in (partition, offset, at_ms)]
            found.examples.append(Example(kind=kind, partitions=only[0], offsets=only[1], times_ms=only[2]))
    return found, again
