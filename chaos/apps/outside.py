"""What instances of an application use that the same application in another run would use, too.

Two runs at once need two of each: of a port that the program chose, of a file outside of the run's folder, of a
database. What is used for less than the time between two looks may be missed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import psutil

from chaos.processes.process import find_marked

SYSTEM = ("/dev/", "/proc/", "/sys/")


@dataclass
class Outside:
    """What instances of one run use outside of it. folder: the run's. given: ports that the run gave to instances."""

    folder: Path
    given: Collection[int]
    found: dict[str, set[str]] = field(default_factory=dict)
    """What each instance uses, as phrases."""
    _own: set[int] = field(default_factory=set)
    """Ports of this machine on which a process of some run listens."""

    def look(self, instance: str, pid: int) -> None:
        """Note what a process and its children use now."""
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(pid)
            processes = [root, *root.children(recursive=True)]
            pids = {one.pid for one in processes}
            for one in processes:
                with contextlib.suppress(psutil.Error):
                    self.found.setdefault(instance, set()).update(self._files(one), self._connections(one, pids))

    def sentences(self) -> list[str]:
        """Return a sentence for each instance that uses something."""
        return [f"{name} {', '.join(sorted(found))}" for name, found in sorted(self.found.items()) if found]

    def _files(self, one: psutil.Process) -> Iterator[str]:
        for file in one.open_files():
            path, mode = Path(file.path), getattr(file, "mode", "r")  # no mode on macOS
            if mode != "r" and not path.is_relative_to(self.folder) and not file.path.startswith(SYSTEM):
                yield f"writes {path}"

    def _connections(self, one: psutil.Process, pids: Collection[int]) -> Iterator[str]:
        for connection in one.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                if connection.laddr.port not in self.given:
                    yield f"listens on port {connection.laddr.port}"
            elif connection.raddr and not self._is_own(connection.raddr.ip, connection.raddr.port, pids):
                yield f"is connected to {connection.raddr.ip.removeprefix('::ffff:')}:{connection.raddr.port}"

    def _is_own(self, ip: str, port: int, pids: Collection[int]) -> bool:
        """Return whether a connection leads to a process of a run on this machine, or is one from there."""
        if not ip_address(ip.removeprefix("::ffff:")).is_loopback:
            return False
        if port not in self._own:
            ours = {os.getpid(), *pids, *(p.identity.pid for p in find_marked())}
            open_ = [c for c in psutil.net_connections("tcp") if c.laddr]
            self._own |= {c.laddr.port for c in open_ if c.pid in ours}
            if port not in self._own and all(c.laddr.port != port or c.pid is None for c in open_):
                return True  # nobody has it any more: the other end has closed
        return port in self._own
