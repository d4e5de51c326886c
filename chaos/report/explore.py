"""The page of an exploration, its summary, and its table in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from chaos.report.pages import render_page, render_summary, replay
from chaos.report.terminal import Page, table
from chaos.report.text import count, minutes
from chaos.run.exploration import BLOWS, PHASES, Blow, Covered, ExploreResult, Window
from chaos.run.result import Verdict

MOST_FILED = 20
"""Mechanisms, and runs without a verdict, in a terminal; the page has all."""
VERDICTS: dict[str, Verdict] = {"held": "pass", "not reached": "inconclusive", "undecided": "inconclusive"}
"""The verdict of a state; every other state is a failure."""


def page(result: ExploreResult) -> str:
    """Return the page as text."""
    styles = ("report.css", "trend.css", "clients.css")
    return render_page("explore.html.j2", styles=styles, scripts=("page.js",), link=quote, **values(result))


def markdown(result: ExploreResult) -> str:
    """Return the summary for a pull request."""
    return render_summary("explore_summary.md.j2", **values(result))


def values(result: ExploreResult) -> dict[str, Any]:
    """Return what the templates need of an exploration."""
    runs = {run.run_id: run for part in result.parts for run in part.runs}
    return {
        "c": result,
        "undecided": [(part, run) for part in result.parts for run in part.runs if not run.conclusive],
        "e": {"runs_by_id": runs, **dict(result)},
        "BLOWS": BLOWS,
        "PHASES": PHASES,
        "minutes": minutes,
    }


def show(result: ExploreResult, folder: Path) -> None:
    """Print an exploration to the terminal."""
    console = Console()
    screen = Page(console)
    screen.line(Text.assemble(screen.verdict(result.verdict), "  ", screen.text(result.title, "bold")))
    screen.line(screen.text(result.sentence))
    show_program(result, folder)
    for line in (f"run again: {result.command}", f"report:    {folder}/report.html"):
        screen.line(screen.text(line))


def show_program(result: ExploreResult, folder: Path) -> None:
    """Print the tables of an exploration, and what broke."""
    console = Console()
    screen = Page(console)
    if result.windows:
        rows = table("window", *BLOWS.values())
        for window in result.windows:
            rows.add_row(screen.text(window.title), *(_state(screen, window, blow) for blow in BLOWS))
        console.print(rows)
    if result.covered:
        _show_covered(screen, console, result)
    for line in lines_of(result, folder):
        screen.line(screen.text(line))


def _show_covered(screen: Page, console: Console, result: ExploreResult) -> None:
    """Print how often each kind of fault ran in each phase, whatever its role."""
    rows = table("fault", *PHASES)
    for kind in dict.fromkeys(cell.kind for cell in result.covered):
        own = [cell for cell in result.covered if cell.kind == kind]
        of_phases = [[c for c in own if c.phase == phase] for phase in PHASES]
        rows.add_row(screen.text(kind), *(screen.text(_count(cells)) for cells in of_phases))
    console.print(rows)


def _count(cells: list[Covered]) -> str:
    """Return how many conclusive runs hit some cells; `?` if there are others only."""
    runs = sum(cell.runs for cell in cells)
    return str(runs) if runs else "?" if cells else "-"


def _state(screen: Page, window: Window, blow: Blow) -> Text:
    if not (state := window.states.get(blow)):
        return screen.text(window.untried(blow), "dim")
    sign = screen.verdict(VERDICTS.get(state, "fail"))
    return Text(f"{sign.plain.split()[0]} {state}", sign.style)


def lines_of(result: ExploreResult, folder: Path) -> list[str]:
    """Return what broke, each mechanism with how to replay and to prevent it, and what is not known."""
    lines = []
    for filed in result.filed[:MOST_FILED]:
        mechanism = filed.mechanism
        lines.append(f"broken: {mechanism.name}: {mechanism.cause_text} ({count(filed.count, 'run')})")
        lines += [f"  faults:   {'; '.join(filed.faults)}{f' ({filed.size})' if filed.size else ''}"] * bool(
            filed.faults
        )
        lines += [f"  first:    {mechanism.sentence}"] * bool(mechanism.sentence)
        lines += [f"  prevents: {mechanism.prevents}"] * bool(mechanism.prevents)
        lines += [f"  replay:   {replay(str(folder.absolute()), filed.bundle)}"] * bool(filed.bundle)
    if len(result.filed) > MOST_FILED:
        lines.append(f"{len(result.filed) - MOST_FILED} more mechanisms: see the page")
    open_ = [(part, run) for part in result.parts for run in part.runs if not run.conclusive]
    lines += [f"{part.state or 'undecided'}: {part.name}: {run.sentence}" for part, run in open_[:MOST_FILED]]
    if len(open_) > MOST_FILED:
        lines.append(f"{len(open_) - MOST_FILED} more prove nothing: see the page")
    return [*lines, *(f"note: {note}" for note in result.notes)]


FILES = {"report.html": page, "summary.md": markdown}
"""The files of an exploration."""
