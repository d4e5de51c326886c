"""Heat maps of latency: time on the x axis, latency on a logarithmic y axis, number of records as colour.

An average would hide the effect of a fault: most records stay fast while some wait for an election.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from checks.report.curves import BUCKET_US, HEIGHT, Grid
from checks.report.lanes import Axis, Lane
from checks.report.text import count, duration, natural

MOST_COLUMNS = 300
MANY = 6
"""Number of scopes beyond which each map has half the columns."""
LEVELS = 5
LABELS = {"ack": "ack latency", "end_to_end": "end to end"}

Column = Mapping[int, int]
"""Lower edge of a bin in us -> records in it."""


def latency_lanes(table: pa.Table, series: str, axis: Axis) -> list[Lane]:
    """Return a heat map for each scope of `ack` or `end_to_end`."""
    most = MOST_COLUMNS if len(pc.unique(table["scope"])) <= MANY else MOST_COLUMNS // 2
    grid = Grid(axis, column_us(table), most)
    by_scope: dict[str, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in grid.sums(table, series, ["scope", "bin_us"], "count", "sum"):
        if row["value"] and row["bin_us"] is not None:
            by_scope[row["scope"] or "all"][row["slot"]][max(1, row["bin_us"])] = row["value"]
    return [_lane(series, scope, by_scope[scope], grid) for scope in sorted(by_scope, key=natural)]


def column_us(table: pa.Table) -> int:
    """Return the width of the columns of the audit, which depends on the length of the run."""
    moments = pc.drop_null(pc.unique(table["at_us"])).to_pylist()
    return max(BUCKET_US, math.gcd(*(at - min(moments) for at in moments))) if len(moments) > 1 else BUCKET_US


def _lane(series: str, scope: str, columns: Mapping[int, Column], grid: Grid) -> Lane:
    total = sum(map(Counter, columns.values()), Counter[int]())
    ratio = bin_ratio(sorted(total))
    low = math.floor(math.log10(min(total)))
    high = max(low + 1, math.ceil(math.log10(max(total) * ratio) - 1e-9))
    texts = [_summary(columns[slot], ratio) if slot in columns else None for slot in range(max(columns) + 1)]
    return Lane(
        f"latency:{series}:{scope}",
        scope,
        sub=LABELS[series],
        note=_summary(total, ratio),
        kind="heat",
        box=grid.box,
        paths=_paths(columns, ratio, low, high),
        ticks=[(1 - (d - low) / (high - low), decade(d)) for d in range(low, high + 1)],
        numbers={**grid.data, "texts": texts},
    )


def decade(exponent: int) -> str:
    """Format a power of ten of microseconds: `100 µs`, `10 ms`, `100 s`."""
    unit, least = next((u, e) for u, e in (("s", 6), ("ms", 3), ("µs", 0)) if exponent >= e)
    return f"{10 ** (exponent - least):,} {unit}"


def bin_ratio(bins: list[int]) -> float:
    """Return the ratio of adjacent lower edges of bins, from bins wide enough to ignore rounding."""
    wide = [b for b in bins if b >= 100] or bins
    ratios = [b / a for a, b in pairwise(wide) if b / a > 1.02]
    return min(min(ratios, default=2.0), 10.0)


def percentile(column: Column, share: float, ratio: float) -> float:
    """Return the middle of the bin that contains a percentile."""
    left = share * sum(column.values())
    for edge in sorted(column):
        left -= column[edge]
        if left <= 0:
            return edge * math.sqrt(ratio)
    raise ValueError("a column without records has no percentiles")


def _summary(column: Column, ratio: float) -> str:
    p50, p99 = (duration(percentile(column, share, ratio)) for share in (0.5, 0.99))
    return f"p50 ~{p50} · p99 ~{p99} · {count(sum(column.values()), 'record')}"


def _paths(columns: Mapping[int, Column], ratio: float, low: int, high: int) -> list[tuple[str, str]]:
    """Return a path for each colour level, and lines for the median and the 99th percentile."""
    scale = HEIGHT / (high - low)
    tall = max(1, round(math.log10(ratio) * scale))

    def y(us: float) -> int:
        return HEIGHT - round((math.log10(us) - low) * scale)

    paths = [
        (f"heat{level}", "".join(f"M{slot} {y(edge) - tall}h{n}v{tall}h-{n}z" for edge, slot, n in runs))
        for level, runs in enumerate(_runs(columns))
    ]
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        line = ""
        for slot in sorted(columns):
            at = y(percentile(columns[slot], share, ratio))
            line += f"V{at}h1" if slot - 1 in columns else f"M{slot} {at}h1"
        paths.append((name, line))
    return paths


def _runs(columns: Mapping[int, Column]) -> list[list[tuple[int, int, int]]]:
    """Return adjacent cells as (bin, first slot, number of slots), by colour level."""
    cells = sorted((edge, slot, n) for slot, column in columns.items() for edge, n in column.items())
    deepest = math.log1p(max(n for _, _, n in cells))
    runs: list[list[tuple[int, int, int]]] = [[] for _ in range(LEVELS)]
    for edge, slot, n in cells:
        run = runs[min(LEVELS - 1, int(math.log1p(n) / deepest * LEVELS))]
        if run and run[-1][0] == edge and run[-1][1] + run[-1][2] == slot:
            run[-1] = (edge, run[-1][1], run[-1][2] + 1)
        else:
            run.append((edge, slot, 1))
    return runs
