"""The end of runs: by their owner, by garbage collection (`gc`), and by the reaper when nothing else can.

    python -m chaos.cluster.reaper RUN_DIR --deadline SECONDS [--owner PID:STARTED]

The reaper of a run starts before the first broker. When the owner is gone or the deadline has passed, it ends
everything marked with this run, removes the data of the brokers, writes the reason to `logs/reaper.log`, and exits. A
run that ends normally also ends its reaper. The reaper may live for days with the brokers, so its imports are few,
and drivers are imported only on use.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from chaos.errors import AftershockError
from chaos.processes.process import REAPER, MarkedProcess, ProcessId, end, end_run, find_marked

Clear = Callable[[], None]
"""Removes what a driver keeps outside of the processes of a run: containers, a network, topics."""
CHECK_EVERY_S = 0.5
_TIMEOUT_S = 30.0


def end_all(run_dir: Path, clear: Clear | None = None) -> list[MarkedProcess]:
    """End everything of a run but the caller, and return the ended processes. clear: of the driver in `cluster.json`.

    Half-written files of a killed platform are ignored. The reaper ends last: if the caller is killed or `clear` fails,
    the reaper tries again. Raises `WaitTimeout`, and `MachineError`, `UsageError` or `ClusterError` if a Docker engine
    or an existing cluster does not answer; everything but the reaper is gone by then.
    """
    return end_all_but_reaper(run_dir, clear or partial(clear_outside, run_dir)) + end_run(run_dir)


def clear_outside(run_dir: Path) -> None:
    """Remove the containers, the network or the topics of a run, if `cluster.json` names a driver that has any."""
    name = driver_of(run_dir)
    if name in (None, "process"):
        return
    from chaos.cluster.drivers import DRIVERS, driver
    from chaos.run.directory import Run

    if name in DRIVERS:
        driver(str(name)).clear(Run(run_dir))


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


def remove_secret_files(run_dir: Path) -> None:
    """Remove the files of applications that only their owner may read: these have a password."""
    for file in (run_dir / "apps").glob("*/files/**/*"):
        with contextlib.suppress(OSError):
            if file.is_file() and not file.stat().st_mode & 0o077:
                file.unlink()


def gc(run: str | None = None, *, force_all: bool = False, timeout_s: float = 30) -> list[str]:
    """End what has no live owner, remove the data of its brokers, and return one line per ended item.

    That is: processes and containers with a dead owner, and those without an owner in a run that has no reaper. With
    `run` (an ID or a run directory), end everything of that run; with `force_all`, everything of every run. Raises
    `WaitTimeout`, or an `AftershockError` if a Docker engine or a cluster prevents the removal.
    """
    guarded = {p.run_dir for p in find_marked() if p.role == REAPER}

    def selected(run_id: str, run_dir: Path, owner: ProcessId | None) -> bool:
        if run is not None:
            return run == run_id or Path(run).absolute() == run_dir
        return force_all or (run_dir not in guarded if owner is None else not owner.alive())

    from chaos.cluster.docker import engine  # on use: its import takes a third of a second

    labelled = [item for item in engine.find_everywhere() if selected(item.run_id, item.run_dir, item.owner)]
    engine.remove(labelled)
    for run_dir in {item.run_dir for item in labelled}:
        remove_data(run_dir)
    ended = end(lambda p: selected(p.run_id, p.run_dir, p.owner), timeout_s)
    in_use = {p.run_dir for p in find_marked()}
    for run_dir in {p.run_dir for p in ended} - in_use:
        clear_outside(run_dir)
        remove_data(run_dir)
    return [
        *(f"{item.kind} {item.name} of {item.run_id}" for item in labelled),
        *(f"{p.role} of {p.run_id} (pid {p.identity.pid})" for p in ended),
    ]


def wait_for_end(owner: ProcessId | None, deadline_s: float) -> str:
    """Wait until the run must end, and return the reason. `deadline_s` counts from now."""
    deadline = time.monotonic() + deadline_s
    while True:
        if owner is not None and not owner.alive():
            return f"its owner, process {owner.pid}, is gone"
        left = deadline - time.monotonic()
        if left <= 0:
            return f"its deadline of {deadline_s:g} s has passed"
        time.sleep(min(CHECK_EVERY_S, left))


def main(argv: list[str] | None = None) -> int:
    """Run the reaper; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m chaos.cluster.reaper", description="End what a run left behind.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--deadline", type=float, required=True, help="seconds from now")
    parser.add_argument("--owner", type=ProcessId.parse, help="PID:STARTED of the owner of the run")
    args = parser.parse_args(argv)

    run_dir: Path = args.run_dir
    _log(f"watching {run_dir.name}: owner {args.owner or 'none'}, deadline in {args.deadline:g} s")
    _log(f"ending {run_dir.name}: {wait_for_end(args.owner, args.deadline)}")
    ended = _end(run_dir)
    time.sleep(CHECK_EVERY_S)  # the owner may have been killed while it started a process
    ended += _end(run_dir)
    _log(f"ended {', '.join(f'{p.role} ({p.identity.pid})' for p in ended) or 'nothing: everything was gone'}")
    return 0


def _end(run_dir: Path) -> list[MarkedProcess]:
    try:
        return end_all(run_dir)
    except AftershockError as e:
        _log(f"something is left of {run_dir.name}: {e}; end it with: python -m chaos gc --run {run_dir.name}")
        return []


def _log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
