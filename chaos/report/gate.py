"""The files of a gate, from its `campaign.json`: `report.html`, `junit.xml`, and `summary.md` for a pull request.

Verdicts, statistics and sentences come from `chaos.campaign.gate.judge`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from chaos.report.junit import JunitCase, of_campaign
from chaos.report.pages import MOST_CHARACTERS, fit, render_page, render_text, size
from chaos.report.text import duration
from chaos.run.campaign import Cell, GateResult, Key, LeftOut, Mark
from chaos.run.result import WORST_FIRST

_SUMMARIES = ((800, True), (250, True), (60, True), (60, False))
"""Maximum characters of the sentence of a cell, and whether the times are listed; the first that fits is used."""
_ORDER: tuple[Mark, ...] = ("slower", "too few", "undecided", "within")
SIGNS: dict[Mark, str] = {"slower": "▲", "too few": "…", "undecided": "≈", "within": "="}

Column = tuple[str, str, str]
"""A column of the matrix: release of the brokers, release of the client, settings."""


def page(gate: GateResult) -> str:
    """Return the page as text."""
    columns, lines = _matrix(gate)
    return render_page(
        "gate.html.j2",
        styles=("report.css", "trend.css", "gate.css"),
        scripts=("page.js", "gate.js"),
        columns=columns,
        lines=lines,
        times=lambda cell: sorted(gate.comparisons_of(cell), key=lambda c: _ORDER.index(c.mark)),
        counts=lambda cell: _marks(gate, cell),
        link=quote,
        SIGNS=SIGNS,
        **_values(gate),
    )


def markdown(gate: GateResult) -> str:
    """Return the summary for a pull request: failed and inconclusive cells first, at most `MOST_CHARACTERS`."""
    text = ""
    for limit, with_times in _SUMMARIES:
        text = render_text(
            "gate_summary.md.j2",
            limit=limit,
            with_times=with_times,
            open_times=[c for mark in _ORDER[:-1] for c in gate.comparisons if c.mark == mark],
            **_values(gate),
        )
        if size(text) <= MOST_CHARACTERS:
            break
    return fit(text)


def junit(gate: GateResult) -> str:
    """Return a test case for the gate and one for each cell, as XML text."""
    cases = [
        JunitCase("cells", cell.key.name, cell.verdict, cell.sentence, sum(run.seconds for run in cell.runs))
        for cell in gate.cells
    ]
    return of_campaign(f"gate.{gate.gate}", gate, cases)


FILES = {"report.html": page, "summary.md": markdown, "junit.xml": junit}


def _values(gate: GateResult) -> dict[str, Any]:
    """Return what the page and the summary show: the gate, its cells with the worst first, and formats."""
    cells = sorted(gate.cells, key=lambda cell: WORST_FIRST.index(cell.verdict))
    return {"c": gate, "cells": cells, "share": share, "median": _median}


def _matrix(gate: GateResult) -> tuple[list[Column], list[tuple[str, list[Cell | LeftOut | None]]]]:
    """Return the columns of the matrix, and its rows: a scenario with its cell in each column, or None."""
    by_key = {_place(cell.key): cell for cell in gate.cells} | {_place(out.key): out for out in gate.left_out}
    columns = list(dict.fromkeys(column for _, column in by_key))
    scenarios = dict.fromkeys(scenario for scenario, _ in by_key)
    return columns, [(name, [by_key.get((name, column)) for column in columns]) for name in scenarios]


def _place(key: Key) -> tuple[str, Column]:
    return key.scenario, (key.kafka, key.client, key.settings)


def _marks(gate: GateResult, cell: Cell) -> list[tuple[Mark, int]]:
    """Return the number of times of a cell with each mark, the worst mark first."""
    marks = [c.mark for c in gate.comparisons_of(cell)]
    return [(mark, marks.count(mark)) for mark in _ORDER if mark in marks]


def share(cell: Cell) -> str:
    """Return the share of runs that broke the contract: `0 of 50: less than 5.8 %`, or an interval."""
    if not cell.conclusive:
        return "not known"
    low = "less than" if cell.failed == 0 else f"{100 * cell.low:.1f} to"
    return f"{cell.failed} of {cell.conclusive}: {low} {100 * cell.high:.1f} %"


def _median(us: float | None) -> str:
    return "-" if us is None else duration(round(us))
