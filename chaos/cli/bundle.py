"""`bundle` and `unbundle`: a run as one file, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from chaos.cli.run import RUNS_DIR, RunsDir
from chaos.errors import UsageError
from chaos.run.directory import Run


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: python -m chaos bundle runs/leader-kill-20261121-040000-1a2b")(bundle)
    app.command(epilog="Example: python -m chaos unbundle leader-kill-20261121-040000-1a2b.aftershock.tar.gz")(unbundle)


def bundle(
    run_dir: Annotated[str, typer.Argument(help="The directory of a run, also of one that broke off.")],
    out: Annotated[Path | None, typer.Option(help="The file; <run id>.aftershock.tar.gz here when left out.")] = None,
) -> None:
    """Pack a run into one file: scenario, seed, timeline, versions, settings, ledger, audit, result and report.

    Its manifest has the SHA-256 of every file, and the same run gives the same bytes. Ends with 0, or with 2 where
    there is no run or no room.
    """
    from chaos.incident.bundle import SUFFIX, pack

    if (Path(run_dir) / "comparison.json").is_file():
        raise UsageError(f"{run_dir} is an A/B run; bundle one of its sides, a directory below it")
    run = Run.open(Path(run_dir))
    file = out or Path(f"{run.run_id}{SUFFIX}")
    manifest = pack(run, file)
    told = Console(stderr=True, soft_wrap=True, highlight=False)
    for missing in manifest.missing:
        told.print(f"missing: {missing}", markup=False)
    told.print(f"{len(manifest.files)} files, {file.stat().st_size / 1e6:.1f} MB", markup=False)
    sys.stdout.write(f"{file}\n")


def unbundle(
    file: Annotated[Path, typer.Argument(help="A file that `bundle` made.")],
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Make the run directory of a bundle again, to look at its report or audit it again.

    Ends with 2 where the bundle was cut short or altered, and then makes nothing.
    """
    from chaos.incident.bundle import unpack

    sys.stdout.write(f"{unpack(file, runs_dir).path}\n")
