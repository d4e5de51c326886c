"""Typed model of `campaign.json` of the corpus: published bugs, and whether runs show them."""

from __future__ import annotations

from typing import Literal

from chaos.run.campaign import Campaign, Data, Part

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
