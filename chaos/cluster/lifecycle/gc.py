"""The end of a run, whoever brings it about: what it has outside of its processes, these, and its brokers' data."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from chaos.errors import AftershockError
from chaos.processes.process import ProcessId
from chaos.processes.process_table import REAPER, Marked, end, end_run, find_marked, remove_data

END_TIMEOUT_S = 30.0


def end_all(run_dir: Path) -> list[Marked]:
    """End everything of a run but the caller, and return the processes that were ended.

    What a killed platform left half-written is no hindrance. The reaper goes last, so that it takes over should the
    caller be killed meanwhile. Raises `WaitTimeout`, and `MachineError`, `UsageError` or `ClusterError` where an engine
    or a cluster that is needed for it does not answer; all but the reaper is gone by then, and it will try again.
    """
    if _driver(run_dir) == "docker":
        with contextlib.suppress(AftershockError):
            clear(run_dir)  # first, because a frozen container's process dies only when it thaws
    ended = end(lambda m: m.run_dir == run_dir and m.role != REAPER, END_TIMEOUT_S)
    try:
        clear(run_dir)  # what was ended just now made no more of it from here on
    finally:
        remove_data(run_dir)
    return ended + end_run(run_dir)


def clear(run_dir: Path) -> None:
    """Remove containers, a network or topics of a run; `cluster.json` says whether there can be any."""
    name = _driver(run_dir)
    if name in (None, "process"):
        return
    from chaos.cluster.drivers import DRIVERS  # on use: the reaper imports this module and has to stay small
    from chaos.run.directory import Run

    if name in DRIVERS:
        DRIVERS[name]().clear(Run(run_dir))


def _driver(run_dir: Path) -> str | None:
    """The driver of a run; None if nothing was deployed, for the file is written before anything is."""
    try:
        return str(json.loads((run_dir / "cluster.json").read_text(encoding="utf-8"))["driver"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def gc(run: str | None = None, *, force_all: bool = False, timeout_s: float = 30) -> list[str]:
    """End what no one answers for any more, remove its brokers' data, and say what was ended, one item a line.

    That is: processes and containers whose owner is gone, and those without an owner in a run that has no reaper. `run`
    (an id or a run directory) takes everything of that run instead, `force_all` everything of every run. Raises
    `WaitTimeout`, or an `AftershockError` where an engine or a cluster does not let something be removed.
    """
    guarded = {m.run_dir for m in find_marked() if m.role == REAPER}

    def wanted(run_id: str, run_dir: Path, owner: ProcessId | None) -> bool:
        if run is not None:
            return run == run_id or Path(run).absolute() == run_dir
        return force_all or (run_dir not in guarded if owner is None else not owner.alive())

    removed = _remove_labelled(wanted)
    ended = end(lambda m: wanted(m.run_id, m.run_dir, m.owner), timeout_s)
    in_use = {m.run_dir for m in find_marked()}
    for run_dir in {m.run_dir for m in ended} - in_use:
        clear(run_dir)
        remove_data(run_dir)
    return removed + [f"{m.role} of {m.run_id} (pid {m.identity.pid})" for m in ended]


def _remove_labelled(wanted: Callable[[str, Path, ProcessId | None], bool]) -> list[str]:
    """Containers, networks and volumes; quiet where there is no engine that we may ask."""
    from chaos.cluster.docker import engine  # on use: it takes a third of a second to import

    found = engine.find_everywhere()
    chosen = [one for one in found if wanted(one.run_id, one.run_dir, one.owner)]
    engine.remove(chosen)
    for run_dir in {one.run_dir for one in chosen}:
        remove_data(run_dir)
    return [f"{one.kind} {one.name} of {one.run_id}" for one in chosen]
