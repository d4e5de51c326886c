"""Curves of records per second and of lag, as SVG steps over equal slots of the time axis.

Periods without records are zero.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checks.report.lanes import Axis, Lane
from checks.report.text import natural, number, short

BUCKET_US = 250_000
"""Width of one bucket of `audit/series`."""
MOST_BUCKETS = 1_400
"""Maximum number of buckets, about the width of a screen; longer runs use wider buckets."""

BURST = 10
"""Factor on the median beyond which a rate is a burst."""

Values = Sequence[float | None]
HEIGHT = 400
"""Height of a drawing in SVG units; the page stretches it."""


class Grid:
    """Slots of equal width, aligned to multiples of their width since the epoch like the buckets of the audit.

    width_us: the narrowest multiple of a bucket that gives at most `most` slots; slots: number of slots that overlap
    the axis; box: viewBox of a drawing in which a slot is one unit wide; data: width of a slot, and part of the first
    slot before the axis, both in seconds.
    """

    def __init__(self, axis: Axis, bucket_us: int, most: int) -> None:
        length_us = axis.end_us - axis.begin_us
        self.width_us = bucket_us * max(1, math.ceil(length_us / bucket_us / most))
        self._first = axis.begin_us // self.width_us
        self.slots = (axis.end_us - 1) // self.width_us - self._first + 1
        lead_us = axis.begin_us - self._first * self.width_us
        self.box = f"{lead_us / self.width_us:.4f} 0 {length_us / self.width_us:.4f} {HEIGHT}"
        self.data = {"step": self.width_us / 1e6, "lead": round(lead_us / 1e6, 6)}

    def sums(self, table: pa.Table, series: str, keys: list[str], value: str, how: str) -> list[dict[str, Any]]:
        """Aggregate a series by keys and `slot` (0 is the first slot of the axis), without rows outside the axis."""
        rows = table.filter(pc.equal(table["series"], series))
        slot = pc.subtract(pc.divide(rows["at_us"], self.width_us), self._first)
        rows = rows.append_column("slot", slot)
        rows = rows.filter(pc.and_(pc.greater_equal(slot, 0), pc.less(slot, self.slots)))
        gathered = rows.group_by([*keys, "slot"]).aggregate([(value, how)]).rename_columns([*keys, "slot", "value"])
        slots: list[dict[str, Any]] = gathered.to_pylist()
        return slots


def rate_lanes(table: pa.Table, series: str, label: str, axis: Axis) -> list[Lane]:
    """Return a lane of records per second for each scope of `acked` or `delivered`, with a common scale."""
    grid = Grid(axis, BUCKET_US, MOST_BUCKETS)
    rates: dict[str, Values] = {
        scope: [by_slot.get(slot, 0.0) * 1e6 / grid.width_us for slot in range(grid.slots)]
        for scope, by_slot in _bucketed(table, series, grid, "sum").items()
    }
    top = ceiling([v for values in rates.values() for v in values if v])
    return [_lane(f"{series}:{scope}", scope, label, "/s", values, top, grid) for scope, values in rates.items()]


def ceiling(values: list[float]) -> float:
    """Return the upper end of a scale. It cuts off short bursts, which would flatten everything else."""
    most = max(values, default=0.0)
    usual = statistics.median(values) if values else 0.0
    return nice_ceiling(most if most <= BURST * usual else BURST / 2 * usual)


def lag_lanes(table: pa.Table, axis: Axis) -> list[Lane]:
    """Return a lane of lag for each reader; the last sample holds until the next one."""
    grid = Grid(axis, BUCKET_US, MOST_BUCKETS)
    lanes = []
    for scope, by_slot in _bucketed(table, "lag", grid, "max").items():
        values: list[float | None] = []
        for slot in range(max(by_slot) + 1):
            values.append(by_slot.get(slot, values[-1] if values else None))
        lanes.append(_lane(f"lag:{scope}", scope, "lag", " records", values, nice_ceiling(max(by_slot.values())), grid))
    return lanes


def _bucketed(table: pa.Table, series: str, grid: Grid, how: str) -> dict[str, dict[int, float]]:
    """Return the value of each slot, by scope."""
    by_scope: dict[str, dict[int, float]] = {}
    for row in grid.sums(table, series, ["scope"], "value", how):
        if row["value"] is not None:
            by_scope.setdefault(row["scope"] or "all", {})[row["slot"]] = row["value"]
    return {scope: by_scope[scope] for scope in sorted(by_scope, key=natural)}


def _lane(key: str, scope: str, label: str, unit: str, values: Values, top: float, grid: Grid) -> Lane:
    most = max((v for v in values if v is not None), default=0.0)
    return Lane(
        key,
        scope,
        sub=label,
        note=f"max {number(most)}{unit}",
        kind="curve",
        box=grid.box,
        paths=_paths(values, top),
        ticks=[(0.0, short(top) + (" ↑" if most > top * 1.01 else "")), (1.0, "0")],
        numbers={**grid.data, "unit": unit, "values": [None if v is None else round(v) for v in values]},
    )


def nice_ceiling(value: float) -> float:
    """Round up to 1, 2, 2.5 or 5 times a power of ten, for the label of the axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999)


def _paths(values: Values, top: float) -> list[tuple[str, str]]:
    """Return the area below a step line, and the line; neither without values."""
    line, first, level = "", 0, 0
    for slot, value in enumerate(values):
        if value is None:
            continue
        height = HEIGHT - round(min(1.0, value / top) * HEIGHT)
        if not line:
            line, first = f"M{slot} {height}", slot
        elif height != level:
            line += f"H{slot}V{height}"
        level = height
    line += f"H{len(values)}"
    return [("area", f"{line}V{HEIGHT}H{first}Z"), ("line", line)] if line.startswith("M") else []
