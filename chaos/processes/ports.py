"""Free ports for brokers on 127.0.0.1."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Collection
from pathlib import Path

from chaos.errors import MachineError

HOST = "127.0.0.1"
_LOWEST, _HIGHEST = 10_000, 65_535


def free_ports(count: int, but: Collection[int] = ()) -> list[int]:
    """Ports that nothing listens on now, none of `but`, at random so that two runs rarely want the same ones.

    They lie outside the range from which the kernel takes ports for outgoing connections. A broker is down for a while
    when it is killed, and meanwhile its clients reconnect again and again: sooner or later one of those connections
    would be given the broker's own port, and the broker could not come back.
    """
    low, high = _ephemeral_range()
    candidates = [port for port in range(_LOWEST, _HIGHEST + 1) if not low <= port <= high]
    random.shuffle(candidates)
    found: list[int] = []
    for port in candidates or range(_LOWEST, _HIGHEST + 1):
        if len(found) == count:
            break
        if port not in but and is_free(port):
            found.append(port)
    if len(found) < count:
        raise MachineError(f"fewer than {count} ports are free on {HOST}; end what listens there")
    return found


def is_free(port: int) -> bool:
    """Whether a broker could listen on this port now."""
    with contextlib.closing(socket.socket()) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: old connections do not matter
        try:
            s.bind((HOST, port))
        except OSError:
            return False
        return True


def _ephemeral_range() -> tuple[int, int]:
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 32_768, 65_535  # no Linux: the widest range in use elsewhere
