"""Typed model of `corpus.json`: published bugs, and whether runs show them. Its pages are drawn from it alone."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from chaos.run.gate_result import Machine
from chaos.run.result import Verdict

FORMAT = 1
Answer = Literal["found", "not found", "not mended", "could not tell"]
"""found: a run of the affected variant shows the bug, and no run of the fixed one, if there is one, broke its contract.
not mended: one did. could not tell: a variant has no conclusive run."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusRun(_Data):
    """A run. shows: it shows what the variant is about: the bug, or, if that is mended, a broken contract. report:
    relative to the folder of the corpus, or empty."""

    verdict: Verdict
    shows: bool
    anomalies: dict[str, int]
    seconds: float
    sentence: str
    report: str = ""


class SideScore(_Data):
    """The runs of one variant, in their order."""

    runs: list[CorpusRun]

    @property
    def conclusive(self) -> int:
        """Number of runs with a verdict."""
        return sum(run.verdict != "inconclusive" for run in self.runs)

    @property
    def showing(self) -> int:
        """Number of conclusive runs that show it."""
        return sum(run.shows for run in self.runs)


class CaseScore(_Data):
    """One bug. detection_s: seconds of the affected runs up to the first one that shows it; None if none does."""

    name: str
    title: str
    bug: str
    affects: str
    mended_by: str
    sources: list[str]
    shows: list[str]
    affected: SideScore
    fixed: SideScore | None
    answer: Answer
    detection_s: float | None


class CorpusResult(_Data):
    """`corpus.json`."""

    format: int = FORMAT
    sentence: str
    command: str
    machine: Machine
    made_us: int
    repeat: int
    cases: list[CaseScore]


UnaidedAnswer = Literal["found", "not found", "not applicable", "could not tell"]
"""found: a run of the proof broke a promise by an anomaly of the bug. not applicable: no application of a proof has the
bug. could not tell: the proof has no conclusive run with a fault."""


class UnaidedCase(_Data):
    """What a proof without a hint found of one bug.

    why: why it is not applicable. sets: the sets of faults that were tried, of `planned`. detection_s: seconds from the
    start of the proof to the verdict that showed the bug. seen: the bug's anomalies of which the contract says nothing,
    or which it allows. others: other broken promises. proof: its page, relative to the folder of the corpus, or empty.
    """

    name: str
    title: str
    bug: str
    shows: list[str]
    answer: UnaidedAnswer
    why: str = ""
    runs: int = 0
    sets: int = 0
    planned: int = 0
    seconds: float = 0
    found_by: str = ""
    detection_s: float | None = None
    seen: list[str] = []
    others: list[str] = []
    proof: str = ""


class UnaidedResult(_Data):
    """`unaided.json`: proofs of the applications of published bugs. budget_s: seconds of each proof."""

    format: int = FORMAT
    sentence: str
    command: str
    machine: Machine
    made_us: int
    budget_s: float
    cases: list[UnaidedCase]
