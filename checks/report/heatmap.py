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
from checks.report.words import count, duration, natural

MOST_COLUMNS = 300
LEVELS = 5
LABELS = {"ack": "ack latency", "end_to_end": "end to end"}

Column = dict[int, int]
"""Lower edge of a bin in us -> records in it."""


def latency_lanes(table: pa.Table, series: str, axis: Axis) -> list[Lane]:
    """A heat map for each scope of `ack` or `end_to_end`."""
    scopes = len(pc.unique(table["scope"]))
    width = bucket_us(axis, MOST_COLUMNS if scopes <= 6 else MOST_COLUMNS // 2)
    found = _columns(table, series, axis, width)
    return [_lane(series, scope, found[scope], width, axis) for scope in sorted(found, key=natural)]


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
    return Markup(  # numbers only
        f'<svg viewBox="0 0 {axis.total * 1e6 / width:.4f} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f"{paths}{lines}</svg>"
    )


def _runs(columns: Mapping[int, Column]) -> list[list[tuple[int, int, int]]]:
    """By level of depth: (bin, first slot, number of slots) of cells beside each other."""
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
