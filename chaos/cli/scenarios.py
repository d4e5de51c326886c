"""`list`, `show` and `schema`: what there is to run, and how to write more of it."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
import yaml
from rich.console import Console
from rich.table import Table

from chaos.gate.model import load as load_gate
from chaos.gate.model import shipped as shipped_gates
from chaos.scenario import timeline
from chaos.scenario.load import find, load
from chaos.scenario.model import Scenario
from chaos.scenario.shipped import shipped


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("list", epilog="Example: python -m chaos list --json")(list_)
    app.command(epilog="Example: python -m chaos show leader-kill --set cluster.brokers=5")(show)
    app.command(epilog="Example: python -m chaos schema > scenario.schema.json")(schema)


def list_(as_json: Annotated[bool, typer.Option("--json", help="Names and titles as JSON.")] = False) -> None:
    """List the scenarios and the gates that come with Aftershock; as JSON, the scenarios."""
    titles = {name: load(path).title for name, path in shipped().items()}
    if as_json:
        sys.stdout.write(json.dumps(titles, indent=1) + "\n")
        return
    table = Table(box=None, header_style="bold")
    table.add_column("scenario", style="bold", no_wrap=True)
    table.add_column("what happens")
    for name, title in titles.items():
        table.add_row(name, title)
    console = Console()
    console.print(table)
    gates = Table(box=None, header_style="bold")
    gates.add_column("gate", style="bold", no_wrap=True)
    gates.add_column("what is asked")
    for name, path in shipped_gates().items():
        gates.add_row(name, load_gate(path).title)
    console.print()
    console.print(gates)


def show(
    scenario: Annotated[str, typer.Argument(help="A shipped scenario's name or a YAML file.")],
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show a scenario with every default filled in, and its timeline."""
    loaded = load(find(scenario), sets or [])
    data = loaded.model_dump(mode="json", exclude_none=True)
    if as_json:
        sys.stdout.write(json.dumps(data, indent=1) + "\n")
        return
    sys.stdout.write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120))
    sys.stdout.write("# timeline:\n")
    for step in timeline.steps(loaded):
        sys.stdout.write(f"#   {step.words()}\n")


def schema() -> None:
    """Print the JSON Schema of a scenario, for editors."""
    sys.stdout.write(json.dumps(Scenario.model_json_schema(), indent=1) + "\n")
