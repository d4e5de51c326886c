"""Curves: records per second and lag, as SVG steps. Seconds without a record are drawn as zero, not bridged."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from checks.report.lanes import Axis, Lane
from checks.report.words import natural, number, short

BUCKET_US = 250_000
"""Width of one bucket of `audit/series`."""
MOST_BUCKETS = 1_400
"""Wider than this no screen is: longer runs are drawn in buckets of a multiple of the width."""
HEIGHT = 400
"""Units of height of a drawing; the page stretches it."""


def bucket_us(axis: Axis, most: int) -> int:
    """The narrowest multiple of the audit's bucket that keeps the axis within so many."""
    buckets = (axis.end_us - axis.begin_us) / BUCKET_US
    return BUCKET_US * max(1, math.ceil(buckets / most))


def rate_lanes(table: pa.Table, series: str, label: str, axis: Axis) -> list[Lane]:
    """A lane of records per second for each scope of `acked` or `delivered`, all on one scale."""
    width = bucket_us(axis, MOST_BUCKETS)
    slots = math.ceil((axis.end_us - axis.begin_us) / width)
    rates: dict[str, list[float | None]] = {
        scope: [found.get(i, 0.0) * 1e6 / width for i in range(slots)]
        for scope, found in _bucketed(table, series, axis, width, "sum").items()
    }
    top = nice_ceiling(max((v for values in rates.values() for v in values if v is not None), default=0.0))
    return [_lane(f"{series}:{scope}", scope, label, "/s", values, top, width, axis) for scope, values in rates.items()]


def lag_lanes(table: pa.Table, axis: Axis) -> list[Lane]:
    """A lane of lag for each reader; between two samples the last one holds."""
    width = bucket_us(axis, MOST_BUCKETS)
    lanes = []
    for scope, found in _bucketed(table, "lag", axis, width, "max").items():
        values: list[float | None] = []
        for i in range(max(found) + 1):
            values.append(found.get(i, values[-1] if values else None))
        top = nice_ceiling(max(found.values()))
        lanes.append(_lane(f"lag:{scope}", scope, "lag", " records", values, top, width, axis))
    return lanes


def _bucketed(table: pa.Table, series: str, axis: Axis, width: int, how: str) -> dict[str, dict[int, float]]:
    """By scope: the value of each bucket, numbered from the begin of the axis."""
    at = table["at_us"]
    inside = pc.and_(pc.greater_equal(at, axis.begin_us - width), pc.less(at, axis.end_us))
    rows = table.filter(pc.and_(pc.equal(table["series"], series), inside))
    # shifted by a whole bucket, so that the division rounds down for the bucket that the axis begins in
    slot = pc.subtract(pc.divide(pc.subtract(rows["at_us"], axis.begin_us - width), width), 1)
    slot = pc.max_element_wise(slot, 0)
    grouped = rows.append_column("slot", slot).group_by(["scope", "slot"]).aggregate([("value", how)])
    found: dict[str, dict[int, float]] = {}
    for row in grouped.to_pylist():
        if row[f"value_{how}"] is not None:
            found.setdefault(row["scope"] or "all", {})[row["slot"]] = row[f"value_{how}"]
    return {scope: found[scope] for scope in sorted(found, key=natural)}


def _lane(
    key: str, scope: str, label: str, unit: str, values: Sequence[float | None], top: float, width: int, axis: Axis
) -> Lane:
    most = max((v for v in values if v is not None), default=0.0)
    return Lane(
        key,
        scope,
        sub=label,
        note=f"max {number(most)}{unit}",
        kind="curve",
        drawing=_drawing(values, top, width, axis),
        ticks=[(0.0, short(top)), (1.0, "0")],
        numbers={"step": width / 1e6, "unit": unit, "values": [None if v is None else round(v) for v in values]},
    )


def nice_ceiling(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten, so that the axis can be labelled."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999)


def _drawing(values: Sequence[float | None], top: float, width: int, axis: Axis) -> Markup:
    """One step line and the area under it, a unit wide per bucket. Only numbers go into the markup."""
    heights = [None if v is None else HEIGHT - round(v / top * HEIGHT) for v in values]
    first = next((i for i, h in enumerate(heights) if h is not None), None)
    if first is None:
        return Markup()
    level = heights[first]
    line = [f"M{first} {level}"]
    for slot, height in enumerate(heights[first:], start=first):
        if height != level:
            line.append(f"H{slot}V{height}")
            level = height
    path = "".join(line) + f"H{len(heights)}"
    return Markup(  # numbers only
        f'<svg viewBox="0 0 {axis.total * 1e6 / width:.4f} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="area" d="{path}V{HEIGHT}H{first}Z"/><path class="line" d="{path}"/></svg>'
    )
