"""`down`: end the cluster of a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "down runs/up-20261121-040000-1a2b"


def command(run_dir: Annotated[Path, typer.Argument(help="The run directory that `up` (or a run) printed.")]) -> None:
    """End the cluster of a run directory. Does nothing if it has ended already."""
    from chaos.cluster.lifecycle.gc import end_all
    from chaos.errors import UsageError
    from chaos.run.directory import Run

    run = Run(run_dir.absolute())
    if not run.cluster.is_file():
        raise UsageError(f"{run_dir} has no cluster.json; `python -m chaos ps` lists what runs")
    end_all(run.path)
