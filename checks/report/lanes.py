"""What a lane of the picture is made of, and the one time axis that all lanes share.

Positions are seconds from the begin of the axis. The page multiplies them by the zoom in CSS, so a lane is drawn once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import Markup

SHOWN = 16
"""Partitions of one strip group that are drawn openly; the rest is folded away."""
FOLDED = 80
"""Partitions of one strip group that are drawn in the fold; of what is beyond that only the number is told."""
MOST_SEGMENTS = 3_000
"""Stretches of one strip group, beyond which no more lanes are folded in."""

Shape = Literal["write", "read", "group"]


@dataclass(frozen=True)
class Axis:
    """The shared time axis: its two ends, in us since the epoch."""

    begin_us: int
    end_us: int

    @property
    def total(self) -> float:
        """Length in seconds."""
        return (self.end_us - self.begin_us) / 1e6

    def at(self, us: int) -> float:
        """The position of a moment; what lies outside is put on the edge."""
        return round((min(max(us, self.begin_us), self.end_us) - self.begin_us) / 1e6, 3)


@dataclass(frozen=True)
class Segment:
    """A stretch of a strip. `text` is its label, `words` what the readout says, `look` its colour or pattern."""

    begin: float
    end: float
    text: str
    words: str
    look: str
    fill: float = 1.0

    @property
    def width(self) -> float:
        """Length in seconds."""
        return round(self.end - self.begin, 3)


@dataclass(frozen=True)
class Dot:
    """Anomalies of one kind at one place on a lane, leading to their rows. `broke`: against the contract.

    `reach`: from the first to the last of them. `capped`: there were more, of which no rows were kept.
    """

    at: float
    href: str
    words: str
    count: int
    shape: Shape
    broke: bool
    reach: float = 0.0
    capped: bool = False

    @property
    def number(self) -> str:
        """`37`, or `200+`; empty for a single one."""
        return f"{self.count:,}{'+' * self.capped}" if self.count > 1 or self.capped else ""


@dataclass
class Lane:
    """One row of the picture. `readout` is what the crosshair looks up; `note` stands there until it does."""

    key: str
    label: str
    sub: str = ""
    note: str = ""
    kind: Literal["strip", "curve", "heat", "fault"] = "strip"
    segments: list[Segment] = field(default_factory=list)
    drawing: Markup | str = ""
    ticks: list[tuple[float, str]] = field(default_factory=list)
    numbers: dict[str, Any] | None = None
    dots: list[Dot] = field(default_factory=list)
    proven: float | None = None
    number: int = 0

    def readout(self) -> dict[str, Any]:
        """The values under the crosshair: stretches with words, or evenly spaced numbers."""
        if self.numbers is not None:
            return self.numbers
        words = list(dict.fromkeys(s.words for s in self.segments))
        index = {w: i for i, w in enumerate(words)}
        return {"words": words, "spans": [[s.begin, s.end, index[s.words]] for s in self.segments]}


@dataclass
class Band:
    """A titled group of lanes. `folded` are those of little news; `undrawn` is how many more there are."""

    title: str
    hint: str
    lanes: list[Lane]
    folded: list[Lane] = field(default_factory=list)
    undrawn: int = 0

    def every(self) -> list[Lane]:
        """All drawn lanes."""
        return [*self.lanes, *self.folded]


def fold(lanes: Sequence[Lane], shown: int = SHOWN, folded: int = FOLDED) -> tuple[list[Lane], list[Lane], int]:
    """Part lanes into those with the most to tell, in their own order, those to fold away, and a number beyond that."""
    by_news = sorted(lanes, key=lambda lane: (not lane.dots, -len(lane.segments)))
    room, drawn = MOST_SEGMENTS, 0
    for lane in by_news[: shown + folded]:
        room -= len(lane.segments)
        if room < 0 and drawn >= shown:
            break
        drawn += 1
    first, second = ({lane.key for lane in some} for some in (by_news[:shown], by_news[shown:drawn]))
    return [ln for ln in lanes if ln.key in first], [ln for ln in lanes if ln.key in second], len(lanes) - drawn


COLOURS = 6


def look(index: int) -> str:
    """The colour of the n-th broker or member; after the last colour they come again with stripes."""
    return f"c{index % COLOURS}" + (" striped" if index // COLOURS % 2 else "")
