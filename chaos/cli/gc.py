"""`gc`: end what runs without an owner left behind."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "gc --run leader-kill-20261121-040000-1a2b"


def command(
    run: Annotated[str | None, typer.Option(help="End this run, also if its owner is alive.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="End every run of Aftershock on this machine.")] = False,
) -> None:
    """End processes and containers of runs without an owner, and delete their brokers' data."""
    from rich.console import Console

    from chaos.cluster.lifecycle.gc import gc

    ended = gc(run, force_all=everything)
    for name in ended:
        Console().print(f"ended {name}", soft_wrap=True, highlight=False)
    if not ended:
        Console().print("nothing was left behind")
