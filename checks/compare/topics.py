"""The comparison of a pair of topics: from the cut of both sides to what was found."""

from __future__ import annotations

import shutil
import time

import numpy as np

from chaos.compare.model import (
    DIFFERENCES,
    Pair,
    PartitionCounts,
    TopicResult,
)
from chaos.compare.rounds import Place
from checks.compare.earlier import Earlier
from checks.compare.judge import Found, Matched, judge_left, look_at_order, match_sides
from checks.compare.match import Flags, Ints
from checks.compare.name import named
from checks.compare.sides import GREW, Cut, Files, cut, looked_again, read_sides, with_evicted
from checks.compare.work import Work

LATE_S = 5.0
"""How long after the begin of the reading logs are asked again at the earliest, if B lacks records."""
WORK = "work"
"""The folder of the rows, which is removed at the end."""


def compare_topics(work: Work, pair: Pair) -> TopicResult:
    """Compare a pair of topics."""
    return compared_pair(work, pair, None)[0]


def compared_pair(work: Work, pair: Pair, earlier: Earlier | None) -> tuple[TopicResult, Place]:
    """Compare a pair of topics, or what came there since earlier rounds; return what was found, and where it ended.

    Raises `ClusterError`; `AnotherLog` if a log is not the one of earlier rounds.
    """
    folder, began = work.run.path / WORK, time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        with work.events.stage("readback", f"reading {pair.name} of A and B"):
            what = cut(work.asked, pair, earlier)
            files = read_sides(work, pair, what, folder, earlier)
            what = with_evicted(what, files)
        with work.events.stage("audit", f"comparing {pair.name}"):
            done = match_sides(work, pair, what, files, folder, earlier)
            if not earlier and (done.left[0] or (pair.compacted and (done.left[1] or done.found.counts))):
                wait_for_late(began)
            what = looked_again(work.asked, pair, what)
            found, again = found_in(work, pair, what, files, done, earlier)
            examples = named(work.asked, pair, found.examples)
        if earlier:
            earlier.remember(done.folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = TopicResult(
        a=pair.a,
        b=pair.b,
        matching=pair.matching,
        partitions=_counts(pair, files, done, found),
        examples=examples,
        shifts_ms=done.tally.shifts,
        settings=pair.settings,
        notes=[note for note in what.notes if not (earlier and note == GREW)],
    )
    highest = np.maximum(done.tally.last[0], earlier.highest if earlier else -1)
    ends = [[end for _, end in own] for own in what.ranges]
    size = max(pair.partitions)
    carried = {kind: np.pad(n, (0, size - len(n))).tolist() for kind, n in again.counts.items()}
    ids = what.ends[0].id, what.ends[1].id
    return result, Place(pair=pair, ends=(ends[0], ends[1]), ids=ids, highest=highest.tolist(), carried=carried)


def wait_for_late(began: float) -> None:
    """Wait until a copy that is a little late has had the time to grow: only then is the end of A missing in B."""
    time.sleep(max(0.0, began + LATE_S - time.monotonic()))


def found_in(
    work: Work, pair: Pair, what: Cut, files: Files, done: Matched, earlier: Earlier | None = None
) -> tuple[Found, Found]:
    """Return what was found in all passes, in the order of records, and of records without a match.

    The second one is what the next round looks at again.
    """
    whole = Found()
    left, again = judge_left(work, pair, what, files.rows, done, earlier)
    for part in (done.found, look_at_order(work, done, files.rows, earlier), left):
        for kind, counts in part.counts.items():
            whole.add(kind, counts)
        whole.examples += part.examples
    return (undecided(whole, changing(what)) if pair.compacted else whole), again


def changing(what: Cut) -> Flags:
    """Return the partitions of a compacted topic where a last value may not have been read on one side."""
    flags: Flags = what.grew[0] | what.grew[1] | what.open[0] | what.open[1]
    return flags


def undecided(found: Found, changing: Flags) -> Found:
    """Return what was found, without differences in partitions where last values changed meanwhile."""
    if not changing.any():
        return found
    decided = Found()
    for kind, counts in found.counts.items():
        if kind in DIFFERENCES:
            decided.add("unknown", np.where(changing, counts, 0))
            counts = np.where(changing, 0, counts)
        decided.add(kind, counts)
    for example in found.examples:
        partition = next(p for p in example.partitions if p is not None)
        hidden = example.kind in DIFFERENCES and changing[partition]
        decided.examples.append(example.model_copy(update={"kind": "unknown"}) if hidden else example)
    return decided


def _counts(pair: Pair, files: Files, done: Matched, found: Found) -> list[PartitionCounts]:
    """Return the numbers of each partition; one that a side lacks has no records there."""

    def at(values: Ints, p: int) -> int:
        return int(values[p]) if p < len(values) else 0

    return [
        PartitionCounts(
            partition=p,
            records=(at(files.records[0], p), at(files.records[1], p)),
            matched=at(done.tally.matched, p),
            found={kind: count for kind, counts in found.counts.items() if (count := at(counts, p))},
        )
        for p in range(max(pair.partitions))
    ]
