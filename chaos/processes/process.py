"""Processes of a run: started with a mark, known by pid *and* start time, found again on the whole machine.

A pid alone names nothing: it is given to another process sooner or later. An `ProcessId` adds the start time, and
nothing here signals a process whose start time is not the expected one.

Everything a run starts carries environment variables that its own children inherit:

    AFTERSHOCK_RUN      run id
    AFTERSHOCK_RUN_DIR  absolute path of the run directory; this, not the id, is what tells two runs apart
    AFTERSHOCK_ROLE     broker-1, producer shop/1, reaper, ...
    AFTERSHOCK_OWNER    <pid>:<start time> of the process that answers for it; empty if it is to outlive its starter
    AFTERSHOCK_PIDS     the pid namespace in which that pid is meant: in a container the same number is somebody else

So `ps`, `gc` and the reaper need no list of pids that a crash could have left unwritten.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from chaos.errors import ClusterError
from chaos.wait import wait_until

if TYPE_CHECKING:
    from chaos.run.directory import Run

RUN, RUN_DIR, ROLE, OWNER = "AFTERSHOCK_RUN", "AFTERSHOCK_RUN_DIR", "AFTERSHOCK_ROLE", "AFTERSHOCK_OWNER"
PIDS = "AFTERSHOCK_PIDS"
MARKS = (RUN, RUN_DIR, ROLE, OWNER, PIDS)

PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True, order=True)
class ProcessId:
    """One process, for ever: its pid, and when it started.

    `started` is in seconds since boot on Linux, since the epoch elsewhere: only good for comparing. The kernel's time
    since boot is not moved when the clock is set; a start time computed from the clock would be, and a run's owner
    would then seem to be gone.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The process that has this pid now. Raises `ProcessLookupError` if none has."""
        found = _state_and_start(pid)
        if found is None:
            raise ProcessLookupError(f"there is no process {pid}")
        return cls(pid, found[1])

    @classmethod
    def current(cls) -> ProcessId:
        """The process that asks."""
        return cls.of(os.getpid())

    @classmethod
    def parse(cls, text: str) -> ProcessId:
        """The reverse of `str()`. Raises `ValueError`."""
        pid, _, started = text.partition(":")
        return cls(int(pid), float(started))

    def __str__(self) -> str:
        return f"{self.pid}:{self.started!r}"

    def alive(self) -> bool:
        """Whether the process still runs (or is paused). One that ended and was not yet reaped does not."""
        found = _state_and_start(self.pid)
        return found is not None and found[0] not in "ZX" and found[1] == self.started

    def signal(self, number: int) -> bool:
        """Send a signal to this very process; False if it is gone, whoever has its pid by now."""
        try:
            handle = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        except ProcessLookupError:
            return False
        except OSError:  # a kernel without it
            handle = None
        try:
            # the handle holds on to whatever has the pid now, so nothing can slip in between the check and the signal
            if not self.alive():
                return False
            if handle is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
            return True
        except ProcessLookupError:
            return False
        finally:
            if handle is not None:
                os.close(handle)


def _state_and_start(pid: int) -> tuple[str, float] | None:
    """The state letter as in `ps` and the start time of a process; None if there is none."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()  # the name before it may hold anything, even spaces and brackets
        return fields[0], int(fields[19]) / os.sysconf("SC_CLK_TCK")
    else:
        import psutil

        try:
            process = psutil.Process(pid)
            return "Z" if process.status() == psutil.STATUS_ZOMBIE else "S", process.create_time()
        except psutil.Error:
            return None


@dataclass(frozen=True)
class Spawned:
    """A process just started: the handle of its parent, and who it is for everybody else."""

    popen: subprocess.Popen[bytes]
    identity: ProcessId


def marks_of(run: Run, role: str, owner: ProcessId | None) -> dict[str, str]:
    """The marks of something that belongs to a run, as environment variables."""
    return {
        RUN: run.run_id,
        RUN_DIR: str(run.path),
        ROLE: role,
        OWNER: str(owner) if owner else "",
        PIDS: pid_namespace(),
    }


