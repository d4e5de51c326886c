"""The charts of all pages, as SVG: lanes on one time axis (strips, step curves, heat maps, dots), lines, and diagrams.

    Axis        the time axis that the lanes of a page share
    Lane        one row: a strip of `Segment`, or a drawing with its scale; `Dot` are its links to anomalies
    Band        a titled group of lanes, folded by `fold`
    Line        a value over runs, with levels and marks
    Diagram     frames between instances and brokers, in their order

Positions are seconds from the beginning of the axis. CSS multiplies them by the zoom, so each lane is drawn once.
Curves show periods without records as zero. A heat map shows latency on a logarithmic scale, with the number of records
as colour: an average would hide the effect of a fault, since most records stay fast while some wait for an election.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from chaos.report.text import count, duration, natural, number, short
from chaos.run.result import Frame

SHOWN = 16
"""Lanes of a band that are visible at first."""
FOLDED = 80
"""Maximum number of folded lanes of a band; the page shows only the number of further lanes."""
MOST_SEGMENTS = 3_000
"""Maximum number of segments in the lanes of a band."""

Shape = Literal["write", "read", "group"]


@dataclass(frozen=True)
class Axis:
    """The time axis of all lanes: its ends in us since the epoch."""

    begin_us: int
    end_us: int

    @property
    def total(self) -> float:
        """Length in seconds."""
        return (self.end_us - self.begin_us) / 1e6

    def at(self, us: int) -> float:
        """Return the position of a time; times outside the axis move to its edge."""
        return round((min(max(us, self.begin_us), self.end_us) - self.begin_us) / 1e6, 3)


@dataclass(frozen=True)
class Segment:
    """A segment of a strip. text: its label; details: the text under the crosshair; look: its colour or pattern."""

    begin: float
    end: float
    text: str
    details: str
    look: str
    fill: float = 1.0

    @property
    def width(self) -> float:
        """Length in seconds."""
        return round(self.end - self.begin, 3)


@dataclass(frozen=True)
class Dot:
    """Anomalies of one kind that are close together on a lane, with a link to their rows.

    broke: whether they break the contract; reach: seconds from the first to the last; capped: whether there are more
    anomalies than rows.
    """

    at: float
    href: str
    details: str
    count: int
    shape: Shape
    broke: bool
    reach: float = 0.0
    capped: bool = False

    @property
    def number(self) -> str:
        """The label: `37` or `200+`; empty for a single anomaly."""
        return f"{self.count:,}{'+' * self.capped}" if self.count > 1 or self.capped else ""


@dataclass
class Lane:
    """One row of the timeline.

    note: the text without a crosshair; box, paths: viewBox of a drawing, and look and data of its SVG paths; numbers:
    values under the crosshair if the lane has no segments; proven: position of the proof of a fault.
    """

    key: str
    label: str
    sub: str = ""
    note: str = ""
    kind: Literal["strip", "curve", "heat", "fault"] = "strip"
    segments: list[Segment] = field(default_factory=list)
    box: str = ""
    paths: list[tuple[str, str]] = field(default_factory=list)
    ticks: list[tuple[float, str]] = field(default_factory=list)
    numbers: dict[str, Any] | None = None
    dots: list[Dot] = field(default_factory=list)
    proven: float | None = None
    number: int = 0

    def readout(self) -> dict[str, Any]:
        """Return the values under the crosshair: segments with their text, or evenly spaced numbers."""
        if self.numbers is not None:
            return self.numbers
        texts = list(dict.fromkeys(s.details for s in self.segments))
        index = {text: i for i, text in enumerate(texts)}
        return {"texts": texts, "spans": [[s.begin, s.end, index[s.details]] for s in self.segments]}


@dataclass
class Band:
    """A titled group of lanes. folded: lanes with few changes; undrawn: number of lanes that are not drawn."""

    title: str
    hint: str
    lanes: list[Lane]
    folded: list[Lane] = field(default_factory=list)
    undrawn: int = 0

    def drawn(self) -> list[Lane]:
        """Return all drawn lanes."""
        return [*self.lanes, *self.folded]


def fold(title: str, hint: str, lanes: Sequence[Lane], shown: int = SHOWN, folded: int = FOLDED) -> Band:
    """Return a band with the lanes in their order, in which those with the most changes are visible."""
    by_changes = sorted(lanes, key=lambda lane: (not lane.dots, -len(lane.segments)))
    room, drawn = MOST_SEGMENTS, 0
    for lane in by_changes[: shown + folded]:
        room -= len(lane.segments)
        if room < 0 and drawn >= shown:
            break
        drawn += 1
    first, second = ({lane.key for lane in part} for part in (by_changes[:shown], by_changes[shown:drawn]))
    visible, hidden = ([lane for lane in lanes if lane.key in keys] for keys in (first, second))
    return Band(title, hint, visible, hidden, len(lanes) - drawn)


COLOURS = 6


def colour(index: int) -> str:
    """Return the colour of the n-th broker or member; after the last colour, colours repeat with stripes."""
    return f"c{index % COLOURS}" + (" striped" if index // COLOURS % 2 else "")


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
    return [_curve(f"{series}:{scope}", scope, label, "/s", values, top, grid) for scope, values in rates.items()]


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
        top = nice_ceiling(max(by_slot.values()))
        lanes.append(_curve(f"lag:{scope}", scope, "lag", " records", values, top, grid))
    return lanes


def _bucketed(table: pa.Table, series: str, grid: Grid, how: str) -> dict[str, dict[int, float]]:
    """Return the value of each slot, by scope."""
    by_scope: dict[str, dict[int, float]] = {}
    for row in grid.sums(table, series, ["scope"], "value", how):
        if row["value"] is not None:
            by_scope.setdefault(row["scope"] or "all", {})[row["slot"]] = row["value"]
    return {scope: by_scope[scope] for scope in sorted(by_scope, key=natural)}


def _curve(key: str, scope: str, label: str, unit: str, values: Values, top: float, grid: Grid) -> Lane:
    most = max((v for v in values if v is not None), default=0.0)
    return Lane(
        key,
        scope,
        sub=label,
        note=f"max {number(most)}{unit}",
        kind="curve",
        box=grid.box,
        paths=_steps(values, top),
        ticks=[(0.0, short(top) + (" ↑" if most > top * 1.01 else "")), (1.0, "0")],
        numbers={**grid.data, "unit": unit, "values": [None if v is None else round(v) for v in values]},
    )


def nice_ceiling(value: float) -> float:
    """Round up to 1, 2, 2.5 or 5 times a power of ten, for the label of the axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999)


