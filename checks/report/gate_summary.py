"""Summaries of a gate: JUnit XML for a CI server, and Markdown that fits into a comment on a pull request."""

from __future__ import annotations

import re

from chaos.run.gate_result import Cell, GateResult, TimeComparison
from chaos.run.result import WORST_FIRST, Verdict
from checks.report.junit import JunitCase, clean, junit_suite, to_xml
from checks.report.text import duration

MOST_CHARACTERS = 60_000
"""GitHub accepts 65,536 characters in a comment."""
_MOST_CELLS, _MOST_TIMES = 60, 120
_SENTENCE_LIMITS = (800, 250, 60)
"""Maximum characters of the sentence of a cell; the next one applies if the text is too long."""
_SIGNS: dict[Verdict, str] = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "❔ inconclusive"}


def junit(gate: GateResult) -> str:
    """Return a test case for the gate and one for each cell, as XML text."""
    cases = [JunitCase("gate", gate.title, gate.verdict, gate.sentence)]
    for cell in gate.cells:
        seconds = sum(run.seconds for run in cell.runs)
        cases.append(JunitCase("cells", cell.key.name, cell.verdict, cell.sentence, seconds))
    properties = {"seed": str(gate.seed), "command": gate.command, "repeat": str(gate.repeat)}
    return to_xml([junit_suite(f"aftershock.gate.{gate.gate}", sum(c.seconds for c in cases), properties, cases)])


def markdown(gate: GateResult) -> str:
    """Return the summary for a pull request: failed and inconclusive cells first, at most `MOST_CHARACTERS`."""
    again = f"Run again: `{_plain(gate.command, code=True)}`"
    for limit in _SENTENCE_LIMITS:
        text = "\n".join([*_head(gate), *_cells(gate, limit), "", *_times(gate), "", again, ""])
        if len(text) <= MOST_CHARACTERS:
            return text
    note = "The times do not fit here: they are in report.html."
    return "\n".join([*_head(gate), *_cells(gate, _SENTENCE_LIMITS[-1]), "", note, ""])[:MOST_CHARACTERS]


def _head(gate: GateResult) -> list[str]:
    notes = [f"> {_plain(note)}\n" for note in gate.notes]
    return [f"## {_SIGNS[gate.verdict]}: {_plain(gate.title)}", "", _plain(gate.sentence), "", *notes]


def _cells(gate: GateResult, limit: int) -> list[str]:
    cells = sorted(gate.cells, key=lambda cell: WORST_FIRST.index(cell.verdict))
    more = len(cells) - _MOST_CELLS
    return [
        "| verdict | scenario | Kafka | client | settings | runs | broke the contract, at 95 % | result |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(cell, limit) for cell in cells[:_MOST_CELLS]),
        *(["", f"and {more} more cells: see report.html"] if more > 0 else []),
    ]


def _row(cell: Cell, limit: int) -> str:
    inconclusive = len(cell.runs) - cell.told
    values = [
        _SIGNS[cell.verdict],
        cell.key.scenario,
        cell.key.kafka,
        cell.key.client,
        cell.key.settings + (" (reference)" if cell.reference else ""),
        f"{cell.told}" + (f" (+{inconclusive} inconclusive)" if inconclusive else ""),
        share(cell),
    ]
    return f"| {' | '.join([*(_plain(text) for text in values), _plain(cell.sentence, limit)])} |"


def share(cell: Cell) -> str:
    """Return the share of runs that broke the contract: `0 of 50: less than 5.8 %`, or an interval."""
    if not cell.told:
        return "not known"
    counted = f"{cell.failed} of {cell.told}"
    if cell.failed == 0:
        return f"{counted}: less than {100 * cell.high:.1f} %"
    return f"{counted}: {100 * cell.low:.1f} to {100 * cell.high:.1f} %"


def _times(gate: GateResult) -> list[str]:
    """Return a table of the times that are not shown to be within the margin, and the number of the others."""
    if not gate.comparisons:
        return []
    open_times = [c for mark in ("slower", "too few", "undecided") for c in gate.comparisons if c.mark == mark]
    within = len(gate.comparisons) - len(open_times)
    table = [
        f"<details><summary>{len(gate.comparisons)} times: {within} are shown to be within their margin, "
        f"{len(open_times)} are not</summary>",
        "",
        "| | time | cell | now | before | ratio | margin |",
        "|---|---|---|---|---|---|---|",
        *(_time(gate, c) for c in open_times[:_MOST_TIMES]),
    ]
    if len(open_times) > _MOST_TIMES:
        table += ["", f"and {len(open_times) - _MOST_TIMES} more: see report.html"]
    return [*table, "", "</details>"]


def _time(gate: GateResult, c: TimeComparison) -> str:
    ratio = f"{c.ratio:.2f}" if c.ratio is not None else "-"
    cell = gate.cell(c.cell).key.name
    values = [c.mark, c.label, cell, median(c.median_us), median(c.was_us), ratio, f"{c.margin:g}"]
    return f"| {' | '.join(_plain(text) for text in values)} |"


def median(us: float | None) -> str:
    """Return a median as text."""
    return "-" if us is None else duration(round(us))


def _plain(text: str, limit: int = _SENTENCE_LIMITS[0], *, code: bool = False) -> str:
    """Return foreign text on one line, without markup, HTML or mentions, cut to the limit."""
    text = " ".join(clean(text).split())
    text = text if len(text) <= limit else f"{text[:limit]}…"
    if code:
        return text.replace("`", "'").replace("|", "\\|")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", text)
    return text.replace("@", "@\u200b")
