"""`python -m checks.report.gate DIR`: the pages of a gate, from its `gate.json` alone: matrix, summary.md, junit.xml.

It lies here because it shares style, parts and rules with the reports (nothing from outside, dark and light, print).
Nothing is decided here: verdicts, statistics and sentences are those of `chaos.gate.judge`.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup
from pydantic import ValidationError

from chaos.errors import RunDirError
from chaos.run.directory import read_json, write_atomically
from chaos.run.gate_result import Cell, GateResult, Key, Mark, TimeComparison
from checks.report.gatefiles import junit, markdown, median, share
from checks.report.html import PAGE, environment
from checks.report.words import Clock

_ORDER: tuple[Mark, ...] = ("slower", "too few", "undecided", "within")
SIGNS: dict[Mark, str] = {"slower": "▲", "too few": "…", "undecided": "≈", "within": "="}


@dataclass(frozen=True)
class Column:
    """One column of the matrix: a release of the brokers, one of the clients, and settings."""

    kafka: str
    client: str
    settings: str


@dataclass(frozen=True)
class Line:
    """One row of the matrix: a scenario, with its cell in each column, or None where it has none."""

    scenario: str
    cells: list[Cell | None]


def columns(cells: Iterable[Cell]) -> list[Column]:
    """The columns, in the order of the matrix."""
    return list(dict.fromkeys(_column(cell.key) for cell in cells))


def _column(key: Key) -> Column:
    return Column(key.kafka, key.client, key.settings)


def lines(found: GateResult) -> list[Line]:
    """The rows, in the order of the matrix."""
    by_key = {(cell.key.scenario, _column(cell.key)): cell for cell in found.cells}
    across = columns(found.cells)
    scenarios = dict.fromkeys(cell.key.scenario for cell in found.cells)
    return [Line(name, [by_key.get((name, column)) for column in across]) for name in scenarios]


def page(found: GateResult) -> str:
    """The page as text."""
    style = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in ("report.css", "trend.css", "gate.css"))
    script = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in ("page.js", "gate.js"))
    text = (
        environment(Clock(0))
        .get_template("gate.html.j2")
        .render(
            g=found,
            columns=columns(found.cells),
            lines=lines(found),
            cells=sorted(found.cells, key=lambda cell: ("fail", "inconclusive", "pass").index(cell.verdict)),
            share=share,
            median=median,
            times=lambda cell: sorted(found.comparisons_of(cell), key=lambda c: _ORDER.index(c.mark)),
            counts=lambda cell: _counts(found.comparisons_of(cell)),
            link=quote,
            SIGNS=SIGNS,
            style=Markup(style),  # our own files, here and below
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def _counts(comparisons: list[TimeComparison]) -> list[tuple[Mark, int]]:
    """How many times of a cell have each mark, the worst first."""
    return [(mark, n) for mark in _ORDER if (n := sum(c.mark == mark for c in comparisons))]


def main(target: str) -> int:
    """Write the files beside `gate.json`."""
    folder = Path(target)
    try:
        found = GateResult.model_validate(read_json(folder / "gate.json", "result of the gate"))
        for name, text in (("report.html", page(found)), ("summary.md", markdown(found)), ("junit.xml", junit(found))):
            write_atomically(folder / name, text)
    except RunDirError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    except ValidationError as e:
        sys.stderr.write(f"{folder / 'gate.json'} is not the result of a gate ({e.error_count()} errors)\n")
        return 2
    except OSError as e:
        sys.stderr.write(f"{folder} cannot be written to: {e.strerror}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
