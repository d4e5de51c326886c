"""Runs in a folder that is continued after an interruption: the removal of what is left of one, and its bundle."""

from __future__ import annotations

import shutil
from pathlib import Path

from chaos.cluster.lifecycle.gc import end_all
from chaos.errors import AftershockError
from chaos.incident.bundle import SUFFIX, pack
from chaos.run.directory import Run

BUNDLES = "bundles"


def remove_run(folder: Path, run_id: str) -> None:
    """End the processes of an interrupted run and delete its directory."""
    left = folder / run_id
    end_all(left)
    shutil.rmtree(left, ignore_errors=True)


def pack_run(folder: Path, run_id: str) -> str:
    """Pack a run; return the path of the bundle relative to the folder, or an empty string if that fails."""
    (folder / BUNDLES).mkdir(exist_ok=True)
    bundle = f"{BUNDLES}/{run_id}{SUFFIX}"
    try:
        pack(Run(folder / run_id), folder / bundle)
    except AftershockError:
        return ""
    return bundle
