"""`list`, `show`, `schema` and `reference`: what there is, and how it is written."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.cli.options import Scenario, Sets
from chaos.errors import UsageError

if TYPE_CHECKING:
    from chaos.scenario.model import Scenario as Loaded

EXAMPLES = {
    "list": "list --json",
    "show": "show leader-kill --set cluster.brokers=5",
    "schema": "schema > scenario.schema.json",
    "reference": "reference faults",
}


def list_(as_json: Annotated[bool, typer.Option("--json", help="Names and titles as JSON.")] = False) -> None:
    """List the shipped scenarios, gates and published bugs; as JSON, the scenarios."""
    from chaos.scenario.shipped import BUGS, GATES, titles

    scenarios = titles()
    if as_json:
        sys.stdout.write(json.dumps(scenarios, indent=1) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for name, title, rows in (
        ("scenario", "what happens", scenarios),
        ("gate", "what it answers", titles(GATES)),
        ("published bug", "what happens", titles(BUGS)),
    ):
        table = Table(box=None, header_style="bold")
        table.add_column(name, style="bold", no_wrap=True)
        table.add_column(title)
        for row in rows.items():
            table.add_row(*row)
        console.print(table)
        console.print()


def show(
    scenario: Scenario,
    sets: Sets = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show a scenario with every default filled in, and its timeline."""
    import yaml

    from chaos.scenario import timeline
    from chaos.scenario.load import find, load

    loaded = load(find(scenario), sets or [])
    data = loaded.model_dump(mode="json", exclude_none=True)
    if as_json:
        sys.stdout.write(json.dumps(data, indent=1) + "\n")
        return
    sys.stdout.write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120))
    sides = {name: load(find(scenario), sets or [], name) for name in loaded.variants} or {"": loaded}
    sys.stdout.write("".join(f"# {line}\n" for line in _contracts(sides)))
    sys.stdout.write("# timeline:\n")
    for step in timeline.steps(loaded.faults):
        sys.stdout.write(f"#   {step.describe()}\n")


def _contracts(sides: dict[str, Loaded]) -> Iterator[str]:
    """Yield the lines of the derived contracts of a scenario and its variants, as far as they have one."""
    from chaos.guarantees.contract import contract

    for name, side in sides.items():
        if side.expect.promised:
            yield f"contract{f' of {name}' if name else ''}, from what the settings promise under these faults:"
            yield from (f"  {line.describe()}" for line in contract(side).lines)


def schema() -> None:
    """Print the JSON Schema of a scenario, for editors."""
    from chaos.scenario.model import Scenario

    sys.stdout.write(json.dumps(Scenario.model_json_schema(), indent=1) + "\n")


class PageName(StrEnum):
    """The reference pages."""

    faults = "faults"
    checks = "checks"
    scenarios = "scenarios"
    bugs = "bugs"
    fields = "fields"


def reference(
    of: Annotated[PageName | None, typer.Argument(help="The page to print.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write all pages into the checkout.")] = False,
) -> None:
    """Print a reference as Markdown: faults, checks, shipped scenarios, or the fields of a scenario."""
    from chaos.reference import PAGES, PROJECT
    from chaos.reference import write as write_all

    if write == (of is not None):
        raise UsageError(f"give one of {', '.join(PageName)} to print it, or --write to write all of them")
    if of is not None:
        sys.stdout.write(PAGES[of].text())
        return
    changed = write_all()
    for page in PAGES.values():
        sys.stdout.write(f"{page.file.relative_to(PROJECT)}{'' if page.file in changed else ' (unchanged)'}\n")
