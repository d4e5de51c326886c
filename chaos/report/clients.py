"""The comparison of client libraries, from its `campaign.json`: `report.html`, `summary.md`, and a table in a terminal.

Verdicts, statistics and sentences come from `chaos.campaign.compare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from chaos.report.gate import share
from chaos.report.pages import render_page, render_summary
from chaos.report.terminal import Page, table
from chaos.report.text import duration, number
from chaos.run.campaign import ClientColumn, ClientComparison, Difference, Measured, MeasureRow, ScenarioComparison

LABEL_WIDTH, VALUE_WIDTH = 24, 12
LEGAL = "duplicate_delivery legal"
SIGNS: dict[Difference, str] = {"higher": "▲", "lower": "▼", "not shown": "≈"}


def show(comparison: ClientComparison, folder: Path) -> None:
    """Print the comparison to the terminal."""
    console = Console()
    screen = Page(console)
    screen.line(Text.assemble(screen.verdict(comparison.verdict), " ", screen.text(comparison.sentence)))
    for scenario in comparison.scenarios:
        screen.line(screen.text(f"\n{scenario.scenario}: {scenario.title}", "bold"))
        ran = [column for column in scenario.columns if column.cell]
        if ran:
            needed = LABEL_WIDTH + sum(max(len(column.client), VALUE_WIDTH) + 2 for column in ran)
            console.width = max(console.width, needed)  # a table that is too wide would lose its last columns
            shown = table("", *(column.client for column in ran))
            shown.columns[0].min_width = LABEL_WIDTH
            shown.add_row("verdict", *(column.cell.verdict for column in ran if column.cell))
            for name, counts in anomalies(scenario):
                shown.add_row(screen.text(name), *(counts[column.client] for column in ran))
            for row in scenario.rows:
                shown.add_row(screen.text(row.label), *(_plain_value(row, column.client) for column in ran))
            console.print(shown)
        for column in scenario.columns:
            if column.left_out:
                screen.line(screen.text(f"left out: {column.client}: {column.left_out}"))
    for line in (*(f"note: {note}" for note in comparison.notes), f"run again: {comparison.command}"):
        screen.line(screen.text(line))
    screen.line(screen.text(f"report:    {folder}/report.html"))


def page(comparison: ClientComparison) -> str:
    """Return the page as text."""
    return render_page(
        "clients.html.j2",
        styles=("report.css", "trend.css", "clients.css"),
        scripts=("page.js",),
        link=quote,
        width=_width,
        **_values(comparison),
    )


def markdown(comparison: ClientComparison) -> str:
    """Return the summary for a pull request."""
    return render_summary("clients_summary.md.j2", **_values(comparison))


FILES = {"report.html": page, "summary.md": markdown}


def _values(comparison: ClientComparison) -> dict[str, Any]:
    return {
        "c": comparison,
        "SIGNS": SIGNS,
        "anomalies_of": anomalies,
        "groups": _groups,
        "value": format_value,
        "spread": _spread,
        "difference": describe,
        "share": lambda cell: share(cell).replace(" %", "\u00a0%"),
        "ran": lambda scenario: [column for column in scenario.columns if column.cell],
        "left_out": lambda scenario: [column for column in scenario.columns if column.left_out],
    }


def anomalies(scenario: ScenarioComparison) -> list[tuple[str, dict[str, str]]]:
    """Return each anomaly of a scenario with its count by library: `812 in 3 of 5 runs`. Measures are left out."""
    ran = [column for column in scenario.columns if column.cell]
    names = dict.fromkeys(name for column in ran for name in column.anomalies if name != LEGAL)
    return [(name.replace("_", " "), {column.client: _anomaly(column, name) for column in ran}) for name in names]


def _anomaly(column: ClientColumn, name: str) -> str:
    found = column.anomalies.get(name)
    if column.cell is None or not column.cell.conclusive:
        return "not known"
    runs = f" in {found.runs} of {column.cell.conclusive} runs" if found and column.cell.conclusive > 1 else ""
    return f"{found.count:,}{runs}" if found else "none"


def _groups(scenario: ScenarioComparison) -> Iterator[tuple[str, list[MeasureRow]]]:
    for group, rows in groupby(scenario.rows, key=lambda row: row.group):
        yield group, list(rows)


def format_value(row: MeasureRow, value: float) -> str:
    """Return a value with its unit: `9.74 s`, `1,001/s`, `97 MiB`, `12`."""
    match row.unit:
        case "us" | "us/1000":
            return duration(value)
        case "per second":
            return f"{number(value)}/s"
        case "bytes":
            return f"{value / 2**20:,.0f} MiB"
        case _:
            return number(value)


def _spread(row: MeasureRow, measured: Measured) -> str:
    """Return the smallest and the largest value; empty for a single one."""
    if measured.n < 2:
        return ""
    return f"{format_value(row, measured.low)} to {format_value(row, measured.high)}"


def describe(measured: Measured) -> str:
    """Return how a value compares with the reference: `2.10 times, higher`, `no difference shown with 5 runs`."""
    if measured.difference is None:
        return ""
    if measured.difference == "not shown":
        return f"no difference shown with {measured.n} run{'' if measured.n == 1 else 's'}"
    return measured.difference if measured.ratio is None else f"{measured.ratio:.2f} times, {measured.difference}"


def _plain_value(row: MeasureRow, client: str) -> str:
    if (measured := row.values.get(client)) is None:
        return "-"
    sign = f" {SIGNS[measured.difference]}" if measured.difference in ("higher", "lower") else ""
    return format_value(row, measured.median) + sign


def _width(row: MeasureRow, measured: Measured) -> int:
    """Return the length of a bar in percent of the longest one of the row."""
    longest = max(other.median for other in row.values.values())
    return round(100 * measured.median / longest) if longest > 0 else 0
