"""One connection to one broker: a request, its answer or a time-out, and nothing behind one's back.

A client library retries, caches and picks brokers for its caller. That is in the way of observing a cluster that is
being broken, and librdkafka's Admin API ends the whole process where a coordinator moves (librdkafka issue 5040). So
requests are made here, each to a broker of the caller's choice; kafka-python encodes them, from Kafka's own schemas.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.parser import KafkaProtocol

CLIENT_ID = "aftershock-observer"


class Link:
    """A connection to one broker, made when it is first needed and again after it broke. Not for several threads."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._socket: socket.socket | None = None
        self._protocol: Any = None

    def ask(self, request: Any, timeout_s: float) -> Any:
        """The broker's answer.

        Raises `TimeoutError` where none came in time, another `OSError` where the broker is not there or closed the
        connection; the next call connects anew.
        """
        deadline = time.monotonic() + timeout_s
        try:
            return self._ask(request, deadline)
        except KafkaError as e:
            self.close()
            raise ConnectionError(f"the answer of {self.host}:{self.port} is not understood: {e}") from None
        except BaseException:
            self.close()
            raise

    def _ask(self, request: Any, deadline: float) -> Any:
        if self._socket is None:
            self._socket = socket.create_connection((self.host, self.port), timeout=_left(deadline))
            self._protocol = KafkaProtocol(client_id=CLIENT_ID)
        self._protocol.send_request(request)
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            self._socket.settimeout(_left(deadline))
            received = self._socket.recv(1 << 16)
            if not received:
                raise ConnectionResetError(f"{self.host}:{self.port} closed the connection")
            for _, answer in self._protocol.receive_bytes(received):
                return answer

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = self._protocol = None


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
