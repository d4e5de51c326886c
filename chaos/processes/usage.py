"""CPU time and memory of a process and its children, from /proc. On other systems than Linux nothing is measured."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Iterable
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


def read_usages(leaders: Collection[int]) -> dict[int, Usage]:
    """Return CPU time and memory by session leader: sums over the processes of its session, zombies included.

    A session without processes is left out. CPU time has a resolution of 10 ms. A child that ended counts if its parent
    waited for it.
    """
    if sys.platform != "linux":
        return {}
    tick_us = 1_000_000 // os.sysconf("SC_CLK_TCK")
    found: dict[int, Usage] = {}
    for pid in _pids():
        fields = _stat(pid)
        if fields and (leader := int(fields[_SESSION])) in leaders:
            user, system, user_of_ended, system_of_ended = map(int, fields[_TIMES])
            so_far = found.get(leader, Usage())
            found[leader] = Usage(
                user_us=so_far.user_us + (user + user_of_ended) * tick_us,
                system_us=so_far.system_us + (system + system_of_ended) * tick_us,
                peak_rss_bytes=so_far.peak_rss_bytes + _peak_rss(pid),
            )
    return found


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

    `ru_maxrss` is not good for it: a new process begins with the value of its parent.
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
        self.leader = leader
        self._lock = threading.Lock()
        self.total: Usage | None = None
        self.started: Usage | None = None

    def read(self) -> None:
        """Read the usage now."""
        read_all([self])

    def update(self, now: Usage) -> None:
        """Take a new reading.

        The CPU time of a child that ended without a parent that waits is lost, so no value becomes smaller.
        """
        with self._lock:
            before = self.total or now
            times = max(now, before, key=lambda usage: usage.cpu_us)
            peak = max(now.peak_rss_bytes, before.peak_rss_bytes)
            self.total = Usage(times.user_us, times.system_us, peak)

    def mark_started(self) -> None:
        """Read the usage, and keep it as the usage at the start."""
        self.read()
        self.started = self.total


def read_all(meters: Iterable[UsageMeter]) -> None:
    """Read the usage of several processes in one pass over all processes of the machine."""
    by_leader = {meter.leader: meter for meter in meters}
    for leader, usage in read_usages(by_leader).items():
        by_leader[leader].update(usage)
