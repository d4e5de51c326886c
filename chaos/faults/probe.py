"""One request to one broker, over a connection of its own: does it answer, and how soon?"""

from __future__ import annotations

import socket
import struct
import time

SILENCE_S = 1.0
"""How long a broker that answered before must stay silent to count as stopped."""

_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)
"""ApiVersions v0 with correlation id 1 and no client id: every Kafka since 0.10 answers it (KIP-35)."""


def answer_s(host: str, port: int, timeout_s: float) -> float:
    """Seconds until the broker answered; TimeoutError where it did not, another OSError where it is not there."""
    began = time.monotonic()
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
        left = began + timeout_s - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        if not connection.recv(4):
            raise ConnectionResetError("the broker closed the connection")
    return time.monotonic() - began
