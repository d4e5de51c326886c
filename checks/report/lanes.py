"""Parts of a lane of the timeline, and the time axis of all lanes.

Positions are seconds from the beginning of the axis. CSS multiplies them by the zoom, so each lane is drawn once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

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


def look(index: int) -> str:
    """Return the colour of the n-th broker or member; after the last colour, colours repeat with stripes."""
    return f"c{index % COLOURS}" + (" striped" if index // COLOURS % 2 else "")
