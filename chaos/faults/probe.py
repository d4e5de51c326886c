"""One request to one broker, over a connection of its own: does it answer, and how soon?"""

from __future__ import annotations

import struct
import time

from chaos.cluster.api import Cluster
from chaos.errors import FaultError
from chaos.faults.world import World
from chaos.kafka.access import Access
from chaos.kafka.connection import connect, left

SILENCE_S = 1.0
"""How long a broker that answered before must stay silent to count as stopped."""

_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)
"""ApiVersions v0 with correlation id 1 and no client id: every Kafka since 0.10 answers it (KIP-35)."""


def answer_s(host: str, port: int, timeout_s: float, access: Access | None = None) -> float:
    """Seconds until the broker answered; TimeoutError where it did not, another OSError where it is not there.

    This question needs no login. Where connections are encrypted, the time of that is part of it.
    """
    began = time.monotonic()
    deadline = began + timeout_s
    with connect(host, port, deadline, access) as connection:
        connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
        connection.settimeout(left(deadline))
        if not connection.recv(4):
            raise ConnectionResetError("the broker closed the connection")
    return time.monotonic() - began


def answered(broker: int, world: World) -> float:
    """Seconds that a broker takes for an answer before a fault. Raises `FaultError` where it gives none."""
    try:
        return answer_s(*world.cluster.address(broker), 5.0, world.access)
    except OSError as e:
        raise FaultError(f"broker {broker} did not answer even before the fault: {e or type(e).__name__}") from None


def is_silent(broker: int, cluster: Cluster, access: Access | None) -> bool:
    """Whether a broker takes a connection and leaves a request unanswered; one that refuses is gone, not silent."""
    try:
        answer_s(*cluster.address(broker), SILENCE_S, access)
    except TimeoutError:
        return True
    except OSError:
        return False
    return False


def waited_s(broker: int, timeout_s: float, world: World) -> float | None:
    """Seconds that a request to the broker waited for its answer; None where none came, for whatever reason."""
    try:
        return answer_s(*world.cluster.address(broker), timeout_s, world.access)
    except OSError:
        return None
