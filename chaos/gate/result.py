"""What a gate found: `gate.json`. It is the baseline of later ones, and all that its pages are made from."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

FORMAT = 1
Verdict = Literal["pass", "fail", "inconclusive"]
Mark = Literal["slower", "within", "undecided", "too few"]
Named = tuple[str, str, str, str]
"""Metric, scope, fault and statistic of a time."""

MARKS: dict[Mark, str] = {
    "slower": "shown to be beyond the margin",
    "within": "shown to be within the margin",
    "undecided": "neither shown to be beyond the margin nor to be within it",
    "too few": "measured too rarely to show anything",
}


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Key(_Data):
    """Which cell: its value on each axis. scenario may be `name/variant`."""

    scenario: str
    kafka: str
    client: str
    settings: str

    @property
    def name(self) -> str:
        """`leader-kill, Kafka 4.3.1, client 2.16.1, acks-all`."""
        settings = "" if self.settings == "default" else f", {self.settings}"
        return f"{self.scenario}, Kafka {self.kafka}, client {self.client}{settings}"


class Time(_Data):
    """One measured time of a run, in microseconds."""

    metric: str
    scope: str
    fault: str
    stat: str
    value_us: int

    @property
    def named(self) -> Named:
        """What it is the time of."""
        return self.metric, self.scope, self.fault, self.stat


class CellRun(_Data):
    """One run of a cell: the how-manieth, from 1, and what it showed. report and bundle: relative to `gate.json`."""

    n: int
    seed: int
    verdict: Verdict
    sentence: str
    anomalies: dict[str, int] = {}
    times: list[Time] = []
    kafka: str = ""
    client: str = ""
    """As the clients themselves said."""
    seconds: float = 0
    report: str = ""
    bundle: str = ""
    ran: bool = True
    """False where it could not even begin, for want of what it asks for."""

    @property
    def conclusive(self) -> bool:
        """Whether it could tell."""
        return self.verdict != "inconclusive"


class Cell(_Data):
    """One cell with its runs. setup: a digest of what is run, but for the releases.

    low and high: the share of runs that break the contract, at 95 %, from those that could tell.
    """

    number: int
    key: Key
    setup: str
    verdict: Verdict
    sentence: str
    runs: list[CellRun]
    failed: int
    told: int
    low: float
    high: float
    reference: bool = False
    """Whether others of this matrix are held against it."""


class Comparison(_Data):
    """One time of a cell (by number) beside what it is held against; medians and resolution in microseconds."""

    cell: int
    against: str
    metric: str
    scope: str
    fault: str
    stat: str
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
    def label(self) -> str:
        """`produce unavailability max of orders after kill`."""
        after = f" after {self.fault}" if self.fault else ""
        return f"{self.metric.replace('_', ' ')} {self.stat} of {self.scope}{after}"

    @property
    def ratio(self) -> float | None:
        """How many times what it was."""
        return self.median_us / self.was_us if self.median_us is not None and self.was_us else None


class Machine(_Data):
    """Where it was measured: times of another kind of machine say little."""

    platform: str
    cpus: int


class Result(_Data):
    """Everything."""

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
    """What times were held against, in words; empty if nothing."""
    cells: list[Cell]
    comparisons: list[Comparison]
    notes: list[str]

    def cell(self, number: int) -> Cell:
        """The cell of a number."""
        return next(cell for cell in self.cells if cell.number == number)

    def of(self, cell: Cell) -> list[Comparison]:
        """The comparisons of a cell."""
        return [c for c in self.comparisons if c.cell == cell.number]
