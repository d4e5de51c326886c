"""Typed model of `proof.json`: the promises of an application, the sets of faults that were tried, and their runs.

The card and the page of a proof are drawn from it alone, and a later proof is compared with it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from chaos.run.result import Verdict

FORMAT = 1
State = Literal["held", "broken", "unpromised", "unknown", "untested"]
Purpose = Literal["first", "again", "smaller", "mended"]
RunState = Literal["held", "broken", "undecided", "unknown"]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FoundAnomaly(_Data):
    """An anomaly of a run. state: what the derived contract says about it, and `reason` why. text: a sentence."""

    name: str
    count: int
    state: Literal["forbidden", "allowed", "not decided"]
    reason: str
    text: str


class ProofRun(_Data):
    """One run of a set of faults.

    set: ids of its faults, joined by +. change: the setting that a mended run has. state: broken, if a promise broke;
    undecided, if only anomalies appeared that the contract does not decide; unknown, if the run proves nothing, as a
    fault has no proof or nothing was written or read. examined: rows that the audit examined, by kind of anomaly.
    promised: the anomalies that the contract forbids under these faults. report, bundle: paths relative to
    `proof.json`.
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


class Said(_Data):
    """What `promise` says: full, limited, none or unknown; until which fault; and what lifts that."""

    level: str
    title: str
    promise: str
    until: str
    lift: str


class TriedSet(_Data):
    """A set of faults with its runs. left: the supports of the promise that it leaves whole."""

    set: str
    title: str
    left: list[str]
    runs: list[str]


class PromiseResult(_Data):
    """A promise: what the settings say, and whether it held.

    state: unpromised, if it did not hold in a run in which the contract allows or does not decide that, or if no run
    has faults under which the contract promises it.
    sets: the sets that concern it with a run that tests it. unpromised: number of sets under which the contract does
    not promise it. cut: the sets that cut every support that the model knows, and broke nothing: the model lacks a
    support there. why: why it is not tested, or not known.
    """

    id: str
    title: str
    state: State
    said: list[Said]
    supports: list[str]
    sets: list[TriedSet] = []
    unpromised: int = 0
    cut: list[str] = []
    unknown: list[str] = []
    why: str = ""


class Mend(_Data):
    """A setting that mends a break, and the run of the same faults with it. held: None if that has no verdict."""

    change: str
    held: bool | None
    run: str
    sentence: str


class Break(_Data):
    """Records that were lost, duplicated and so on under a set of faults: the smallest one that shows it.

    promised: whether the contract forbids it (true), allows it (false) or does not decide (None). shown, of: number of
    conclusive runs of this set that show it, and of all. smaller: what runs of its subsets showed.
    """

    promise: str
    breaks: str
    promised: bool | None
    set: str
    title: str
    anomalies: list[FoundAnomaly]
    shown: int
    of: int
    runs: list[str]
    smaller: list[str] = []
    bundle: str = ""
    lift: str = ""
    mend: Mend | None = None


class NotTested(_Data):
    """Something that the proof does not test, and why."""

    title: str
    why: str


class Change(_Data):
    """A difference to an earlier card."""

    title: str
    before: str
    now: str
    worse: bool


class Kind(_Data):
    """A fault class that was planned."""

    id: str
    title: str


class ProofResult(_Data):
    """`proof.json`. planned: number of sets in the plan by their size; tried: of those, sets with a run."""

    format: int = FORMAT
    name: str
    verdict: Verdict
    sentence: str
    command: str
    made_us: int
    machine: str
    kafka: str
    application: dict[str, str]
    assumed: list[str]
    left_out: list[str]
    changed: list[str]
    notes: list[str]
    promises: list[PromiseResult]
    broken: list[Break]
    seen: list[Break]
    not_tested: list[NotTested]
    kinds: list[Kind]
    planned: list[int]
    tried: list[int]
    unknown: list[TriedSet]
    unrelated: int
    seed: int
    seconds: float
    per_hour: float
    runs: list[ProofRun]
    against: str = ""
    changes: list[Change] = []

    def promise(self, name: str) -> PromiseResult | None:
        """Return a promise by its id."""
        return next((promise for promise in self.promises if promise.id == name), None)
