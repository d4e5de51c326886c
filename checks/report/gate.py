"""`python -m checks.report.gate DIR`: the files of a gate, from its `gate.json`: report.html, summary.md, junit.xml.

The page uses the style and the rules of the reports. Verdicts, statistics and sentences come from `chaos.gate.judge`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

from chaos.errors import RunDirError
from chaos.run.directory import read_model, write_atomically
from chaos.run.gate_result import Cell, GateResult, Mark, TimeComparison
from chaos.run.result import WORST_FIRST
from checks.report.gate_summary import junit, markdown, median, share
from checks.report.pages import render_page
from checks.report.text import Clock

_ORDER: tuple[Mark, ...] = ("slower", "too few", "undecided", "within")
SIGNS: dict[Mark, str] = {"slower": "▲", "too few": "…", "undecided": "≈", "within": "="}


Column = tuple[str, str, str]
"""A column of the matrix: release of the brokers, release of the client, settings."""


def _column(cell: Cell) -> Column:
    return cell.key.kafka, cell.key.client, cell.key.settings


def matrix(gate: GateResult) -> tuple[list[Column], list[tuple[str, list[Cell | None]]]]:
    """Return the columns of the matrix, and its rows: a scenario with its cell in each column, or None."""
    columns = list(dict.fromkeys(map(_column, gate.cells)))
    by_key = {(cell.key.scenario, _column(cell)): cell for cell in gate.cells}
    scenarios = dict.fromkeys(cell.key.scenario for cell in gate.cells)
    return columns, [(name, [by_key.get((name, column)) for column in columns]) for name in scenarios]


def page(gate: GateResult) -> str:
    """Return the page as text."""
    columns, lines = matrix(gate)
    return render_page(
        "gate.html.j2",
        Clock(0),
        styles=("report.css", "trend.css", "gate.css"),
        scripts=("page.js", "gate.js"),
        g=gate,
        columns=columns,
        lines=lines,
        cells=sorted(gate.cells, key=lambda cell: WORST_FIRST.index(cell.verdict)),
        share=share,
        median=median,
        times=lambda cell: sorted(gate.comparisons_of(cell), key=lambda c: _ORDER.index(c.mark)),
        counts=lambda cell: _counts(gate.comparisons_of(cell)),
        link=quote,
        SIGNS=SIGNS,
    )


def _counts(comparisons: list[TimeComparison]) -> list[tuple[Mark, int]]:
    """Return the number of times with each mark, the worst mark first."""
    return [(mark, n) for mark in _ORDER if (n := sum(c.mark == mark for c in comparisons))]


def main(target: str) -> int:
    """Write the files next to `gate.json`; return 0, or 2 with a message on standard error."""
    folder = Path(target)
    try:
        gate = read_model(folder / "gate.json", GateResult, "result of a gate", "run the gate with --judge again")
        for name, text in (("report.html", page(gate)), ("summary.md", markdown(gate)), ("junit.xml", junit(gate))):
            write_atomically(folder / name, text)
    except RunDirError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    except OSError as e:
        sys.stderr.write(f"{folder} cannot be written to: {e.strerror}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
