"""`incident`: write a scenario from the logs of an incident."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Write a scenario from the logs of an incident.")


@app.callback()
def _group() -> None:
    """Write a scenario from the logs of an incident."""


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
    out: Annotated[Path | None, typer.Option(help="Write the scenario to this file, not to standard output.")] = None,
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of times without one in the logs; UTC if left out.")
    ] = None,
    clients: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings of producers and consumers: properties or YAML.")
    ] = None,
) -> None:
    """Write a draft of a scenario from logs of brokers (Kafka 2.8 to 4.3), with sources and TODOs."""
    from chaos.cli.view import View
    from chaos.incident.from_logs import FromLogsRequest
    from chaos.incident.from_logs import from_logs as write_draft
    from chaos.incident.logs.yaml_page import plain

    with View() as view:
        text = write_draft(FromLogsRequest(folder, out, timezone, clients), lambda message: view.say(plain(message)))
    if out is None:
        sys.stdout.write(text)
