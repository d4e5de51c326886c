"""`python -m checks.report.compare DIR`: compare the variants of an A/B scenario, on a page and in a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaos.errors import AftershockError
from chaos.run.comparison import Comparison
from chaos.run.directory import Run, write_atomically
from chaos.run.result import EXIT_CODES
from checks.report.junit import to_xml
from checks.report.pages import render_page
from checks.report.terminal import SIGNS, STYLES
from checks.report.text import Clock
from checks.verdict.comparison import compare


def write(run: Run) -> Comparison:
    """Write `result.json`, `report.html` and `junit.xml` of the comparison, and return it."""
    comparison = compare(run)
    write_atomically(run.result, comparison.model_dump_json(indent=1))
    write_atomically(run.report, page(comparison))
    write_atomically(run.junit, _junit(run, comparison))
    return comparison


def page(comparison: Comparison) -> str:
    """Return the page as text."""
    return render_page("compare.html.j2", Clock(0), styles=("report.css",), scripts=(), c=comparison)


def _junit(run: Run, comparison: Comparison) -> str:
    """Return the test suites of all variants, each with the name of its variant."""
    suites = []
    for side in comparison.sides:
        for suite in ET.fromstring((run.path / side.run / "junit.xml").read_text(encoding="utf-8")):
            suite.set("name", f"{suite.get('name')}.{side.name}")
            suites.append(suite)
    return to_xml(suites)


def show(comparison: Comparison, console: Console) -> None:
    """Print the comparison to a terminal."""
    verdict = comparison.verdict
    sign = SIGNS[verdict][0 if console.encoding.lower().startswith("utf") else 1]
    console.print(Text(f"{sign} {verdict.upper()}", STYLES[verdict]), Text(comparison.title, "bold"))
    console.print(Text(comparison.sentence), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    names = [side.name for side in comparison.sides]
    for column in ("", *names):
        table.add_column(column, overflow="fold")
    table.add_row("verdict", *(side.verdict for side in comparison.sides))
    for difference in comparison.differences:
        table.add_row(Text(difference.path), *(Text(difference.values[name]) for name in names))
    for row in comparison.anomalies:
        table.add_row(Text(row.name, "bold" if row.decides else ""), *(row.values[name] for name in names))
    console.print(table)
    console.print(Text(f"run again: {comparison.command}"), soft_wrap=True)
    console.print(Text(f"report:    {comparison.run_dir}/report.html"), soft_wrap=True)


def main(run_dir: str, *flags: str) -> int:
    """Write and print the comparison, and return the exit code of its verdict."""
    try:
        comparison = write(Run(Path(run_dir).absolute()))
    except AftershockError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    if "--json" in flags:
        sys.stdout.write(comparison.model_dump_json(indent=1) + "\n")
    else:
        show(comparison, Console())
    return EXIT_CODES[comparison.verdict]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
