"""`bundle`: pack a run into one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "bundle runs/leader-kill-20261121-040000-1a2b"


def command(
    run_dir: Annotated[Path, typer.Argument(help="The directory of a run; the run may have broken off.")],
    out: Annotated[
        Path | None, typer.Option(help="The file; <run id>.aftershock.tar.gz in this folder when left out.")
    ] = None,
) -> None:
    """Pack a run into one file: scenario, seed, timeline, versions, settings, ledger, audit, result and report.

    Its manifest has the SHA-256 of every file, and the same run gives the same bytes. Ends with 0, or with 2 if there
    is no run or no space.
    """
    from rich.console import Console

    from chaos.errors import UsageError
    from chaos.incident.bundle import SUFFIX, pack
    from chaos.run.directory import Run

    run = Run(run_dir.absolute())
    if run.comparison.is_file():
        raise UsageError(f"{run_dir} is an A/B run; bundle one of its sides, a directory below it")
    run = Run.open(run_dir)
    file = out or Path(f"{run.run_id}{SUFFIX}")
    manifest = pack(run, file)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for missing in manifest.missing:
        console.print(f"missing: {missing}", markup=False)
    console.print(f"{len(manifest.files)} files, {file.stat().st_size / 1e6:.1f} MB", markup=False)
    sys.stdout.write(f"{file}\n")
