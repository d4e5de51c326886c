"""Equal parts of the time axis, for what the audit counted in buckets."""

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
"""Units of height of a drawing; the page stretches it."""


@dataclass(frozen=True)
class Grid:
    """Slots of `width_us`. They begin at multiples of their width since the epoch, as the audit's buckets do."""

    axis: Axis
    width_us: int

    @classmethod
    def over(cls, axis: Axis, bucket_us: int, most: int) -> Grid:
        """The narrowest multiple of a bucket that needs no more than so many slots."""
        buckets = (axis.end_us - axis.begin_us) / bucket_us
        return cls(axis, bucket_us * max(1, math.ceil(buckets / most)))

    @cached_property
    def first(self) -> int:
        """The slot in which the axis begins, counted from the epoch."""
        return self.axis.begin_us // self.width_us

    @cached_property
    def slots(self) -> int:
        """How many slots the axis touches."""
        return (self.axis.end_us - 1) // self.width_us - self.first + 1

    def sums(self, rows: pa.Table, keys: list[str], value: str, how: str) -> list[dict[str, Any]]:
        """Rows gathered by keys and `slot`, counted from the first; what lies outside the axis is left out."""
        slot = pc.subtract(pc.divide(rows["at_us"], self.width_us), self.first)
        rows = rows.append_column("slot", slot)
        rows = rows.filter(pc.and_(pc.greater_equal(slot, 0), pc.less(slot, self.slots)))
        gathered = rows.group_by([*keys, "slot"]).aggregate([(value, how)]).rename_columns([*keys, "slot", "value"])
        found: list[dict[str, Any]] = gathered.to_pylist()
        return found

    def data(self) -> dict[str, float]:
        """What the crosshair needs to find a slot: their width, and how much of the first lies before the axis."""
        lead = self.axis.begin_us - self.first * self.width_us
        return {"step": self.width_us / 1e6, "lead": round(lead / 1e6, 6)}

    def svg(self, paths: str) -> Markup:
        """A drawing in which a slot is one unit wide. `paths` must hold nothing but our own markup and numbers."""
        begin = self.axis.begin_us / self.width_us - self.first
        length = (self.axis.end_us - self.axis.begin_us) / self.width_us
        box = f"{begin:.4f} 0 {length:.4f} {HEIGHT}"
        return Markup(f'<svg viewBox="{box}" preserveAspectRatio="none" aria-hidden="true">{paths}</svg>')
