"""Every process of every run on this machine, found by its marks; and the end of those nobody answers for any more."""

from __future__ import annotations

import os
import shutil
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
class Marked:
    """A process that belongs to a run, or is a child of one that does."""

    identity: ProcessId
    created: float  # seconds since the epoch
    role: str
    run_id: str
    run_dir: Path
    owner: ProcessId | None  # None: meant to outlive its starter
    owner_alive: bool | None  # None: it has no owner
    state: str  # as psutil calls it: running, sleeping, stopped (paused), ...
    rss_bytes: int


def find_marked() -> list[Marked]:
    """All marked processes of this machine whose environment may be read, sorted by run and role.

    Those of a platform in a container are left out: whether their owner lives cannot be told from here.
    """
    import psutil  # on use: the reaper imports this module and needs psutil only for its last act

    found, here = [], pid_namespace()
    for process in psutil.process_iter():
        try:
            env = process.environ()
            if env.get(RUN_DIR) and env.get(PIDS, here) == here and process.status() != psutil.STATUS_ZOMBIE:
                found.append(_marked(ProcessId.of(process.pid), process, env))
        except (psutil.Error, OSError):  # gone meanwhile, or another user's
            continue
    return sorted(found, key=lambda m: (str(m.run_dir), m.role, m.identity))


def _marked(identity: ProcessId, process: psutil.Process, env: dict[str, str]) -> Marked:
    try:
        owner = ProcessId.parse(env.get(OWNER, ""))
    except ValueError:
        owner = None
    return Marked(
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


def end_run(run_dir: Path, timeout_s: float = 30) -> list[Marked]:
    """SIGKILL everything of a run but the caller, and return it once it is gone. Raises `WaitTimeout`."""
    return end(lambda m: m.run_dir == run_dir, timeout_s)


def remove_data(run_dir: Path) -> None:
    """Remove the brokers' data of a run; everything else in the run directory stays."""
    shutil.rmtree(run_dir / "brokers", ignore_errors=True)


def end(wanted: Callable[[Marked], bool], timeout_s: float) -> list[Marked]:
    """SIGKILL all that are wanted but the caller, and return them once they are gone. Raises `WaitTimeout`.

    It looks at the whole machine until none is left: a process killed now may just have started another.
    """
    ended: dict[ProcessId, Marked] = {}
    deadline = time.monotonic() + timeout_s
    while found := [m for m in find_marked() if wanted(m) and m.identity.pid != os.getpid()]:
        if time.monotonic() > deadline:
            raise WaitTimeout(f"could not end {', '.join(f'{m.role} ({m.identity.pid})' for m in found)}")
        ended.update((m.identity, m) for m in found if m.identity.signal(signal.SIGKILL))
        wait_gone([m.identity for m in found], timeout_s)
    return list(ended.values())
