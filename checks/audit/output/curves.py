"""The tables `series` and `latency`: rates and lag over time, and latency as a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import Ints
from checks.audit.engine import counters
from checks.audit.engine.tally import Tally
from checks.audit.engine.time_buckets import BUCKET_US, EDGES
from checks.audit.facts.ranges import ReadRange

MIN_CELL_US = 500_000
CELLS = 400
_TIME_BITS = 36
_CURVES = {
    "acked": counters.ACKED_CURVE,
    "called": counters.CALLED_CURVE,
    "unacked": counters.UNACKED_CURVE,
    "delivered": counters.DELIVERED_CURVE,
}


def cell_us(span_us: int) -> int:
    """Return the width of a heat map cell: at most 400 over the span, in steps of half a second."""
    return max(MIN_CELL_US, -(-span_us // CELLS // MIN_CELL_US) * MIN_CELL_US)


def series(tally: Tally, ranges: list[ReadRange]) -> list[dict[str, Any]]:
    """Return table `series`, in time buckets that have events.

    acked, called and unacked per topic: acknowledgements, send calls, and calls that were never
    acknowledged. delivered and lag per reader.
    """
    rows: list[dict[str, Any]] = []
    for name, curve in _CURVES.items():
        for (scope,), (at_us, count) in tally.each(curve):
            rows += _curve(name, scope, at_us, count)
    by_reader: dict[str, list[ReadRange]] = {}
    for read_range in ranges:
        by_reader.setdefault(read_range.reader, []).append(read_range)
    for reader, own in by_reader.items():
        rows += _curve("lag", reader, *_lag(tally, own))
    return sorted(rows, key=lambda r: (r["series"], r["scope"], r["at_us"]))


def _curve(name: str, scope: str, at_us: Ints, values: Ints) -> list[dict[str, Any]]:
    return [
        {"at_us": at, "series": name, "scope": scope, "value": value}
        for at, value in zip(at_us.tolist(), values.tolist(), strict=True)
    ]


def _lag(tally: Tally, ranges: list[ReadRange]) -> tuple[Ints, Ints]:
    """Return times and acknowledged less delivered records of a reader, from the highest offsets of both."""
    times, changes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for r in ranges:
        base = next((v for v in (r.start, r.log_start) if v is not None), 0)
        acked = tally.get(counters.ACKED_REACHED, r.topic)
        delivered = tally.get(counters.DELIVERED_REACHED, r.reader, r.topic)
        for sparse, sign in ((acked, 1), (delivered, -1)):
            if sparse is None:
                continue
            here = sparse[0] >> _TIME_BITS == r.partition
            reached = np.maximum.accumulate(np.maximum(sparse[1][here], base))
            times.append((sparse[0][here] & ((1 << _TIME_BITS) - 1)) * BUCKET_US)
            changes.append(sign * np.diff(reached, prepend=base))
    at_us, inverse = np.unique(np.concatenate(times), return_inverse=True)
    steps = np.bincount(inverse, weights=np.concatenate(changes), minlength=len(at_us)).astype(np.int64)
    return at_us, np.maximum(np.cumsum(steps), 0)


def latency(tally: Tally, width_us: int) -> list[dict[str, Any]]:
    """Return table `latency`: records by time cell and latency bin, four bins per decade."""
    rows = [
        {"at_us": key // 64 * width_us, "series": name, "scope": scope, "bin_us": int(EDGES[key % 64]), "count": count}
        for (name, scope), (keys, counts) in tally.each(counters.HEAT)
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True)
    ]
    return sorted(rows, key=lambda r: (r["series"], r["scope"], r["at_us"], r["bin_us"]))
