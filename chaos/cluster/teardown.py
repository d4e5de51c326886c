"""The end of a run: its processes, what its driver keeps outside of them, and the data of its brokers.

The reaper imports this module and lives as long as a run, so the imports are few.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from chaos.errors import AftershockError
from chaos.processes.process import REAPER, MarkedProcess, end, end_run

Clear = Callable[[], None]
"""Removes what a driver keeps outside of the processes of a run: containers, a network, topics."""
CONTAINER = "container"
"""The file in the folder of an instance of an application that says that it runs in a container."""

_TIMEOUT_S = 30.0


def end_all(run_dir: Path, clear: Clear) -> list[MarkedProcess]:
    """End everything of a run but the caller, and return the ended processes.

    The reaper ends last: if the caller is killed or `clear` fails, the reaper tries again. Raises `WaitTimeout`, or the
    error of `clear`; everything but the reaper is gone by then.
    """
    return end_all_but_reaper(run_dir, clear) + end_run(run_dir)


def end_all_but_reaper(run_dir: Path, clear: Clear) -> list[MarkedProcess]:
    """Do the same as `end_all`, but leave the reaper alive."""

    def clear_if_deployed() -> None:
        if (run_dir / "cluster.json").exists():  # written before anything is deployed
            clear()

    if driver_of(run_dir) == "docker":  # a process that is frozen in a container dies only after it is thawed
        with contextlib.suppress(AftershockError):
            clear_if_deployed()
    ended = end(lambda p: p.run_dir == run_dir and p.role != REAPER, _TIMEOUT_S)
    try:
        clear_if_deployed()  # again: a process may have created something before it ended
    finally:
        remove_data(run_dir)
    return ended


def driver_of(run_dir: Path) -> str | None:
    """Return the driver of a run; None if nothing was deployed, because `cluster.json` is written first."""
    try:
        return str(json.loads((run_dir / "cluster.json").read_text(encoding="utf-8"))["driver"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_data(run_dir: Path) -> None:
    """Remove the data of the brokers of a run, and files with secrets; keep everything else in the run directory."""
    shutil.rmtree(run_dir / "brokers", ignore_errors=True)
    remove_secret_files(run_dir)


def in_containers(run_dir: Path) -> bool:
    """Return whether an application of a run has containers, or had some."""
    return any((run_dir / "apps").glob(f"*/{CONTAINER}"))


def remove_secret_files(run_dir: Path) -> None:
    """Remove the files of applications that only their owner may read: these have a password.

    A file for a container is in a folder that only the owner may enter.
    """
    for file in (run_dir / "apps").glob("*/files/**/*"):
        with contextlib.suppress(OSError):
            instance = run_dir / "apps" / file.relative_to(run_dir / "apps").parts[0]
            if file.is_file() and not all(path.stat().st_mode & 0o077 for path in (file, instance)):
                file.unlink()
