"""Heat maps of latency: time on the x axis, latency on a logarithmic y axis, number of records as colour.

An average would hide the effect of a fault: most records stay fast while some wait for an election.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from checks.report.curves import BUCKET_US, HEIGHT, Grid
from checks.report.lanes import Axis, Lane
from checks.report.text import count, duration, natural

MOST_COLUMNS = 300
MANY = 6
"""Number of scopes beyond which each map has half the columns."""
LEVELS = 5
LABELS = {"ack": "ack latency", "end_to_end": "end to end"}

Column = dict[int, int]
"""Lower edge of a bin in us -> records in it."""


def latency_lanes(table: pa.Table, series: str, axis: Axis) -> list[Lane]:
    """Return a heat map for each scope of `ack` or `end_to_end`."""
    most = MOST_COLUMNS if len(pc.unique(table["scope"])) <= MANY else MOST_COLUMNS // 2
    grid = Grid.over(axis, column_us(table), most)
    by_scope: dict[str, dict[int, Column]] = defaultdict(lambda: defaultdict(dict))
    for row in grid.sums(table.filter(pc.equal(table["series"], series)), ["scope", "bin_us"], "count", "sum"):
        if row["value"] and row["bin_us"] is not None:
            by_scope[row["scope"] or "all"][row["slot"]][max(1, row["bin_us"])] = row["value"]
    return [_lane(series, scope, by_scope[scope], grid) for scope in sorted(by_scope, key=natural)]


def column_us(table: pa.Table) -> int:
    """Return the width of the columns of the audit, which depends on the length of the run."""
    moments = pc.drop_null(pc.unique(table["at_us"])).to_pylist()
    return max(BUCKET_US, math.gcd(*(at - min(moments) for at in moments))) if len(moments) > 1 else BUCKET_US


def _lane(series: str, scope: str, columns: Mapping[int, Column], grid: Grid) -> Lane:
    bins = sorted({edge for column in columns.values() for edge in column})
    ratio = bin_ratio(bins)
    low = math.floor(math.log10(bins[0]))
    high = max(low + 1, math.ceil(math.log10(bins[-1] * ratio) - 1e-9))
    total: Column = defaultdict(int)
    for column in columns.values():
        for edge, n in column.items():
            total[edge] += n
    texts = [_summary(columns[slot], ratio) if slot in columns else None for slot in range(max(columns) + 1)]
    return Lane(
        f"latency:{series}:{scope}",
        scope,
        sub=LABELS[series],
        note=_summary(total, ratio),
        kind="heat",
        drawing=_drawing(columns, ratio, (low, high), grid),
        ticks=[(1 - (d - low) / (high - low), decade(d)) for d in range(low, high + 1)],
        numbers={**grid.data(), "texts": texts},
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


def _drawing(columns: Mapping[int, Column], ratio: float, decades: tuple[int, int], grid: Grid) -> Markup:
    """Return a path for each colour level, and lines for the median and the 99th percentile."""
    low, high = decades
    scale = HEIGHT / (high - low)
    tall = max(1, round(math.log10(ratio) * scale))

    def y(us: float) -> int:
        return HEIGHT - round((math.log10(us) - low) * scale)

    paths = ""
    for level, runs in enumerate(_runs(columns)):
        cells = "".join(f"M{slot} {y(edge) - tall}h{n}v{tall}h-{n}z" for edge, slot, n in runs)
        paths += f'<path class="heat{level}" d="{cells}"/>'
    lines = ""
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        line = []
        for slot in sorted(columns):
            at = y(percentile(columns[slot], share, ratio))
            line.append(f"V{at}h1" if slot - 1 in columns else f"M{slot} {at}h1")
        lines += f'<path class="{name}" d="{"".join(line)}"/>'
    return grid.svg(paths + lines)


def _runs(columns: Mapping[int, Column]) -> list[list[tuple[int, int, int]]]:
    """Return adjacent cells as (bin, first slot, number of slots), by colour level."""
    deepest = math.log1p(max(n for column in columns.values() for n in column.values()))
    cells = {
        (edge, slot): min(LEVELS - 1, int(math.log1p(n) / deepest * LEVELS))
        for slot, column in columns.items()
        for edge, n in column.items()
    }
    runs: list[list[tuple[int, int, int]]] = [[] for _ in range(LEVELS)]
    for (edge, slot), level in sorted(cells.items()):
        last = runs[level][-1] if runs[level] else (0, 0, 0)
        if last[0] == edge and last[1] + last[2] == slot:
            runs[level][-1] = (edge, last[1], last[2] + 1)
        else:
            runs[level].append((edge, slot, 1))
    return runs
