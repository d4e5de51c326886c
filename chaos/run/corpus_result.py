"""Typed model of `campaign.json` of the corpus: published bugs, and whether runs show them."""

from __future__ import annotations

from typing import Literal

from chaos.run.campaign import Campaign, Data, TrialRun
from chaos.run.result import Verdict

Answer = Literal["found", "not found", "not mended", "could not tell"]
"""found: a run of the affected variant shows the bug, and no run of the fixed one, if there is one, broke its contract.
not mended: one did. could not tell: a variant has no conclusive run."""


class SideScore(Data):
    """The runs of one variant, in their order. shown_by: the verdict of a run that shows what the variant is about:
    the bug, or, if that is mended, a broken contract."""

    runs: list[TrialRun]
    shown_by: Verdict

    @property
    def conclusive(self) -> int:
        """Number of runs with a verdict."""
        return sum(run.conclusive for run in self.runs)

    @property
    def showing(self) -> int:
        """Number of conclusive runs that show it."""
        return sum(run.verdict == self.shown_by for run in self.runs)


class CaseScore(Data):
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


class CorpusResult(Campaign):
    """`campaign.json` of the corpus."""

    cases: list[CaseScore]
