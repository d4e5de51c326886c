"""Typed model of `gate.json`: the cells of a gate, their runs, and the comparisons of their times.

A later gate uses it as a baseline, and the pages of a gate are drawn from it alone.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from chaos.run.result import Load, Metric, MetricKey, Verdict

FORMAT = 1
Mark = Literal["slower", "within", "undecided", "too few"]

MARKS: dict[Mark, str] = {
    "slower": "shown to be beyond the margin",
    "within": "shown to be within the margin",
    "undecided": "neither shown to be beyond the margin nor to be within it",
    "too few": "measured too rarely to show anything",
}


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Key(_Data):
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


class LeftOut(_Data):
    """A cell that cannot run, and why: its client library lacks what the scenario asks for."""

    key: Key
    reason: str


class CellRun(_Data):
    """One run of a cell. n: number of the repetition, from 1; report, bundle: paths relative to `gate.json`."""

    n: int
    seed: int
    verdict: Verdict
    sentence: str
    anomalies: dict[str, int] = {}
    times: list[Metric] = []
    load: Load = Load()
    kafka: str = ""
    client: str = ""
    """Releases as the brokers and clients reported them."""
    seconds: float = 0
    report: str = ""
    bundle: str = ""
    ran: bool = True
    """False if the run could not start because the machine lacks a requirement of the cell."""

    @property
    def conclusive(self) -> bool:
        """Whether the run has a verdict other than `inconclusive`."""
        return self.verdict != "inconclusive"


class Cell(_Data):
    """One cell with its runs.

    setup: a digest of the scenario without the releases; conclusive: number of conclusive runs; failed: number of runs
    that broke the contract; low, high: bounds of the share of runs that break the contract, at 95 % confidence.
    """

    number: int
    key: Key
    setup: str
    verdict: Verdict
    sentence: str
    runs: list[CellRun]
    failed: int
    conclusive: int = Field(validation_alias=AliasChoices("conclusive", "told"))  # told: results of earlier versions
    low: float
    high: float
    reference: bool = False
    """Whether other cells of this matrix are compared with it."""


class TimeComparison(MetricKey, _Data):
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


class Machine(_Data):
    """The machine of the measurement. Times of different machines are hardly comparable."""

    platform: str
    cpus: int


class GateResult(_Data):
    """`gate.json`."""

    format: int = FORMAT
    gate: str
    title: str
    verdict: Verdict
    sentence: str
    command: str
    machine: Machine
    made_us: int
    seed: int
    repeat: int
    margin: float
    confidence: float
    compared_with: str
    """Name of the baseline or reference; empty if times were not compared."""
    cells: list[Cell]
    left_out: list[LeftOut] = []
    comparisons: list[TimeComparison]
    notes: list[str]

    def cell(self, number: int) -> Cell:
        """Return the cell with this number."""
        return next(cell for cell in self.cells if cell.number == number)

    def comparisons_of(self, cell: Cell) -> list[TimeComparison]:
        """Return the comparisons of a cell."""
        return [c for c in self.comparisons if c.cell == cell.number]
