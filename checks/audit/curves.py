"""What the report draws: rates and lag over time, and latency as a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.large.columns import Ints
from checks.audit.large.tally import Tally
from checks.audit.large.times import BUCKET_US, EDGES
from checks.audit.ranges import Owed

MIN_CELL_US = 500_000
CELLS = 400
_BUCKETS = (1 << 36) - 1


def cell_us(span_us: int) -> int:
    """How wide the cells of a heat map are: at most 400 over the span, in steps of half a second."""
    return max(MIN_CELL_US, -(-span_us // CELLS // MIN_CELL_US) * MIN_CELL_US)


def series(tally: Tally, places: list[Owed]) -> list[dict[str, Any]]:
    """Table `series`: acked per topic, delivered and lag per reader, in buckets of 250 ms (only those with events)."""
    rows: list[dict[str, Any]] = []
    for name, curve in (("acked", "acked_curve"), ("delivered", "delivered_curve")):
        for (scope,), (at_us, count) in tally.each("counts", curve):
            rows += _curve(name, scope, at_us, count)
    by_reader: dict[str, list[Owed]] = {}
    for place in places:
        by_reader.setdefault(place.reader, []).append(place)
    for reader, owed in by_reader.items():
        rows += _curve("lag", reader, *_lag(tally, owed))
    return sorted(rows, key=lambda r: (r["series"], r["scope"], r["at_us"]))


def _curve(name: str, scope: str, at_us: Ints, values: Ints) -> list[dict[str, Any]]:
    return [
        {"at_us": at, "series": name, "scope": scope, "value": value}
        for at, value in zip(at_us.tolist(), values.tolist(), strict=True)
    ]


def _lag(tally: Tally, places: list[Owed]) -> tuple[Ints, Ints]:
    """Acknowledged beyond delivered, over all partitions of a reader, from the highest offsets of both."""
    moments, changes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for place in places:
        base = next((v for v in (place.range_start, place.log_start) if v is not None), 0)
        acked = tally.get("highest", "acked_reached", place.topic)
        delivered = tally.get("highest", "delivered_reached", place.reader, place.topic)
        for sparse, sign in ((acked, 1), (delivered, -1)):
            if sparse is None:
                continue
            mine = sparse[0] >> 36 == place.partition
            reached = np.maximum.accumulate(np.maximum(sparse[1][mine], base))
            moments.append((sparse[0][mine] & _BUCKETS) * BUCKET_US)
            changes.append(sign * np.diff(reached, prepend=base))
    at_us, inverse = np.unique(np.concatenate(moments), return_inverse=True)
    steps = np.bincount(inverse, weights=np.concatenate(changes), minlength=len(at_us)).astype(np.int64)
    return at_us, np.maximum(np.cumsum(steps), 0)


def latency(tally: Tally, width_us: int) -> list[dict[str, Any]]:
    """Table `latency`: how many took how long, by cell of time and bin of size, four bins per decade."""
    rows = [
        {"at_us": key // 64 * width_us, "series": name, "scope": scope, "bin_us": int(EDGES[key % 64]), "count": count}
        for (name, scope), (keys, counts) in tally.each("counts", "heat")
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True)
    ]
    return sorted(rows, key=lambda r: (r["series"], r["scope"], r["at_us"], r["bin_us"]))
