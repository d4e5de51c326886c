"""CPU time and memory of a process and its children, from /proc. On other systems than Linux nothing is measured."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_SESSION, _TIMES = 3, slice(11, 15)
"""Fields of `stat` behind the name: the session, and the CPU times: user, system, and both of children that ended."""


@dataclass(frozen=True)
class Usage:
    """CPU time in us, and the sum of the largest resident memory of each process in bytes."""

    user_us: int = 0
    system_us: int = 0
    peak_rss_bytes: int = 0

    @property
    def cpu_us(self) -> int:
        """User and system time."""
        return self.user_us + self.system_us


def read_usage(leader: int) -> Usage | None:
    """Return the usage of the processes in the session that a process leads, also of a zombie; None if all are gone.

    CPU time has a resolution of 10 ms. A child that ended counts if its parent waited for it.
    """
    if sys.platform != "linux":
        return None
    tick_us = 1_000_000 // os.sysconf("SC_CLK_TCK")
    members = [(pid, fields) for pid in _pids() if (fields := _stat(pid)) and int(fields[_SESSION]) == leader]
    if not members:
        return None
    user, system, user_of_ended, system_of_ended = (
        sum(times) for times in zip(*(map(int, fields[_TIMES]) for _, fields in members), strict=True)
    )
    return Usage(
        user_us=(user + user_of_ended) * tick_us,
        system_us=(system + system_of_ended) * tick_us,
        peak_rss_bytes=sum(_peak_rss(pid) for pid, _ in members),
    )


def _pids() -> list[str]:
    return [path.name for path in _PROC.iterdir() if path.name.isdecimal()]


def _stat(pid: str) -> list[str]:
    """Return the fields behind the name, which may contain spaces and brackets; empty if the process is gone."""
    try:
        return (_PROC / pid / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _peak_rss(pid: str) -> int:
    """Return the largest resident memory in bytes; 0 for a zombie.

    `ru_maxrss` is not good for it: a new process begins with that of its parent.
    """
    try:
        lines = (_PROC / pid / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


class UsageMeter:
    """The usage of one process and its children until the last `read`. Thread-safe.

    total: None if nothing was measured. started: the usage at the last `mark_started`.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._lock = threading.Lock()
        self.total: Usage | None = None
        self.started: Usage | None = None

    def read(self) -> None:
        """Read the usage now.

        The CPU time of a child that ended without a parent that waits is lost, so no value becomes smaller.
        """
        now = read_usage(self._leader)
        with self._lock:
            before = self.total
            if now is None or before is None:
                self.total = now or before
                return
            times = max(now, before, key=lambda usage: usage.cpu_us)
            peak = max(now.peak_rss_bytes, before.peak_rss_bytes)
            self.total = Usage(times.user_us, times.system_us, peak)

    def mark_started(self) -> None:
        """Read the usage, and keep it as that of the start."""
        self.read()
        self.started = self.total
