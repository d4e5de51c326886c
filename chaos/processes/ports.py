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
    """Return random free ports, none of `but`. Two runs rarely choose the same. Raises `MachineError`.

    The ports are outside the range that the kernel uses for outgoing connections. While a killed broker is down, its
    clients reconnect repeatedly: one of these connections could otherwise get the port of the broker, which then could
    not restart.
    """
    low, high = _ephemeral_range()
    candidates = [port for port in range(_LOWEST, _HIGHEST + 1) if not low <= port <= high]
    random.shuffle(candidates)
    ports: list[int] = []
    for port in candidates or range(_LOWEST, _HIGHEST + 1):
        if len(ports) == count:
            break
        if port not in but and is_free(port):
            ports.append(port)
    if len(ports) < count:
        raise MachineError(f"fewer than {count} ports are free on {HOST}; end what listens there")
    return ports


def is_free(port: int) -> bool:
    """Return whether a broker could listen on this port now."""
    with contextlib.closing(socket.socket()) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as in Java: closed connections do not block the port
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
        return 32_768, 65_535  # not Linux: the widest range of other systems
