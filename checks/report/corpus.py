"""The score of the corpus, from its `campaign.json`: `report.html`, `summary.md`, and a table in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from chaos.run.campaign import Part
from chaos.run.corpus_result import Answer, CaseScore, CorpusResult
from chaos.run.result import Verdict
from checks.report.gate import code, plain
from checks.report.pages import render_page
from checks.report.summary import render_summary
from checks.report.terminal import Page, table
from checks.report.text import duration

VERDICTS: dict[Answer, Verdict] = {
    "found": "pass",
    "not found": "fail",
    "not mended": "fail",
    "could not tell": "inconclusive",
}
"""The verdict whose colour and sign an answer takes."""


def page(corpus: CorpusResult) -> str:
    """Return the page as text."""
    styles = ("report.css", "trend.css", "clients.css")
    return render_page("corpus.html.j2", styles=styles, scripts=("page.js",), link=quote, **_values(corpus))


def markdown(corpus: CorpusResult) -> str:
    """Return the summary for a pull request."""
    return render_summary("corpus_summary.md.j2", plain=plain, code=code, **_values(corpus))


MODEL, FILES = CorpusResult, {"report.html": page, "summary.md": markdown}


def _values(corpus: CorpusResult) -> dict[str, Any]:
    return {"c": corpus, "rate": rate, "time": detection, "VERDICTS": VERDICTS}


def show_result(corpus: CorpusResult, folder: Path) -> None:
    """Print the score to the terminal."""
    console = Console()
    screen = Page(console)
    rows = table("answer", "bug", "must show", "affected", "fixed", "time to detection")
    for case in corpus.cases:
        sign = screen.verdict(VERDICTS[case.answer]).plain.split()[0]
        answer = Text(f"{sign} {case.answer}", screen.verdict(VERDICTS[case.answer]).style)
        name = screen.text(case.bug, "bold").append_text(screen.text(f"\n{case.title}", "dim"))
        shown = (", ".join(case.shows), rate(case.affected), rate(case.fixed, "fail"), detection(case))
        rows.add_row(answer, name, *map(screen.text, shown))
    console.print(rows)
    for line in (f"\n{corpus.sentence}", f"run again: {corpus.command}", f"report:    {folder}/report.html"):
        screen.line(screen.text(line))


def rate(side: Part | None, showing: Verdict = "pass") -> str:
    """Return how many runs of a variant show the bug: `9 of 10`, with the inconclusive ones.

    showing: the verdict of a run that shows it: `pass` of the affected variant, `fail` of the fixed one.
    """
    if side is None:
        return "none known"
    unclear = len(side.runs) - side.conclusive
    shown = f"{sum(run.verdict == showing for run in side.runs)} of {side.conclusive}"
    return shown + (f", {unclear} inconclusive" if unclear else "")


def detection(case: CaseScore) -> str:
    """Return the time to detection."""
    return "not seen" if case.detection_s is None else duration(case.detection_s * 1e6)
