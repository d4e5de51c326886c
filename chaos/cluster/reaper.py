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
import sys
import time
from functools import partial
from pathlib import Path

from chaos.cluster import teardown
from chaos.errors import AftershockError
from chaos.processes.process import BESIDE, REAPER, MarkedProcess, ProcessId, end, find_marked


def end_all(run_dir: Path) -> list[MarkedProcess]:
    """End everything of a run but the caller, and return the ended processes.

    Half-written files of a killed platform are ignored. The reaper ends last: if the caller is killed, the reaper takes
    over. Raises `WaitTimeout`, and `MachineError`, `UsageError` or `ClusterError` if a Docker engine or an existing
    cluster does not answer; everything but the reaper is gone by then, and the reaper tries again.
    """
    with contextlib.suppress(AftershockError):  # a process that is frozen in a container dies only after it is thawed
        _remove_app_containers(run_dir)
    return end_beside(run_dir) + teardown.end_all(run_dir, partial(clear, run_dir))


def end_beside(run_dir: Path) -> list[MarkedProcess]:
    """End the clusters of a run beside its first one, and return the ended processes. Raises as `end_all`."""
    return [ended for other in sorted((run_dir / BESIDE).glob("*/")) for ended in end_all(other)]


def _remove_app_containers(run_dir: Path) -> None:
    """Remove the containers of applications, which a run with any driver may have."""
    if teardown.in_containers(run_dir):
        from chaos.cluster.docker import engine

        found = engine.find_labelled(engine.connect(), run_dir)
        engine.remove([item for item in found if item.role.startswith("app ")])


def clear(run_dir: Path) -> None:
    """Remove containers of applications, and containers, network or topics of the driver that `cluster.json` names."""
    try:
        _remove_app_containers(run_dir)
    finally:
        _clear_driver(run_dir)


def _clear_driver(run_dir: Path) -> None:
    name = teardown.driver_of(run_dir)
    if name in (None, "process"):
        return
    from chaos.cluster.drivers import DRIVERS, driver
    from chaos.run.directory import Run

    if name in DRIVERS:
        driver(str(name)).clear(Run(run_dir))


def gc(run: str | None = None, *, force_all: bool = False, timeout_s: float = 30) -> list[str]:
    """End what has no live owner, remove the data of its brokers, and return one line per ended item.

    That is: processes and containers with a dead owner, and those without an owner in a run that has no reaper. With
    `run` (an ID or a run directory), end everything of that run; with `force_all`, everything of every run. Raises
    `WaitTimeout`, or an `AftershockError` if a Docker engine or a cluster prevents the removal.
    """
    guarded = {p.run_dir for p in find_marked() if p.role == REAPER}

    def selected(run_id: str, run_dir: Path, owner: ProcessId | None) -> bool:
        if run is not None:
            whole = run_dir.parents[1] if run_dir.parent.name == BESIDE else run_dir
            return run in (run_id, whole.name) or Path(run).absolute() == whole
        return force_all or (run_dir not in guarded if owner is None else not owner.alive())

    from chaos.cluster.docker import engine  # on use: its import takes a third of a second

    labelled = [item for item in engine.find_everywhere() if selected(item.run_id, item.run_dir, item.owner)]
    engine.remove(labelled)
    for run_dir in {item.run_dir for item in labelled}:
        teardown.remove_data(run_dir)
    ended = end(lambda p: selected(p.run_id, p.run_dir, p.owner), timeout_s)
    in_use = {p.run_dir for p in find_marked()}
    for run_dir in {p.run_dir for p in ended} - in_use:
        clear(run_dir)
        teardown.remove_data(run_dir)
    return [
        *(f"{item.kind} {item.name} of {item.run_id}" for item in labelled),
        *(f"{p.role} of {p.run_id} (pid {p.identity.pid})" for p in ended),
    ]


CHECK_EVERY_S = 0.5


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
