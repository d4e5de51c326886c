"""The proofs of the corpus, from their `unaided.json`: `summary.md`, and a table in a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from chaos.run.corpus_result import UnaidedAnswer, UnaidedCase, UnaidedResult
from chaos.run.directory import read_model, write_atomically
from chaos.run.result import Verdict
from checks.report.gate import code, plain
from checks.report.pages import render_text
from checks.report.terminal import Page, table
from checks.report.text import duration

VERDICTS: dict[UnaidedAnswer, Verdict] = {
    "found": "pass",
    "not found": "fail",
    "not applicable": "inconclusive",
    "could not tell": "inconclusive",
}
"""The verdict whose colour and sign an answer takes."""


def write(folder: Path) -> None:
    """Write the summary next to `unaided.json`. Raises `RunDirError` if that is missing or not valid."""
    summary = render_text("unaided_summary.md.j2", u=_read(folder), plain=plain, code=code, outcome=outcome)
    write_atomically(folder / "summary.md", summary)


def show(folder: Path) -> None:
    """Print the answers to the terminal. Raises `RunDirError` if `unaided.json` is missing or not valid."""
    result, console = _read(folder), Console()
    screen = Page(console)
    rows = table("answer", "bug", "must show", "sets", "outcome")
    for case in result.cases:
        verdict = screen.verdict(VERDICTS[case.answer])
        name = screen.text(case.bug, "bold").append_text(screen.text(f"\n{case.title}", "dim"))
        shown = (", ".join(case.shows), f"{case.sets} of {case.planned}" if case.planned else "", outcome(case))
        rows.add_row(Text(f"{verdict.plain.split()[0]} {case.answer}", verdict.style), name, *map(screen.text, shown))
    console.print(rows)
    for line in (f"\n{result.sentence}", f"run again: {result.command}", f"summary:   {folder}/summary.md"):
        screen.line(screen.text(line))


def outcome(case: UnaidedCase) -> str:
    """Return what the proof of a case showed, as one text."""
    if case.why:
        return case.why
    parts = []
    if case.found_by and case.detection_s is not None:
        parts.append(f"{case.found_by}, after {duration(case.detection_s * 1e6)}")
    if case.seen:
        parts.append(f"seen and no broken promise: {', '.join(case.seen)}")
    if case.others:
        parts.append(f"other broken promises: {', '.join(case.others)}")
    return "; ".join(parts) or f"no promise broke in {case.runs} runs"


def _read(folder: Path) -> UnaidedResult:
    return read_model(folder / "unaided.json", UnaidedResult, "result of the proofs", "run the proofs again")
