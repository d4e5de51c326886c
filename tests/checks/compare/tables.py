"""Small tables of both sides, judged without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chaos.compare.model import Comparison, Example, Pair, Side
from chaos.kafka.security import Security
from chaos.run.directory import Run
from checks.compare import buckets, match
from checks.compare.judge import match_sides
from checks.compare.read import hashes
from checks.compare.sides import Cut, Ends, Files, identity_of
from checks.compare.topics import found_in
from checks.compare.work import Work


class Record(NamedTuple):
    """A record. at_ms: None for 1,000 ms after the one before in the table."""

    key: bytes | None
    value: bytes | None
    headers: bytes | None = None
    partition: int = 0
    at_ms: int | None = None
    offset: int | None = None


def records(text: str, partition: int = 0, first_ms: int = 1_000) -> list[Record]:
    """Return records such as `k1=a k2=b`: key and value; `=a` has no key, and `k=` is a tombstone."""
    found = []
    for n, word in enumerate(text.split()):
        key, _, value = word.partition("=")
        found.append(Record(key.encode() or None, value.encode() or None, None, partition, first_ms + n))
    return found


def columns(rows: Sequence[Record]) -> buckets.Columns:
    at = dict[int, int]()
    offsets = []
    for row in rows:
        offsets.append(at.get(row.partition, 0) if row.offset is None else row.offset)
        at[row.partition] = offsets[-1] + 1
    times = [1_000 + n if row.at_ms is None else row.at_ms for n, row in enumerate(rows)]
    return {
        "partition": np.array([row.partition for row in rows], np.int64),
        "offset": np.array(offsets, np.int64),
        "at_ms": np.array(times, np.int64),
        "key": hashes([row.key for row in rows]),
        "value": hashes([row.value for row in rows]),
        "headers": hashes([row.headers for row in rows]),
    }


class Judged(NamedTuple):
    """What was found: numbers by kind, `same` among them; numbers by kind and partition; the examples."""

    found: dict[str, int]
    at: dict[str, dict[int, int]]
    examples: list[Example]


def judged(
    folder: Path,
    a: Sequence[Record],
    b: Sequence[Record],
    partitions: tuple[int, int] = (1, 1),
    *,
    compacted: bool = False,
    gaps: tuple[Sequence[int], Sequence[int]] = ((), ()),
    hidden: tuple[Sequence[int], Sequence[int]] = ((), ()),
    grew: tuple[Sequence[int], Sequence[int]] = ((), ()),
    parts: int = 4,
    small: int = 1 << 30,
) -> Judged:
    """Judge two tables. gaps: partitions of A and B that lack the start of the log. hidden: those with an open
    transaction. grew: those that were written while they were read.

    parts: buckets; small: records up to which no Spark is used.
    """
    pair = Pair(a="orders", b="orders", partitions=partitions, compacted=compacted)
    side = Side(bootstrap="nowhere:1", security=Security())
    asked = Comparison(a=side, b=side, pairs=[pair])
    run = Run.create(folder, "compared")
    work = Work(run, asked, small=small, cores=2)
    tables = [columns(a), columns(b)]
    paths = []
    for name, rows in zip("ab", tables, strict=True):
        path = run.path / f"{name}.parquet"
        place = match.bucket_of(match.identity(rows, match.IDENTITIES[identity_of(pair)]), parts)
        buckets.write(rows, place, parts, path)
        paths.append([path])
    flags = [
        tuple(np.isin(np.arange(n), list(lacking)) for n, lacking in zip(partitions, both, strict=True))
        for both in (gaps, hidden, grew)
    ]
    ranges = tuple([(0, len(a) + len(b) + 1)] * n for n in partitions)
    zeros = [np.zeros(n, np.int64) for n in partitions]
    log = [Ends(each, each, each, "") for each in zeros]
    what = Cut(ranges, *flags, ends=(log[0], log[1]))
    nothing = [(each, each) for each in zeros]
    files = Files((paths[0], paths[1]), len(a) + len(b), parts, (zeros[0], zeros[1]), (nothing[0], nothing[1]))
    done = match_sides(work, pair, what, files, run.path)
    found, _ = found_in(work, pair, what, files, done)
    totals = {kind: int(counts.sum()) for kind, counts in found.counts.items()}
    at = {kind: {p: int(n) for p, n in enumerate(counts) if n} for kind, counts in found.counts.items()}
    return Judged({"same": int(done.tally.matched.sum())} | totals, at, found.examples)
