"""Processes of a run: started with marks, and identified by process ID *and* start time.

The system reuses process IDs. A `ProcessId` adds the start time, and nothing here signals a process with another start
time.

Every process of a run has these environment variables, which its children inherit:

    AFTERSHOCK_RUN_DIR  absolute path of the run directory; its name is the run ID
    AFTERSHOCK_ROLE     broker-1, producer shop/1, reaper, ...
    AFTERSHOCK_OWNER    <pid>:<start time>@<PID namespace> of the owner; no pid if the process outlives its
                        starter. In another namespace, as in a container, the same number is another process

So `ps`, `gc` and the reaper do not depend on a list of processes, which a crash could leave incomplete.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from chaos.errors import ClusterError, WaitTimeout
from chaos.install.locations import python_path
from chaos.processes.scrub import Scrubber
from chaos.wait import wait_until

if TYPE_CHECKING:
    import psutil

    from chaos.run.directory import Run


RUN_DIR, ROLE, OWNER = "AFTERSHOCK_RUN_DIR", "AFTERSHOCK_ROLE", "AFTERSHOCK_OWNER"
MARKS = (RUN_DIR, ROLE, OWNER)


@dataclass(frozen=True, order=True)
class ProcessId:
    """The identity of a process: its process ID and its start time.

    `started` is only good for comparison: seconds since boot on Linux, since the epoch elsewhere. Time since boot does
    not change when the clock is set; otherwise the owner of a run could seem to be gone.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """Return the process with this process ID. Raises `ProcessLookupError` if there is none."""
        stat = _state_and_start(pid)
        if stat is None:
            raise ProcessLookupError(f"there is no process {pid}")
        return cls(pid, stat[1])

    @classmethod
    def current(cls) -> ProcessId:
        """Return the calling process."""
        return cls.of(os.getpid())

    @classmethod
    def parse(cls, text: str) -> ProcessId:
        """Parse the result of `str()`. Raises `ValueError`."""
        pid, _, started = text.partition(":")
        return cls(int(pid), float(started))

    @classmethod
    def parse_or_none(cls, text: str) -> ProcessId | None:
        """Parse the result of `str()`; return None if the text is invalid, such as empty."""
        try:
            return cls.parse(text)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.pid}:{self.started!r}"

    def alive(self) -> bool:
        """Return whether the process runs or is paused. A zombie does not count as alive."""
        stat = _state_and_start(self.pid)
        return stat is not None and stat[0] not in "ZX" and stat[1] == self.started

    def signal(self, number: int) -> bool:
        """Send a signal; return False if the process is gone, even if another process has its ID."""
        try:
            handle = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        except ProcessLookupError:
            return False
        except OSError:  # the kernel does not support it
            handle = None
        try:
            # the handle refers to one process, so the ID cannot be reused between the check and the signal
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

    def signal_group(self, number: int) -> bool:
        """Send a signal to the group that the process leads; return False if the process is gone."""
        if not self.alive():
            return False
        try:
            os.killpg(self.pid, number)
            return True
        except ProcessLookupError:
            return False


def _state_and_start(pid: int) -> tuple[str, float] | None:
    """Return the state letter, as in `ps`, and the start time of a process; None if there is no process."""
    if sys.platform == "linux":
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()  # the name before it may contain spaces and brackets
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
    """A started process: the handle for its parent, and its identity for every other process."""

    popen: subprocess.Popen[bytes]
    identity: ProcessId
    copier: threading.Thread | None = None
    """Appends the output to the log without secrets."""

    def signal_group(self, number: int) -> bool:
        """Send a signal to the process and its children; return False if none of them is there.

        The children may outlive the process. Until it is waited for, no other process or group can have its ID.
        """
        if self.popen.returncode is not None:
            return False
        try:
            os.killpg(self.popen.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS: the group has only a zombie
            return False
        return True

    def wait(self, at_end: Callable[[], object] = lambda: None) -> int:
        """Wait until the process ends, then kill the children that it left. Returns its exit code.

        at_end: called in between, while the process is a zombie and its children still run.
        """
        if hasattr(os, "waitid"):  # not on macOS
            os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOWAIT)
            at_end()
            self.signal_group(signal.SIGKILL)
        if self.copier:
            self.copier.join()
        return self.popen.wait()


def marks_of(run: Run, role: str, owner: ProcessId | None) -> dict[str, str]:
    """Return the marks of a process of a run, as environment variables."""
    return {
        RUN_DIR: str(run.path),
        ROLE: role,
        OWNER: f"{owner or ''}@{pid_namespace()}",
    }


def pid_namespace() -> str:
    """Return the PID namespace of this process; empty on a system without namespaces."""
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
    scrubber: Scrubber | None = None,
) -> Spawned:
    """Start a marked process of a run in a new session, so that Ctrl-C in a terminal reaches only the platform.

    The output is appended to `log` (discarded if None); with `stdout`, only stderr is. `env` is added to the current
    environment. With a scrubber, the log never has a secret; the process then needs this one as long as it writes.
    `python -m chaos...` works in any directory. When this function returns, `find_marked` finds the
    process. Raises `OSError`.
    """
    marks = marks_of(run, role, owner)
    with contextlib.ExitStack() as files:
        scrubs = scrubber if log is not None and scrubber else None
        sink: int | IO[bytes] = subprocess.DEVNULL
        if scrubs:
            sink = subprocess.PIPE
        elif log is not None:
            sink = files.enter_context(log.open("ab"))
        popen = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=sink if stdout is None else stdout,
            stderr=subprocess.STDOUT if scrubs and stdout is None else sink,
            env={**os.environ, "PYTHONPATH": python_path(), **(env or {}), **marks},
            cwd=cwd,
            start_new_session=True,
        )
    # works even if the process has ended: only its parent, this process, can reap it
    identity = ProcessId.of(popen.pid)
    wait_until(lambda: _shows_marks(popen.pid) or not identity.alive(), 10, f"{argv[0]} has no environment", 0.001)
    copier = None
    if scrubs and log is not None:
        output = popen.stdout if stdout is None else popen.stderr
        assert output is not None  # a pipe
        copier = scrubs.copy(output, log)
    return Spawned(popen, identity, copier)


