"""What a gate found for machines and for a pull request: JUnit XML, and Markdown that fits into a comment."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from chaos.run.gate_result import Cell, GateResult, TimeComparison
from chaos.run.result import WORST_FIRST, Verdict
from checks.report.junit import clean
from checks.report.words import duration

MOST_CHARACTERS = 60_000
"""GitHub takes 65,536 characters in a comment."""
_MOST_CELLS, _MOST_TIMES = 60, 120
_LONGEST = (800, 250, 60)
"""How long what is known of a cell may be; less where the whole would not fit."""
_SIGNS: dict[Verdict, str] = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "❔ inconclusive"}
_TAGS: dict[Verdict, str] = {"fail": "failure", "inconclusive": "error"}


def junit(found: GateResult) -> str:
    """One test case for the gate and one for each cell. Inconclusive is an error: CI servers show skipped as green."""
    suite = ET.Element("testsuite", name=clean(f"aftershock.gate.{found.gate}"))
    properties = ET.SubElement(suite, "properties")
    for name, value in {"seed": str(found.seed), "command": found.command, "repeat": str(found.repeat)}.items():
        ET.SubElement(properties, "property", name=name, value=clean(value))
    _case(suite, "gate", found.title, found.verdict, found.sentence, 0.0)
    for cell in found.cells:
        seconds = sum(run.seconds for run in cell.runs)
        _case(suite, "cells", cell.key.name, cell.verdict, cell.sentence, seconds)
    cases = list(suite.iter("testcase"))
    suite.set("tests", str(len(cases)))
    suite.set("time", f"{sum(run.seconds for cell in found.cells for run in cell.runs):.3f}")
    for tag, attribute in (("failure", "failures"), ("error", "errors")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, part: str, name: str, verdict: Verdict, sentence: str, seconds: float) -> None:
    classname = f"{suite.get('name')}.{part}"
    case = ET.SubElement(suite, "testcase", classname=classname, name=clean(name), time=f"{seconds:.3f}")
    if tag := _TAGS.get(verdict):
        ET.SubElement(case, tag, message=clean(sentence), type=verdict).text = clean(sentence)
    else:
        ET.SubElement(case, "system-out").text = clean(sentence)


def markdown(found: GateResult) -> str:
    """The summary for a pull request: what failed and what is not known first, and never more than fits."""
    for longest in _LONGEST:
        text = "\n".join([*_head(found), *_cells(found, longest), "", *_times(found), "", _again(found), ""])
        if len(text) <= MOST_CHARACTERS:
            return text
    words = "The times do not fit here: they are in report.html."
    return "\n".join([*_head(found), *_cells(found, _LONGEST[-1]), "", words, ""])[:MOST_CHARACTERS]


def _head(found: GateResult) -> list[str]:
    notes = [f"> {_plain(note)}\n" for note in found.notes]
    return [f"## {_SIGNS[found.verdict]}: {_plain(found.title)}", "", _plain(found.sentence), "", *notes]


def _again(found: GateResult) -> str:
    return f"Again: `{_plain(found.command, code=True)}`"


def _cells(found: GateResult, longest: int) -> list[str]:
    cells = sorted(found.cells, key=lambda cell: WORST_FIRST.index(cell.verdict))
    more = len(cells) - _MOST_CELLS
    return [
        "| verdict | scenario | Kafka | client | settings | runs | broke the contract, at 95 % | what is known |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(cell, longest) for cell in cells[:_MOST_CELLS]),
        *(["", f"and {more} more cells: see report.html"] if more > 0 else []),
    ]


def _row(cell: Cell, longest: int) -> str:
    unsure = len(cell.runs) - cell.told
    runs = f"{cell.told}" + (f" (+{unsure} could not tell)" if unsure else "")
    words = [
        _SIGNS[cell.verdict],
        cell.key.scenario,
        cell.key.kafka,
        cell.key.client,
        cell.key.settings + (" (reference)" if cell.reference else ""),
        runs,
        share(cell),
    ]
    return f"| {' | '.join([*(_plain(text) for text in words), _plain(cell.sentence, longest)])} |"


def share(cell: Cell) -> str:
    """`0 of 50: less than 5.8 %`, or an interval where some broke it."""
    if not cell.told:
        return "not known"
    counted = f"{cell.failed} of {cell.told}"
    if cell.failed == 0:
        return f"{counted}: less than {100 * cell.high:.1f} %"
    return f"{counted}: {100 * cell.low:.1f} to {100 * cell.high:.1f} %"


def _times(found: GateResult) -> list[str]:
    """A table of the times that are not shown to be within the margin; the others are counted."""
    if not found.comparisons:
        return []
    told = [c for mark in ("slower", "too few", "undecided") for c in found.comparisons if c.mark == mark]
    within = len(found.comparisons) - len(told)
    lines = [
        f"<details><summary>{len(found.comparisons)} times: {within} are shown to be within their margin, "
        f"{len(told)} are not</summary>",
        "",
        "| | time | cell | now | was | times | margin |",
        "|---|---|---|---|---|---|---|",
        *(_time(found, c) for c in told[:_MOST_TIMES]),
    ]
    if len(told) > _MOST_TIMES:
        lines += ["", f"and {len(told) - _MOST_TIMES} more: see report.html"]
    return [*lines, "", "</details>"]


def _time(found: GateResult, c: TimeComparison) -> str:
    ratio = f"{c.ratio:.2f}" if c.ratio is not None else "-"
    words = [
        c.mark,
        c.label,
        found.cell(c.cell).key.name,
        median(c.median_us),
        median(c.was_us),
        ratio,
        f"{c.margin:g}",
    ]
    return f"| {' | '.join(_plain(text) for text in words)} |"


def median(us: float | None) -> str:
    """A median as a person reads it."""
    return "-" if us is None else duration(round(us))


def _plain(text: str, longest: int = _LONGEST[0], *, code: bool = False) -> str:
    """Foreign text that is neither markup nor HTML nor a mention, on one line and cut where it is long."""
    text = " ".join(clean(text).split())
    text = text if len(text) <= longest else f"{text[:longest]}…"
    if code:
        return text.replace("`", "'").replace("|", "\\|")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", text)
    return text.replace("@", "@\u200b")
