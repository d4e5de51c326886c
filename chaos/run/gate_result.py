"""Typed model of `campaign.json` of a gate: the cells of a gate, their runs, and the comparisons of their times.

A later gate uses it as a baseline, and the pages of a gate are drawn from it alone.
"""

from __future__ import annotations

from typing import Literal

from chaos.run.campaign import Campaign, Data, Kind, Part
from chaos.run.result import MetricKey

Mark = Literal["slower", "within", "undecided", "too few"]

MARKS: dict[Mark, str] = {
    "slower": "shown to be beyond the margin",
    "within": "shown to be within the margin",
    "undecided": "neither shown to be beyond the margin nor to be within it",
    "too few": "measured too rarely to show anything",
}


class Key(Data):
    """Coordinates of a cell on the axes of the matrix. scenario may be `name/variant`."""

    scenario: str
    kafka: str
    client: str
    settings: str

    @property
    def name(self) -> str:
        """`leader-kill, Kafka 4.3.1, client 2.16.1, acks-all`."""
        settings = "" if self.settings == "default" else f", {self.settings}"
        return f"{self.scenario}, Kafka {self.kafka}, client {self.client}{settings}"


class LeftOut(Data):
    """A cell that cannot run, and why: its client library lacks what the scenario asks for."""

    key: Key
    reason: str


class Cell(Part):
    """One cell with its runs. setup: a digest of the scenario without the releases."""

    name: str = ""
    number: int
    key: Key
    setup: str
    reference: bool = False
    """Whether other cells of this matrix are compared with it."""


class TimeComparison(MetricKey, Data):
    """One time of a cell compared with the baseline or a reference cell.

    cell: number of the cell; against: name of the other side; now, then: number of values on each side; median_us,
    was_us: medians; slower_p, within_p: p-values of the two tests in `chaos.run.ranks`.
    """

    cell: int
    against: str
    margin: float
    now: int
    then: int
    median_us: float | None
    was_us: float | None
    slower_p: float | None
    within_p: float | None
    mark: Mark
    words: str

    @property
    def ratio(self) -> float | None:
        """The median now divided by the median then."""
        return self.median_us / self.was_us if self.median_us is not None and self.was_us else None


class GateResult(Campaign):
    """`campaign.json` of a gate. compared_with: name of the baseline or reference; empty if times were not compared."""

    kind: Kind = "gate"
    gate: str
    margin: float
    confidence: float
    compared_with: str
    cells: list[Cell]
    left_out: list[LeftOut] = []
    comparisons: list[TimeComparison]

    def cell(self, number: int) -> Cell:
        """Return the cell with this number."""
        return next(cell for cell in self.cells if cell.number == number)

    def comparisons_of(self, cell: Cell) -> list[TimeComparison]:
        """Return the comparisons of a cell."""
        return [c for c in self.comparisons if c.cell == cell.number]