def _shows_marks(pid: int) -> bool:
    """Return whether the environment can be read: on Linux it is empty while the program is loaded."""
    if sys.platform != "linux":
        return True
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() != b""
    except OSError:
        return True  # ended meanwhile, or changed its user


def wait_gone(processes: Iterable[ProcessId], timeout_s: float) -> None:
    """Wait until all of these processes are gone. Raises `WaitTimeout` with the IDs of processes that still run."""
    left = set(processes)

    def gone() -> bool:
        left.difference_update([p for p in left if not p.alive()])
        return not left

    wait_until(gone, timeout_s, lambda: f"still running: {', '.join(str(p.pid) for p in sorted(left))}", every_s=0.01)


def kill(process: ProcessId, timeout_s: float = 10) -> bool:
    """Send SIGKILL, which also ends a paused process, and wait; return False if the process was gone before."""
    sent = process.signal(signal.SIGKILL)
    wait_gone([process], timeout_s)
    return sent


def terminate(process: ProcessId, timeout_s: float) -> bool:
    """Send SIGTERM and wait; return False if the process was gone before. Raises `WaitTimeout`."""
    sent = process.signal(signal.SIGTERM)
    wait_gone([process], timeout_s)
    return sent


def pause(process: ProcessId, group: bool = False) -> bool:
    """Send SIGSTOP, and wait until the process is suspended; return False if it is gone.

    With `group`, the process leads a process group, and all of it is suspended.
    """
    if not (process.signal_group(signal.SIGSTOP) if group else process.signal(signal.SIGSTOP)):
        return False
    wait_until(lambda: is_paused(process) or not process.alive(), 10, f"process {process.pid} does not stop", 0.005)
    return process.alive()


def cont(process: ProcessId, group: bool = False) -> bool:
    """Send SIGCONT, with `group` to the group that the process leads; return False if the process is gone."""
    return process.signal_group(signal.SIGCONT) if group else process.signal(signal.SIGCONT)


def limit_files(process: ProcessId, max_bytes: int | None) -> bool:
    """Limit the size of the files that a process writes (None: no limit); return False if the process is gone.

    Only the soft limit changes, so that removing it needs no privileges. Raises `ClusterError` if this machine does not
    support that.
    """
    if sys.platform != "linux":
        raise ClusterError("the size of files can be limited in a running process on Linux only")
    if not process.alive():
        return False
    import resource

    try:
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        soft = hard if max_bytes is None else max_bytes
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    except ProcessLookupError:
        return False
    except (OSError, ValueError) as e:
        raise ClusterError(f"the files of process {process.pid} could not be limited: {e}") from None
    return True


def is_paused(process: ProcessId) -> bool:
    """Return whether the system shows a process as stopped by a signal."""
    stat = _state_and_start(process.pid)
    # only Linux distinguishes a paused process from a sleeping one
    return stat is not None and (stat[0] in "Tt" or sys.platform != "linux")


REAPER = "reaper"


BESIDE = "clusters"
"""The folder of a run with the directories of its other clusters (`Run.clusters`)."""


def run_name(run_dir: Path) -> str:
    """Return the id of a run; for the directory of another cluster of it, with the name of that cluster behind it."""
    return f"{run_dir.parents[1].name}/{run_dir.name}" if run_dir.parent.name == BESIDE else run_dir.name


@dataclass(frozen=True)
class MarkedProcess:
    """A process of a run, or a child of one, which inherits the marks."""

    identity: ProcessId
    created: float  # seconds since the epoch
    role: str
    run_id: str
    run_dir: Path
    owner: ProcessId | None  # None: it may outlive its starter
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
            theirs = env.get(OWNER, "").partition("@")[2] or namespace
            if env.get(RUN_DIR) and theirs == namespace and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(_marked(ProcessId.of(process.pid), process, env))
        except (psutil.Error, OSError):  # ended meanwhile, or of another user
            continue
    return sorted(processes, key=lambda p: (str(p.run_dir), p.role, p.identity))


def _marked(identity: ProcessId, process: psutil.Process, env: dict[str, str]) -> MarkedProcess:
    owner = ProcessId.parse_or_none(env.get(OWNER, "").partition("@")[0])
    return MarkedProcess(
        identity=identity,
        created=process.create_time(),
        role=env.get(ROLE, ""),
        run_id=run_name(Path(env[RUN_DIR])),
        run_dir=Path(env[RUN_DIR]),
        owner=owner,
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


def run_module(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m <argv>` to its end, in any working directory; return its stdout and stderr as text."""
    return subprocess.run(
        [sys.executable, "-m", *argv],
        env={**os.environ, "PYTHONPATH": python_path()},
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
