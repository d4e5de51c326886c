"""`serve` and `report`: the web pages over a folder of runs, from this machine or as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from chaos.cli.options import RUNS_DIR, Url
from chaos.errors import UsageError

EXAMPLES = {"serve": "serve runs --port 8000", "report": "report runs --export site"}
Runs = Annotated[
    str,
    typer.Argument(metavar="RUNS_DIR", help="The folder of the runs, or its URL, such as webhdfs://host:9870/runs."),
]


def serve(
    folder: Runs = str(RUNS_DIR),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the pages; 0 for a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on. Another one than 127.0.0.1 has no login.")] = "",
    url: Url = None,
) -> None:
    """Open the web pages over all runs on this machine, until Ctrl-C.

    All runs with filters, trends, gates, proofs, and each run with its report, live while it is driven. The pages only
    read. A run is listed at once if it is in the history; `history import RUNS_DIR` adds those that are not.
    """
    from chaos.pages.opening import open_folder
    from chaos.pages.server import LOOPBACK
    from chaos.pages.server import serve as serve_pages
    from chaos.pages.site import Site

    runs = open_folder(folder)
    problem = runs.problem
    if problem and not runs.is_missing:
        raise UsageError(problem)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if problem:
        console.print(f"[bold yellow]note:[/] {escape(problem)}")
    if host not in ("", LOOPBACK):
        console.print(f"[bold yellow]note:[/] anyone who reaches {escape(host)} can read all runs: there is no login")

    def ready(address: str) -> None:
        console.print(f"[bold]{address}[/]  {escape(runs.name)} · Ctrl-C ends it")

    serve_pages(Site(runs, url), host or LOOPBACK, port, ready)
    console.print("ended")


def report(
    export: Annotated[
        Path, typer.Option("--export", metavar="DIR", file_okay=False, help="The folder to write: new, or an export.")
    ],
    folder: Runs = str(RUNS_DIR),
    url: Url = None,
) -> None:
    """Write the web pages over all runs into a folder for a static host.

    All links are relative, so the folder also opens from disk: index.html. It has every report with its Data Docs, the
    trend page, gates and proofs, but no filters and no new bundles. An earlier export there is replaced.
    """
    from chaos.pages.export import export as export_pages
    from chaos.pages.opening import open_folder

    done = export_pages(open_folder(folder), url, export)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for reason in done.left_out:
        console.print(f"[bold yellow]left out:[/] {escape(reason)}")
    console.print(f"{done.pages} pages, {done.runs} of runs: {escape(str(export / 'index.html'))}")
