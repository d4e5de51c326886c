"""`list`, `show` and `schema`: what there is to run, and how to write more of it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.scenario.shipped import SHIPPED, titles

if TYPE_CHECKING:
    from rich.table import Table

GATES = SHIPPED.parent / "gates"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("list", epilog="Example: python -m chaos list --json")(list_)
    app.command(epilog="Example: python -m chaos show leader-kill --set cluster.brokers=5")(show)
    app.command(epilog="Example: python -m chaos schema > scenario.schema.json")(schema)


def list_(as_json: Annotated[bool, typer.Option("--json", help="Names and titles as JSON.")] = False) -> None:
    """List the shipped scenarios and gates; as JSON, the scenarios."""
    scenarios = titles()
    if as_json:
        sys.stdout.write(json.dumps(scenarios, indent=1) + "\n")
        return
    from rich.console import Console

    console = Console()
    console.print(_table("scenario", "what happens", scenarios))
    console.print()
    console.print(_table("gate", "what it answers", titles(GATES)))


def _table(name: str, title: str, rows: dict[str, str]) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    table.add_column(name, style="bold", no_wrap=True)
    table.add_column(title)
    for row in rows.items():
        table.add_row(*row)
    return table


def show(
    scenario: Annotated[str, typer.Argument(help="A shipped scenario's name or a YAML file.")],
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a value.")] = None,
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
    sys.stdout.write("# timeline:\n")
    for step in timeline.steps(loaded):
        sys.stdout.write(f"#   {step.describe()}\n")


def schema() -> None:
    """Print the JSON Schema of a scenario, for editors."""
    from chaos.scenario.model import Scenario

    sys.stdout.write(json.dumps(Scenario.model_json_schema(), indent=1) + "\n")
