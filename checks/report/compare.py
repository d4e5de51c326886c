"""`python -m checks.report.compare DIR`: the results of an A/B scenario's variants on one page, and in a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from markupsafe import Markup
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaos.errors import AftershockError
from chaos.run.comparison import Comparison
from chaos.run.directory import Run, write_atomically
from chaos.run.result import EXIT_CODES
from checks.report.html import PAGE, environment
from checks.report.terminal import SIGNS, STYLES
from checks.report.words import Clock
from checks.verdict.comparison import compare


def write(run: Run) -> Comparison:
    """Write `result.json`, `report.html` and `junit.xml` of the whole, and return what is in them."""
    found = compare(run)
    write_atomically(run.result, found.model_dump_json(indent=1))
    write_atomically(run.report, page(found))
    write_atomically(run.junit, _junit(run, found))
    return found


def page(found: Comparison) -> str:
    """The page as text; it needs nothing but itself, as that of a run."""
    style = Markup((PAGE / "report.css").read_text(encoding="utf-8"))  # our own file
    return environment(Clock(0)).get_template("compare.html.j2").render(c=found, style=style)


def _junit(run: Run, found: Comparison) -> str:
    """The test suites of all variants in one file, each under the name of its variant."""
    suites = ET.Element("testsuites")
    for side in found.sides:
        for suite in ET.fromstring((run.path / side.run / "junit.xml").read_text(encoding="utf-8")):
            suite.set("name", f"{suite.get('name')}.{side.name}")
            suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def show(found: Comparison, console: Console) -> None:
    """Print it for a person."""
    sign = SIGNS[found.verdict][0 if console.encoding.lower().startswith("utf") else 1]
    console.print(Text(f"{sign} {found.verdict.upper()}", STYLES[found.verdict]), Text(found.title, "bold"))
    console.print(Text(found.sentence), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    names = [side.name for side in found.sides]
    for column in ("", *names):
        table.add_column(column, overflow="fold")
    table.add_row("verdict", *(side.verdict for side in found.sides))
    for difference in found.differences:
        table.add_row(Text(difference.path), *(Text(difference.values[name]) for name in names))
    for row in found.anomalies:
        table.add_row(Text(row.name, "bold" if row.decides else ""), *(row.values[name] for name in names))
    console.print(table)
    console.print(Text(f"run again: {found.command}"), soft_wrap=True)
    console.print(Text(f"report:    {found.run_dir}/report.html"), soft_wrap=True)


def main(run_dir: str, *flags: str) -> int:
    """Write and print it."""
    try:
        found = write(Run(Path(run_dir).absolute()))
    except AftershockError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    if "--json" in flags:
        sys.stdout.write(found.model_dump_json(indent=1) + "\n")
    else:
        show(found, Console())
    return EXIT_CODES[found.verdict]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