def pid_namespace() -> str:
    """Which pids this process means; empty where there is but one kind."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def spawn(
    argv: Sequence[str],
    *,
    run: Run,
    role: str,
    owner: ProcessId | None,
    log: Path | None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Spawned:
    """Start a marked process of a run in a session of its own, so that Ctrl-C in a terminal reaches only the platform.

    What it writes is appended to `log` (nowhere if None); with `stdout` given, only stderr is. `env` is added to this
    process's environment. `python -m chaos...` finds this package wherever it is started. From its return on, the
    process is found by its marks. Raises `OSError`.
    """
    marks = marks_of(run, role, owner)
    path = os.pathsep.join(filter(None, [PACKAGE_ROOT, os.environ.get("PYTHONPATH")]))
    with contextlib.ExitStack() as files:
        sink: int | IO[bytes] = subprocess.DEVNULL if log is None else files.enter_context(log.open("ab"))
        popen = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=sink if stdout is None else stdout,
            stderr=sink,
            env={**os.environ, "PYTHONPATH": path, **(env or {}), **marks},
            cwd=cwd,
            start_new_session=True,
        )
    # even if it ended at once it can still be looked at: only its parent can clear it away, and that is this process
    identity = ProcessId.of(popen.pid)
    wait_until(lambda: _shows_marks(popen.pid) or not identity.alive(), 10, f"{argv[0]} shows no environment", 0.001)
    return Spawned(popen, identity)


def _shows_marks(pid: int) -> bool:
    """Whether others can read the environment: on Linux it is empty for an instant while a program is being loaded."""
    if sys.platform != "linux":
        return True
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() != b""
    except OSError:
        return True  # ended meanwhile, or it took on another user's rights


def wait_gone(processes: Iterable[ProcessId], timeout_s: float) -> None:
    """Wait until none of these processes runs any more. Raises `WaitTimeout` naming those that do."""
    left = set(processes)

    def gone() -> bool:
        left.difference_update([p for p in left if not p.alive()])
        return not left

    wait_until(gone, timeout_s, lambda: f"still running: {', '.join(str(p.pid) for p in sorted(left))}", every_s=0.01)


def kill(process: ProcessId, timeout_s: float = 10) -> bool:
    """SIGKILL (which ends a paused process too) and wait until it is gone; False if it was gone before."""
    sent = process.signal(signal.SIGKILL)
    wait_gone([process], timeout_s)
    return sent


def terminate(process: ProcessId, timeout_s: float) -> bool:
    """SIGTERM and wait until it is gone; False if it was gone before. Raises `WaitTimeout`."""
    sent = process.signal(signal.SIGTERM)
    wait_gone([process], timeout_s)
    return sent


def pause(process: ProcessId) -> bool:
    """SIGSTOP, and wait until it stands still; False if it is gone."""
    if not process.signal(signal.SIGSTOP):
        return False
    wait_until(lambda: _is_paused(process) or not process.alive(), 10, f"process {process.pid} does not stop", 0.005)
    return process.alive()


def cont(process: ProcessId) -> bool:
    """SIGCONT; False if it is gone."""
    return process.signal(signal.SIGCONT)


def limit_files(process: ProcessId, most_bytes: int | None) -> bool:
    """Let no file that the process writes grow beyond so many bytes (None: any size); False if it is gone.

    Only the soft limit changes, so that it can be lifted again without privileges. Raises `ClusterError` where this
    machine cannot do that to a running process.
    """
    if sys.platform != "linux":
        raise ClusterError("the size of files can be limited in a running process on Linux only")
    if not process.alive():
        return False
    import resource

    try:
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        soft = hard if most_bytes is None else most_bytes
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    except ProcessLookupError:
        return False
    except (OSError, ValueError) as e:
        raise ClusterError(f"the files of process {process.pid} could not be limited: {e}") from None
    return True


def _is_paused(process: ProcessId) -> bool:
    found = _state_and_start(process.pid)
    # only Linux tells a paused process apart from a sleeping one
    return found is not None and (found[0] in "Tt" or sys.platform != "linux")
