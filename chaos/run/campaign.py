"""Typed models of the files of a campaign: `runs.jsonl`, a line for each finished run, and the head of `campaign.json`.

A campaign is many runs with one question, such as a gate or a repetition (`chaos.campaign`). The page of a campaign is
drawn from `campaign.json` alone, and a later gate or proof is compared with it. Kinds of campaigns add fields to the
head: gates, comparisons of client libraries, the corpus and proofs.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from chaos.run.result import Load, Metric, MetricKey, RunOutcome, Verdict

RESULT = "campaign.json"
FORMAT = 1
Kind = Literal[
    "catalogue", "repeat", "corpus", "shrink", "bisect", "replay", "gate", "clients", "proof", "ab", "explore"
]


class Data(BaseModel):
    """A part of `campaign.json`: frozen, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Purpose = Literal["first", "again", "smaller", "mended"]
RunState = Literal["held", "broken", "undecided", "unknown"]


class FoundAnomaly(Data):
    """An anomaly of a run. state: what the derived contract says about it, and `reason` why. text: a sentence."""

    name: str
    count: int
    state: Literal["forbidden", "allowed", "not decided"]
    reason: str
    text: str


class ProofRun(Data):
    """One run of a set of faults.

    set: ids of its faults, joined by +. change: the setting that a mended run has. state: broken, if a promise broke;
    undecided, if only anomalies appeared that the contract does not decide; unknown, if the run proves nothing, as a
    fault has no proof or nothing was written or read. examined: rows that the audit examined, by kind of anomaly.
    promised: the anomalies that the contract forbids under these faults. report, bundle: paths relative to
    the folder.
    """

    set: str
    purpose: Purpose = "first"
    change: str = ""
    n: int = 1
    seed: int
    verdict: Verdict
    state: RunState
    sentence: str
    anomalies: list[FoundAnomaly] = []
    examined: dict[str, int] = {}
    promised: list[str] = []
    acked: int = 0
    delivered: int = 0
    seconds: float = 0
    run_id: str = ""
    report: str = ""
    bundle: str = ""

    def found(self, state: str) -> list[FoundAnomaly]:
        """Return its anomalies about which the contract says this."""
        return [anomaly for anomaly in self.anomalies if anomaly.state == state]


class Mechanism(Data):
    """What a run broke, and why: an anomaly with its cause.

    name: as in `RunOutcome.anomalies`, or the name of another expectation. cause: the reason as text without numbers,
    empty if it is not determined. stopped: whether the cause is that the application did not go on. sentence: the first
    finding. prevents: what prevents it.
    """

    name: str
    cause: str = ""
    stopped: bool = False
    sentence: str = ""
    prevents: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What two runs have to share to show the same."""
        return self.name, self.cause

    @property
    def cause_text(self) -> str:
        """The cause for people, also if it is not determined."""
        return self.cause or "the cause is not determined"


class TrialRun(RunOutcome):
    """One finished run of a campaign.

    run_id: the name of its directory. part: what it counts for, such as a cell or a scenario. n: number of the
    repetition, from 1. kafka, client: releases as the brokers and clients reported them. seconds: from the start until
    the log was read back. report, bundle: paths relative to the folder, or empty. ran: False if the run could not start
    because the machine lacks a requirement. proof: what the run shows of the promises of an application. mechanisms:
    what broke and why, if the plan asks for it. covers: what it counts for in a table of what was covered.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    anomalies: dict[str, int] = {}
    run_id: str = ""
    part: str = ""
    n: int = 1
    seed: int
    times: list[Metric] = []
    load: Load = Load()
    kafka: str = ""
    client: str = ""
    seconds: float = 0
    report: str = ""
    bundle: str = ""
    ran: bool = True
    proof: ProofRun | None = None
    mechanisms: list[Mechanism] = []
    covers: list[str] = []


class Rate(Data):
    """An event in `count` of `of` runs. The true rate is between `low` and `high` at 95 % confidence."""

    name: str
    count: int
    of: int
    low: float
    high: float


