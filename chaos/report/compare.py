"""The comparison of the variants of an A/B scenario, on a page and in a terminal."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from rich.console import Console
from rich.text import Text

from chaos.report.junit import to_xml
from chaos.report.pages import render_page
from chaos.report.terminal import Page, table
from chaos.run.directory import Run
from chaos.run.result import Comparison


def page(comparison: Comparison) -> str:
    """Return the page as text."""
    return render_page("compare.html.j2", c=comparison)


def junit(run: Run, comparison: Comparison) -> str:
    """Return the test suites of all variants, each with the name of its variant."""
    suites = []
    for name, folder in ((side.name, folder) for side in comparison.sides for folder in side.runs):
        for suite in ET.fromstring((run.path / folder / "junit.xml").read_text(encoding="utf-8")):
            number = folder.removeprefix(f"{run.run_id}-{name}").replace("-", ".")
            suite.set("name", f"{suite.get('name')}.{name}{number}")
            suites.append(suite)
    return to_xml(suites)


def show(comparison: Comparison, console: Console) -> None:
    """Print the comparison to a terminal."""
    screen = Page(console)
    screen.line(Text.assemble(screen.verdict(comparison.verdict), " ", screen.text(comparison.title, "bold")))
    screen.line(screen.text(comparison.sentence))
    names = [side.name for side in comparison.sides]
    columns = table("", *names)
    columns.add_row("verdict", *(side.verdict for side in comparison.sides))
    for difference in comparison.differences:
        columns.add_row(screen.text(difference.path), *(screen.text(difference.values[name]) for name in names))
    for row in [*comparison.anomalies, *comparison.rebalances]:
        columns.add_row(screen.text(row.name, "bold" if row.decides else ""), *(row.values[name] for name in names))
    for row in [time for time in comparison.times if "unavailability (max)" in time.name]:
        columns.add_row(screen.text(row.name), *(row.values[name] for name in names))
    console.print(columns)
    screen.line(screen.text(f"run again: {comparison.command}"))
    screen.line(screen.text(f"report:    {comparison.run_dir}/report.html"))
