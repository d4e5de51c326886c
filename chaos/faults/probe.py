"""One request to one broker, over a connection of its own: does it answer, and how soon?"""

from __future__ import annotations

import struct
import time

from chaos.access import Access
from chaos.wire import connect, left

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
