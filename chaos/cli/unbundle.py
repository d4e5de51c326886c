"""`unbundle`: unpack a bundle into a run directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from chaos.cli.options import RUNS_DIR, RunsDir

EXAMPLE = "unbundle leader-kill-20261121-040000-1a2b.aftershock.tar.gz"


def command(
    file: Annotated[Path, typer.Argument(help="A file that `bundle` wrote.")],
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Unpack a bundle into a run directory, to read its report or to audit it again.

    Ends with 2, and writes nothing, if the bundle is cut short or altered.
    """
    from chaos.incident.bundle import unpack

    sys.stdout.write(f"{unpack(file, runs_dir).path}\n")