class Part(Data):
    """Runs that count together.

    expected: the anomalies that must appear, as text. conclusive: number of conclusive runs; failed: number of runs
    that broke the contract; low, high: bounds of the share of runs that break it, at 95 % confidence. rates: of broken
    contracts and of each anomaly, over the conclusive runs. state: what the part is in a search, such as
    `old` or `new`.
    """

    name: str
    verdict: Verdict
    sentence: str
    runs: list[TrialRun]
    failed: int
    conclusive: int
    low: float
    high: float
    expected: str = ""
    rates: list[Rate] = []
    state: str = ""


class Machine(Data):
    """The machine of the measurement. Times of different machines are hardly comparable."""

    platform: str
    cpus: int


class Head(BaseModel):
    """What a list of campaigns shows of a `campaign.json`; other keys are ignored."""

    kind: str
    title: str
    verdict: Verdict
    sentence: str
    made_us: int
    command: str
    repeat: int
    seed: int | None = None


class Campaign(Data):
    """The head of every `campaign.json`. repeat: planned runs of each part. folder: where it was written."""

    format: int = FORMAT
    kind: Kind
    title: str
    verdict: Verdict
    sentence: str
    command: str
    machine: Machine
    made_us: int
    seed: int | None
    repeat: int
    notes: list[str] = []
    folder: str = ""


SAME = "the same"
"""The answer of a replay with the outcome of the incident."""


class PartsResult(Campaign):
    """`campaign.json` of a campaign that counts or searches: its parts, in the order of the plan.

    answer: what a search found: a release, or a scenario as YAML; empty if it found nothing.
    """

    parts: list[Part]
    answer: str = ""

    @property
    def answered(self) -> bool:
        """Whether it says what was asked: each run of a repetition is conclusive, or a search found something.

        A replay answers with the same outcome.
        """
        match self.kind:
            case "repeat":
                return all(run.conclusive for part in self.parts for run in part.runs)
            case "replay":
                return self.answer == SAME
            case _:
                return bool(self.answer)


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

    cell: number of the cell; reference: name of the other side; now, then: number of values on each side; median_us,
    was_us: medians; slower_p, within_p: p-values of the two tests in `chaos.run.ranks`.
    """

    cell: int
    reference: str
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

    n: conclusive runs that have a value. low, high: the smallest and the largest value. ratio: of the median to the
    median of the reference. difference: what the rank tests show, compared with the reference; None for the reference
    itself, or if one side has no value. higher_p, lower_p: p-values of the two tests.
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


Answer = Literal["found", "not found", "not mended", "could not tell"]
"""found: a run of the affected variant shows the bug, and no run of the fixed one, if there is one, broke its contract.
not mended: one did. could not tell: a variant has no conclusive run."""


class CaseScore(Data):
    """One bug, with the runs of its variants.

    detection_s: seconds of the affected runs up to the first one that shows it; None if none does.
    """

    name: str
    title: str
    bug: str
    affects: str
    mended_by: str
    sources: list[str]
    shows: list[str]
    affected: Part
    fixed: Part | None
    answer: Answer
    detection_s: float | None


class CorpusResult(Campaign):
    """`campaign.json` of the corpus."""

    cases: list[CaseScore]


class Side(Data):
    """One variant: the names of its run directories (run: the first), its worst verdict, and a sentence with it."""

    name: str
    run: str
    runs: list[str] = []
    verdict: Verdict
    sentence: str


class SettingDifference(Data):
    """A value of the scenario that differs between variants, by name of the variant."""

    path: str
    values: dict[str, str]


class Row(Data):
    """The counts of one kind of anomaly or of rebalances, or the values of one time, by name of the variant.

    decides: whether the event occurs in another share of the runs of one variant. chance: the p-value of Fisher's exact
    test that these shares are the same, times the number of pairs of variants. shown: whether that is excluded.
    """

    name: str
    values: dict[str, str]
    decides: bool = False
    chance: float = 1.0
    shown: bool = False


class Comparison(Campaign):
    """`campaign.json` of an A/B run. seed: of the first round."""

    kind: Kind = "ab"
    scenario: str
    sides: list[Side]
    differences: list[SettingDifference]
    anomalies: list[Row]
    rebalances: list[Row] = []
    times: list[Row]

    @property
    def answered(self) -> bool:
        """Whether both sides are conclusive."""
        return self.verdict != "inconclusive"
