"""The end of a run, whoever brings it about: what it has outside of its processes, these, and its brokers' data."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from chaos.cluster.marked import REAPER, Marked, end, end_run, find_marked, remove_data
from chaos.cluster.processes import Identity
from chaos.errors import AftershockError


def end_all(run_dir: Path) -> list[Marked]:
    """End everything of a run but the caller, and return the processes that were ended.

    What a killed platform left half-written is no hindrance. Raises `WaitTimeout`, and `MachineError` or `ClusterError`
    where an engine or a cluster that is needed for it does not answer; the processes are gone by then.
    """
    with contextlib.suppress(AftershockError):  # first, because a frozen container's process dies only when it thaws
        clear(run_dir)
    ended = end_run(run_dir)
    try:
        clear(run_dir)  # again: what was ended just now may have made more
    finally:
        remove_data(run_dir)
    return ended


def clear(run_dir: Path) -> None:
    """Remove containers, a network or topics of a run; `cluster.json` says whether there can be any."""
    try:
        name = json.loads((run_dir / "cluster.json").read_text(encoding="utf-8"))["driver"]
    except (OSError, ValueError, KeyError, TypeError):  # nothing was deployed: the file is written before anything is
        return
    if name == "process":
        return
    from chaos.cluster import DRIVERS  # on use: the reaper imports this module and has to stay small
    from chaos.rundir import RunDir

    if name in DRIVERS:
        DRIVERS[name]().clear(RunDir(run_dir))


def gc(run: str | None = None, *, force_all: bool = False, timeout_s: float = 30) -> list[str]:
    """End what no one answers for any more, remove its brokers' data, and say what was ended, one item a line.

    That is: processes and containers whose owner is gone, and those without an owner in a run that has no reaper. `run`
    (an id or a run directory) takes everything of that run instead, `force_all` everything of every run. Raises
    `WaitTimeout`, or `ClusterError` where the Docker engine refuses to remove something.
    """
    guarded = {m.run_dir for m in find_marked() if m.role == REAPER}

    def wanted(run_id: str, run_dir: Path, owner: Identity | None) -> bool:
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


def _remove_labelled(wanted: Callable[[str, Path, Identity | None], bool]) -> list[str]:
    """Containers, networks and volumes; quiet where there is no engine that we may ask."""
    from chaos.cluster.docker import engine  # on use: it takes a third of a second to import

    found = engine.find_everywhere()
    chosen = [one for one in found if wanted(one.run_id, one.run_dir, one.owner)]
    engine.remove(chosen)
    for run_dir in {one.run_dir for one in chosen}:
        remove_data(run_dir)
    return [f"{one.kind} {one.name} of {one.run_id}" for one in chosen]
