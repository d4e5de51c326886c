"""Typed model of `campaign.json` of a proof: promises of settings, what broke, and what the program itself shows."""

from __future__ import annotations

from typing import Literal

from chaos.run.campaign import Campaign, Data, FoundAnomaly, Kind, ProofRun
from chaos.run.exploration import ExploreResult

State = Literal["held", "partly", "broken", "unpromised", "unknown", "untested"]


class Said(Data):
    """What `promise` says: full, limited, none or unknown; until which fault; and the remedy."""

    level: str
    title: str
    promise: str
    until: str
    remedy: str


class TriedSet(Data):
    """A set of faults with its runs. left: the supports of the promise that it leaves whole."""

    set: str
    title: str
    left: list[str]
    runs: list[str]


class PromiseResult(Data):
    """A promise: what the settings say, and whether it held.

    state: partly, if what the protocol promises held, and the settings promise nothing. Unpromised, if it did not hold
    in a run in which the contract allows or does not decide that, or if no run has faults under which the contract
    promises it.
    sets: the sets that concern it with a run that tests it. unpromised: number of sets under which the contract does
    not promise it. cut: the sets that cut every support that the model knows, and broke nothing: the model lacks a
    support there. why: why it is not tested, not known, or held in part.
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


class Mend(Data):
    """A setting that mends a break, and the run of the same faults with it. held: None if that has no verdict."""

    change: str
    held: bool | None
    run: str
    sentence: str


class Break(Data):
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
    remedy: str = ""
    mend: Mend | None = None


class NotTested(Data):
    """Something that the proof does not test, and why."""

    title: str
    why: str


class Change(Data):
    """A difference to an earlier card."""

    title: str
    before: str
    now: str
    regression: bool


class FaultKind(Data):
    """A fault class that was planned."""

    id: str
    title: str


class Announced(Data):
    """A setting of the program on the wire, next to what app.yaml says. differs: whether another value was seen."""

    setting: str
    given: str
    origin: str
    seen: list[str]
    differs: bool

    def describe(self) -> str:
        """Return the difference as text."""
        return f"{self.setting}: {self.given} ({self.origin}), on the wire {', '.join(self.seen)}"


class ProofResult(Campaign):
    """`campaign.json` of a proof. planned: number of planned sets by size; tried: the number with a run, by size.

    program: what the exploration of the program itself shows; None if app.yaml names none. announced: its settings on
    the wire.
    """

    kind: Kind = "proof"
    repeat: int = 1
    name: str
    kafka: str
    application: dict[str, str]
    assumed: list[str]
    left_out: list[str]
    changed: list[str]
    promises: list[PromiseResult]
    broken: list[Break]
    seen: list[Break]
    not_tested: list[NotTested]
    kinds: list[FaultKind]
    planned: list[int]
    tried: list[int]
    unknown: list[TriedSet]
    unrelated: int
    seconds: float
    per_hour: float
    runs: list[ProofRun]
    compared_with: str = ""
    changes: list[Change] = []
    program: ExploreResult | None = None
    announced: list[Announced] = []

    def promise(self, name: str) -> PromiseResult | None:
        """Return a promise by its id."""
        return next((promise for promise in self.promises if promise.id == name), None)
