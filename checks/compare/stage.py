"""A comparison from the cut of both sides to `result.json`."""

from __future__ import annotations

import shutil
import time

import numpy as np

from chaos.compare.model import (
    DIFFERENCES,
    EXIT_CODES,
    ComparisonResult,
    Pair,
    PartitionCounts,
    TopicResult,
    compared,
)
from chaos.run.directory import Run, write_atomically
from chaos.run.events import now_us
from checks.compare.judge import Found, Matched, judge_left, look_at_order, match_sides
from checks.compare.match import Flags, Ints
from checks.compare.name import named
from checks.compare.sides import Cut, Files, cut, looked_again, read_sides, with_evicted
from checks.compare.work import Listener, Work

LATE_S = 5.0
"""How long after the begin of the reading logs are asked again at the earliest, if B lacks records."""
WORK = "work"
"""The folder of the rows, which is removed at the end."""


def compare(run: Run, listener: Listener | None = None) -> int:
    """Compare what the folder asks for, write `result.json`, and return the exit code of the verdict."""
    asked, began, created_us = compared(run.path), time.monotonic(), now_us()
    assert asked is not None
    run.result.unlink(missing_ok=True)
    work = Work(run, asked, listener)
    shutil.rmtree(run.path / WORK, ignore_errors=True)
    topics = [compare_topics(work, pair) for pair in asked.pairs]
    result = ComparisonResult.of(asked, topics, created_us, time.monotonic() - began)
    write_atomically(run.result, result.model_dump_json(indent=1))
    return EXIT_CODES[result.verdict]


def compare_topics(work: Work, pair: Pair) -> TopicResult:
    """Compare a pair of topics."""
    folder, began = work.run.path / WORK, time.monotonic()
    folder.mkdir()
    try:
        with work.events.stage("readback", f"reading {pair.name} of A and B"):
            what = cut(work.asked, pair)
            files = read_sides(work, pair, what, folder)
            what = with_evicted(what, files)
        with work.events.stage("audit", f"comparing {pair.name}"):
            done = match_sides(work, pair, what, files, folder)
            if done.left[0] or (pair.compacted and (done.left[1] or done.found.counts)):
                wait_for_late(began)
            what = looked_again(work.asked, pair, what)
            found = found_in(work, pair, what, files, done)
            examples = named(work.asked, pair, found.examples)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return TopicResult(
        a=pair.a,
        b=pair.b,
        matching=pair.matching,
        partitions=_counts(pair, files, done, found),
        examples=examples,
        shifts_ms=done.tally.shifts,
        notes=list(what.notes),
    )


def wait_for_late(began: float) -> None:
    """Wait until a copy that is a little late has had the time to grow: only then is the end of A missing in B."""
    time.sleep(max(0.0, began + LATE_S - time.monotonic()))


def found_in(work: Work, pair: Pair, what: Cut, files: Files, done: Matched) -> Found:
    """Return what was found in all passes, in the order of records, and of records without a match."""
    whole = Found()
    for part in (done.found, look_at_order(work, done, files.rows), judge_left(work, pair, what, files.rows, done)):
        for kind, counts in part.counts.items():
            whole.add(kind, counts)
        whole.examples += part.examples
    return undecided(whole, changing(what)) if pair.compacted else whole


def changing(what: Cut) -> Flags:
    """Return the partitions of a compacted topic of which a last value may not have been read on one side."""
    flags: Flags = what.grew[0] | what.grew[1] | what.open[0] | what.open[1]
    return flags


def undecided(found: Found, changing: Flags) -> Found:
    """Return what was found, without differences in partitions of which the last values changed meanwhile."""
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
