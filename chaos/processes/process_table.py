"""The marked processes of all runs on this machine: how to find and end them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.errors import WaitTimeout
from chaos.processes.process import OWNER, PIDS, ROLE, RUN, RUN_DIR, ProcessId, pid_namespace, wait_gone

if TYPE_CHECKING:
    import psutil

REAPER = "reaper"


@dataclass(frozen=True)
class MarkedProcess:
    """A process of a run, or a child of one, which inherits the marks."""

    identity: ProcessId
    created: float  # seconds since the epoch
    role: str
    run_id: str
    run_dir: Path
    owner: ProcessId | None  # None: it may outlive its starter
    owner_alive: bool | None  # None: it has no owner
    state: str  # as in psutil: running, sleeping, stopped (paused), ...
    rss_bytes: int


def find_marked() -> list[MarkedProcess]:
    """Return all marked processes of this machine with a readable environment, sorted by run and role.

    Processes of a platform in a container are left out: the state of their owners is unknown here.
    """
    import psutil  # on use: the reaper imports this module and needs psutil only at its end

    processes, namespace = [], pid_namespace()
    for process in psutil.process_iter():
        try:
            env = process.environ()
            if env.get(RUN_DIR) and env.get(PIDS, namespace) == namespace and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(_marked(ProcessId.of(process.pid), process, env))
        except (psutil.Error, OSError):  # ended meanwhile, or of another user
            continue
    return sorted(processes, key=lambda p: (str(p.run_dir), p.role, p.identity))


def _marked(identity: ProcessId, process: psutil.Process, env: dict[str, str]) -> MarkedProcess:
    owner = ProcessId.parse_or_none(env.get(OWNER, ""))
    return MarkedProcess(
        identity=identity,
        created=process.create_time(),
        role=env.get(ROLE, ""),
        run_id=env.get(RUN, ""),
        run_dir=Path(env[RUN_DIR]),
        owner=owner,
        owner_alive=None if owner is None else owner.alive(),
        state=process.status(),
        rss_bytes=process.memory_info().rss,
    )


def end_run(run_dir: Path, timeout_s: float = 30) -> list[MarkedProcess]:
    """Kill all processes of a run but the caller, and return them when they are gone. Raises `WaitTimeout`."""
    return end(lambda p: p.run_dir == run_dir, timeout_s)


def end(selected: Callable[[MarkedProcess], bool], timeout_s: float) -> list[MarkedProcess]:
    """Kill all selected processes but the caller, and return them when they are gone. Raises `WaitTimeout`.

    The search repeats until it selects none, because a killed process may have started another one.
    """
    ended: dict[ProcessId, MarkedProcess] = {}
    deadline = time.monotonic() + timeout_s
    while processes := [p for p in find_marked() if selected(p) and p.identity.pid != os.getpid()]:
        if time.monotonic() > deadline:
            raise WaitTimeout(f"could not end {', '.join(f'{p.role} ({p.identity.pid})' for p in processes)}")
        ended.update((p.identity, p) for p in processes if p.identity.signal(signal.SIGKILL))
        wait_gone([p.identity for p in processes], timeout_s)
    return list(ended.values())
