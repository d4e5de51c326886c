"""Equal slots of the time axis, for the buckets of the audit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from checks.report.lanes import Axis

HEIGHT = 400
"""Height of a drawing in SVG units; the page stretches it."""


@dataclass(frozen=True)
class Grid:
    """Slots of `width_us`, aligned to multiples of their width since the epoch like the buckets of the audit."""

    axis: Axis
    width_us: int

    @classmethod
    def over(cls, axis: Axis, bucket_us: int, most: int) -> Grid:
        """Return the grid with the narrowest multiple of a bucket and at most `most` slots."""
        buckets = (axis.end_us - axis.begin_us) / bucket_us
        return cls(axis, bucket_us * max(1, math.ceil(buckets / most)))

    @cached_property
    def first(self) -> int:
        """Number of the first slot of the axis, counted from the epoch."""
        return self.axis.begin_us // self.width_us

    @cached_property
    def slots(self) -> int:
        """Number of slots that overlap the axis."""
        return (self.axis.end_us - 1) // self.width_us - self.first + 1

    def sums(self, rows: pa.Table, keys: list[str], value: str, how: str) -> list[dict[str, Any]]:
        """Aggregate rows by keys and `slot` (0 is the first slot of the axis), without rows outside the axis."""
        slot = pc.subtract(pc.divide(rows["at_us"], self.width_us), self.first)
        rows = rows.append_column("slot", slot)
        rows = rows.filter(pc.and_(pc.greater_equal(slot, 0), pc.less(slot, self.slots)))
        gathered = rows.group_by([*keys, "slot"]).aggregate([(value, how)]).rename_columns([*keys, "slot", "value"])
        slots: list[dict[str, Any]] = gathered.to_pylist()
        return slots

    def data(self) -> dict[str, float]:
        """Return the width of a slot, and the part of the first slot before the axis, both in seconds."""
        lead = self.axis.begin_us - self.first * self.width_us
        return {"step": self.width_us / 1e6, "lead": round(lead / 1e6, 6)}

    def svg(self, paths: str) -> Markup:
        """Return a drawing in which a slot is one unit wide. paths: trusted markup without foreign text."""
        begin = self.axis.begin_us / self.width_us - self.first
        length = (self.axis.end_us - self.axis.begin_us) / self.width_us
        box = f"{begin:.4f} 0 {length:.4f} {HEIGHT}"
        return Markup(f'<svg viewBox="{box}" preserveAspectRatio="none" aria-hidden="true">{paths}</svg>')
