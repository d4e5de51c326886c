"""`list`: the shipped scenarios and gates."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from chaos.scenario.shipped import GATES, titles

EXAMPLE = "list --json"


def command(as_json: Annotated[bool, typer.Option("--json", help="Names and titles as JSON.")] = False) -> None:
    """List the shipped scenarios and gates; as JSON, the scenarios."""
    scenarios = titles()
    if as_json:
        sys.stdout.write(json.dumps(scenarios, indent=1) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for name, title, rows in (("scenario", "what happens", scenarios), ("gate", "what it answers", titles(GATES))):
        table = Table(box=None, header_style="bold")
        table.add_column(name, style="bold", no_wrap=True)
        table.add_column(title)
        for row in rows.items():
            table.add_row(*row)
        console.print(table)
        if name == "scenario":
            console.print()
