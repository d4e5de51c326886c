"""Typed model of `campaign.json` of a comparison: client libraries side by side."""

from __future__ import annotations

from typing import Literal

from chaos.run.campaign import Campaign, Data, Kind
from chaos.run.gate_result import Cell
from chaos.run.result import Verdict

Unit = Literal["us", "us/1000", "per second", "records", "bytes"]
Difference = Literal["higher", "lower", "not shown"]


class AnomalySum(Data):
    """An anomaly of a cell: its count over all conclusive runs, and the number of runs that show it."""

    count: int
    runs: int


class ClientColumn(Data):
    """One library in one scenario. cell: its runs and their verdict; None if it could not run, and then `left_out`
    is the reason."""

    client: str
    cell: Cell | None = None
    left_out: str = ""
    anomalies: dict[str, AnomalySum] = {}


class Measured(Data):
    """The values of one measure with one library.

    n: conclusive runs that have a value. low, high: the smallest and the largest value. ratio: of the median to that of
    the reference. difference: what the rank tests show, compared with the reference; None for the reference itself, or
    if one side has no value. higher_p, lower_p: p-values of the two tests.
    """

    n: int
    median: float
    low: float
    high: float
    ratio: float | None = None
    difference: Difference | None = None
    higher_p: float | None = None
    lower_p: float | None = None


class MeasureRow(Data):
    """One measure of a scenario, by library. fault: the fault after which it was measured, else empty."""

    group: str
    name: str
    fault: str = ""
    unit: Unit
    values: dict[str, Measured]

    @property
    def label(self) -> str:
        """The name with the fault: `no writes, longest, after kill`."""
        return f"{self.name}, after {self.fault}" if self.fault else self.name


class ScenarioComparison(Data):
    """The libraries in one scenario. reference: the library that the others are compared with; empty if none ran."""

    scenario: str
    title: str
    verdict: Verdict
    reference: str
    columns: list[ClientColumn]
    rows: list[MeasureRow]


class ClientComparison(Campaign):
    """`campaign.json` of a comparison. tests: number of tests over which the rank tests are corrected."""

    kind: Kind = "clients"
    title: str = "Client libraries side by side"
    jobs: int
    kafka: list[str]
    margin: float
    confidence: float
    tests: int
    scenarios: list[ScenarioComparison]
