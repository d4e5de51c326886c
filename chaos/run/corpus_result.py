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
