"""`incident`: from the logs of an incident to a scenario."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from chaos.cli.view import View
from chaos.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="From the logs of an incident to a scenario.")


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="incident")


@app.callback()
def _group() -> None:
    """From the logs of an incident to a scenario."""


@app.command(
    "from-logs",
    epilog="Example: python -m chaos incident from-logs logs/ --timezone Europe/Berlin --clients app.properties "
    "--out incident.yaml",
)
def from_logs(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Logs of brokers: a folder or file each, also rotated or gzipped."),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the scenario here, not to the standard output.")] = None,
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of times that are written without one; UTC if left out.")
    ] = None,
    clients: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings of producers and consumers: properties or YAML.")
    ] = None,
) -> None:
    """Write the skeleton of a scenario from logs of brokers (Kafka 2.8 to 4.3), with sources and TODOs."""
    from chaos.incident.logs.scenario_draft import draft_scenario
    from chaos.incident.logs.yaml_page import plain

    if out is not None and out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file, such as {out / 'incident.yaml'}")
    with View() as view:
        text = draft_scenario(folder, timezone, clients, lambda words: view.say(escape(plain(words))))
        if out is None:
            sys.stdout.write(text)
            return
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as e:
            raise UsageError(f"--out {out} cannot be written: {e.strerror}") from None
        todos = text.count("# TODO:")
        view.say(f"{escape(str(out))}: {todos} TODOs to look at; then: python -m chaos show {escape(str(out))}")
