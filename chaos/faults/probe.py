"""Probes of a broker: one request over a separate connection, and the time until its answer."""

from __future__ import annotations

import struct
import time

from chaos.cluster.api import Cluster
from chaos.errors import FaultError
from chaos.faults.base import World
from chaos.kafka.access import Access
from chaos.kafka.connection import connect, seconds_left

SILENCE_S = 1.0
"""Time without an answer after which a broker that answered before counts as paused."""
ANSWER_TIMEOUT_S = 5.0

_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)
"""ApiVersions v0 with correlation id 1 and no client id: every Kafka since 0.10 answers it (KIP-35)."""


def answer_s(host: str, port: int, timeout_s: float, access: Access | None = None) -> float:
    """Return the seconds until a broker answers, including a TLS handshake if connections are encrypted.

    The request needs no login. Raises `TimeoutError` without an answer, another `OSError` if the broker is gone.
    """
    began = time.monotonic()
    deadline = began + timeout_s
    with connect(host, port, deadline, access) as connection:
        connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
        connection.settimeout(seconds_left(deadline))
        if not connection.recv(4):
            raise ConnectionResetError("the broker closed the connection")
    return time.monotonic() - began


def answered(broker: int, world: World) -> float:
    """Return the seconds until a broker answers before a fault. Raises `FaultError` if it does not answer."""
    try:
        return answer_s(*world.cluster.address(broker), ANSWER_TIMEOUT_S, world.access)
    except OSError as e:
        raise FaultError(f"broker {broker} did not answer even before the fault: {e or type(e).__name__}") from None


def is_silent(broker: int, cluster: Cluster, access: Access | None) -> bool:
    """Return whether a broker accepts a connection but does not answer. A broker that refuses is gone, not silent."""
    try:
        answer_s(*cluster.address(broker), SILENCE_S, access)
    except TimeoutError:
        return True
    except OSError:
        return False
    return False


def waited_s(broker: int, timeout_s: float, world: World) -> float | None:
    """Return the seconds until a broker answers; None if it does not answer."""
    try:
        return answer_s(*world.cluster.address(broker), timeout_s, world.access)
    except OSError:
        return None