def _steps(values: Values, top: float) -> list[tuple[str, str]]:
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
    return [_heat_map(series, scope, by_scope[scope], grid) for scope in sorted(by_scope, key=natural)]


def column_us(table: pa.Table) -> int:
    """Return the width of the columns of the audit, which depends on the length of the run."""
    moments = pc.drop_null(pc.unique(table["at_us"])).to_pylist()
    return max(BUCKET_US, math.gcd(*(at - min(moments) for at in moments))) if len(moments) > 1 else BUCKET_US


def _heat_map(series: str, scope: str, columns: Mapping[int, Column], grid: Grid) -> Lane:
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
        paths=_cells(columns, ratio, low, high),
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


def _cells(columns: Mapping[int, Column], ratio: float, low: int, high: int) -> list[tuple[str, str]]:
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


LINE_WIDTH, LINE_HEIGHT, LINE_EDGE = 300, 48, 5
"""Size of a line in SVG units, and the room around it; the page scales it."""


@dataclass(frozen=True)
class Line:
    """A value over runs. levels: name and height of horizontal lines; curve: path data; marks: look, x and y."""

    levels: list[tuple[str, float]]
    curve: str
    marks: list[tuple[str, float, float]]
    width: int = LINE_WIDTH
    height: int = LINE_HEIGHT


def draw_line(
    values: Sequence[int | None], hollow: Sequence[bool], beyond: Sequence[bool], levels: Mapping[str, int]
) -> Line:
    """Draw the value of each run; the last one and those beyond the bound have marks.

    hollow: runs that do not count, which the curve leaves out. At a run without a value the curve has a gap.
    """
    top = max([v for v in (*values, levels.get("bound")) if v is not None], default=0) * 1.08 or 1
    step = (LINE_WIDTH - 2 * LINE_EDGE) / max(1, len(values) - 1)

    def height(value: int) -> float:
        return LINE_HEIGHT - LINE_EDGE - value / top * (LINE_HEIGHT - 2 * LINE_EDGE)

    curve, marks, pen = "", [], "M"
    for i, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        x, y = LINE_EDGE + i * step, height(value)
        if not hollow[i]:
            curve += f"{pen}{x:.1f} {y:.1f}"
            pen = "L"
        look = "hollow" if hollow[i] else "beyond" if beyond[i] else "last" if i == len(values) - 1 else ""
        if look:
            marks.append((look, x, y))
    return Line([(name, height(value)) for name, value in levels.items()], curve, marks)


PARTY_WIDTH, CLOCK_WIDTH, ROW, HEAD = 190, 84, 30, 40
"""Size of a diagram in SVG units: width of a party and of the times, height of a row and of the names."""
_BROKERS = ("broker ", "coordinator")


@dataclass(frozen=True)
class Arrow:
    """A frame in a diagram: from x to x at the height of y; an event of one party, if both are the same.

    between: the names of the parties, as text.
    """

    y: int
    begin: int
    end: int
    time: str
    label: str
    between: str

    @property
    def middle(self) -> int:
        """Where the label is."""
        return (self.begin + self.end) // 2

    @property
    def head(self) -> str:
        """The points of the tip."""
        back = -8 if self.end > self.begin else 8
        return f"{self.end},{self.y} {self.end + back},{self.y - 4} {self.end + back},{self.y + 4}"


@dataclass(frozen=True)
class Diagram:
    """What instances and brokers said to each other: a vertical line for each, and an arrow for each frame in order."""

    parties: list[tuple[str, int]]
    arrows: list[Arrow]

    @property
    def width(self) -> int:
        """Width in SVG units."""
        return CLOCK_WIDTH + PARTY_WIDTH * len(self.parties)

    @property
    def height(self) -> int:
        """Height in SVG units."""
        return HEAD + ROW * len(self.arrows) + ROW // 2


def draw_diagram(frames: Sequence[Frame], began_us: int) -> Diagram:
    """Draw frames in the order of time: instances first, then brokers, then coordinators."""
    names = dict.fromkeys(name for frame in frames for name in (frame.source, frame.target) if name)
    rank = {name: next((i + 1 for i, word in enumerate(_BROKERS) if name.startswith(word)), 0) for name in names}
    ordered = sorted(names, key=lambda name: rank[name])
    parties = {name: CLOCK_WIDTH + PARTY_WIDTH * i + PARTY_WIDTH // 2 for i, name in enumerate(ordered)}
    arrows = [
        Arrow(
            HEAD + ROW * i + ROW * 3 // 4,
            parties[frame.source],
            parties[frame.target or frame.source],
            f"{(frame.at_us - began_us) / 1e6:,.3f} s",
            frame.label,
            " → ".join(filter(None, (frame.source, frame.target))),
        )
        for i, frame in enumerate(sorted(frames, key=lambda frame: frame.at_us))
    ]
    return Diagram(list(parties.items()), arrows)
