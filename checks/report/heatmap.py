"""Latency as a heat map: time across, latency up on a logarithmic scale, the number of records as depth of colour.

An average would hide what a fault does: most records stay fast while some wait for an election.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from checks.report.curves import HEIGHT, bucket_us
from checks.report.lanes import Axis, Lane
from checks.report.words import count, duration

MOST_COLUMNS = 300
LEVELS = 5
LABELS = {"ack": "ack latency", "end_to_end": "end to end"}

Column = dict[int, int]
"""Lower edge of a bin in us -> records in it."""


def latency_lanes(table: pa.Table, series: str, axis: Axis) -> list[Lane]:
    """A heat map for each scope of `ack` or `end_to_end`."""
    width = bucket_us(axis, MOST_COLUMNS)
    return [
        _lane(series, scope, columns, width, axis)
        for scope, columns in sorted(_columns(table, series, axis, width).items())
    ]


def _columns(table: pa.Table, series: str, axis: Axis, width: int) -> dict[str, dict[int, Column]]:
    at = table["at_us"]
    inside = pc.and_(pc.greater_equal(at, axis.begin_us - width), pc.less(at, axis.end_us))
    rows = table.filter(pc.and_(pc.equal(table["series"], series), inside))
    slot = pc.max_element_wise(pc.subtract(pc.divide(pc.subtract(rows["at_us"], axis.begin_us - width), width), 1), 0)
    grouped = rows.append_column("slot", slot).group_by(["scope", "slot", "bin_us"]).aggregate([("count", "sum")])
    found: dict[str, dict[int, Column]] = defaultdict(lambda: defaultdict(dict))
    for row in grouped.to_pylist():
        if row["count_sum"] and row["bin_us"] is not None:
            found[row["scope"] or "all"][row["slot"]][max(1, row["bin_us"])] = row["count_sum"]
    return found


def _lane(series: str, scope: str, columns: Mapping[int, Column], width: int, axis: Axis) -> Lane:
    bins = sorted({edge for column in columns.values() for edge in column})
    ratio = bin_ratio(bins)
    low = math.floor(math.log10(bins[0]))
    high = max(low + 1, math.ceil(math.log10(bins[-1] * ratio) - 1e-9))
    total: Column = defaultdict(int)
    for column in columns.values():
        for edge, n in column.items():
            total[edge] += n
    decades = [(1 - (d - low) / (high - low), duration(10.0**d)) for d in range(low, high + 1)]
    return Lane(
        f"latency:{series}:{scope}",
        scope,
        sub=LABELS[series],
        note=_words(total, ratio),
        kind="heat",
        drawing=_drawing(columns, ratio, (low, high), width, axis),
        ticks=decades,
        numbers={
            "step": width / 1e6,
            "texts": [_words(columns[i], ratio) if i in columns else None for i in range(max(columns) + 1)],
        },
    )


def bin_ratio(bins: list[int]) -> float:
    """The factor from one bin's lower edge to the next, seen where rounding no longer disturbs it."""
    wide = [b for b in bins if b >= 100] or bins
    ratios = [b / a for a, b in pairwise(wide) if b / a > 1.02]
    return min(min(ratios, default=2.0), 10.0)


def percentile(column: Column, share: float, ratio: float) -> float:
    """The middle of the bin in which a percentile lies."""
    left = share * sum(column.values())
    for edge in sorted(column):
        left -= column[edge]
        if left <= 0:
            return edge * math.sqrt(ratio)
    raise ValueError("a column without records has no percentiles")


def _words(column: Column, ratio: float) -> str:
    p50, p99 = (duration(percentile(column, share, ratio)) for share in (0.5, 0.99))
    return f"p50 ~{p50} · p99 ~{p99} · {count(sum(column.values()), 'record')}"


def _drawing(columns: Mapping[int, Column], ratio: float, decades: tuple[int, int], width: int, axis: Axis) -> Markup:
    """One path per level of depth, and lines for the median and the 99th percentile. Only numbers in the markup."""
    low, high = decades
    step, scale = width // 1000, HEIGHT / (high - low)
    deepest = math.log1p(max(n for column in columns.values() for n in column.values()))
    cells: dict[int, list[str]] = defaultdict(list)
    tall = math.log10(ratio) * scale
    for slot in sorted(columns):
        for edge, n in columns[slot].items():
            level = min(LEVELS - 1, int(math.log1p(n) / deepest * LEVELS))
            bottom = HEIGHT - (math.log10(edge) - low) * scale
            cells[level].append(f"M{slot * step} {bottom - tall:.1f}h{step}v{tall:.1f}h-{step}z")
    paths = "".join(f'<path class="heat{level}" d="{"".join(cells[level])}"/>' for level in sorted(cells))
    lines = ""
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        line = []
        for slot in sorted(columns):
            y = HEIGHT - (math.log10(percentile(columns[slot], share, ratio)) - low) * scale
            line.append(
                f"{'H' if slot - 1 in columns else 'M'}{slot * step}{'V' if slot - 1 in columns else ' '}{y:.1f}h{step}"
            )
        lines += f'<path class="{name}" d="{"".join(line)}"/>'
    return Markup(  # numbers only
        f'<svg viewBox="0 0 {round(axis.total * 1000)} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f"{paths}{lines}</svg>"
    )
