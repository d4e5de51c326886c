"""Garbage collection: the end of one run, or of all runs without a live owner, for any driver.

The reaper imports this module, so the drivers are imported only on use.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chaos.cluster import teardown
from chaos.processes.process import ProcessId
from chaos.processes.process_table import REAPER, MarkedProcess, end, find_marked


def end_all(run_dir: Path) -> list[MarkedProcess]:
    """End everything of a run but the caller, and return the ended processes.

    Half-written files of a killed platform are ignored. The reaper ends last: if the caller is killed, the reaper takes
    over. Raises `WaitTimeout`, and `MachineError`, `UsageError` or `ClusterError` if a Docker engine or an existing
    cluster does not answer; everything but the reaper is gone by then, and the reaper tries again.
    """
    return teardown.end_all(run_dir, partial(clear, run_dir))


def clear(run_dir: Path) -> None:
    """Remove the containers, the network or the topics of a run, if `cluster.json` names a driver that has any."""
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
            return run == run_id or Path(run).absolute() == run_dir
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
