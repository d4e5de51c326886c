"""The clock of a node, read from outside: the time that the node writes into its log when it refuses a request.

A request with an unknown API key is refused by brokers and controllers of every release. A plain listener logs it with
that key. A listener with TLS or SASL refuses it before any login, and logs the address and the port of the connection;
so the reading needs no credentials, and works also while certificates are not valid at the time of the node. The node
stamps the line between the sending of the request and the end of the connection.
"""

from __future__ import annotations

import random
import re
import socket
import struct
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from chaos.cluster.brokers.release import read_from
from chaos.errors import WaitTimeout
from chaos.wait import wait_until

ANSWER_S = 3.0
LOGGED_S = 2.0
UNKNOWN_KEYS = (20_000, 32_767)
RESOLUTION_S = 0.001
"""Resolution of the times in a log."""
_LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S*) ")


@dataclass(frozen=True)
class ClockReading:
    """How far a clock is ahead of the clock of the machine, in seconds: between `low_s` and `high_s`."""

    low_s: float
    high_s: float

    @property
    def ahead_s(self) -> float:
        """The middle of both."""
        return (self.low_s + self.high_s) / 2


def read_clock(host: str, port: int, log: Path) -> ClockReading | None:
    """Return how far the clock of a node is ahead; None if the node does not answer, or logs nothing."""
    key = random.randint(*UNKNOWN_KEYS)
    offset = log.stat().st_size if log.exists() else 0
    header = struct.pack(">hhih", key, 0, 1, -1)
    sent_s = time.time()
    try:
        with socket.create_connection((host, port), timeout=ANSWER_S) as connection:
            source = "-{}:{}-".format(*connection.getsockname()[:2])
            connection.sendall(struct.pack(">i", len(header)) + header)
            while connection.recv(1 << 10):  # a TLS alert may come first
                pass
    except ConnectionResetError:
        pass  # so it does, too
    except OSError:
        return None
    answered_s = time.time()
    try:
        shown_s = wait_until(
            lambda: _stamp(read_from(log, offset), (f": {key}", source)), LOGGED_S, "not logged", every_s=0.02
        )
    except WaitTimeout:
        return None
    assert shown_s is not None  # wait_until returns only truthy values
    return ClockReading(shown_s - answered_s, shown_s + RESOLUTION_S - sent_s)


def _stamp(text: str, marks: tuple[str, ...]) -> float | None:
    """Return the time of the entry in which one of the marks occurs, in seconds since the epoch."""
    stamp: str | None = None
    for line in text.splitlines():
        if match := _LINE.match(line):
            stamp = match[1]
        if any(mark in line for mark in marks):
            return datetime.fromisoformat(stamp).timestamp() if stamp else None
    return None
