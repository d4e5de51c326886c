"""One connection to one broker: a request, its answer or a time-out, and nothing behind one's back.

A client library retries, caches and picks brokers for its caller. That is in the way of observing a cluster that is
being broken, and librdkafka's Admin API ends the whole process where a coordinator moves (librdkafka issue 5040). So
requests are made here, each to a broker of the caller's choice; kafka-python encodes them, from Kafka's own schemas.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import time
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from chaos.kafka.access import Access, AccessRefused

CLIENT_ID = "aftershock-observer"
API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 0, 1, 1
"""Version of each request."""
SESSION_SHARE = 0.8
"""Of the time that a login lasts, the part after which the next request logs in anew (KIP-368)."""

# at DEBUG it writes whole requests, and the one that logs in holds the password
logging.getLogger("kafka.protocol.parser").setLevel(logging.INFO)


def connect(host: str, port: int, deadline: float, access: Access | None = None) -> socket.socket:
    """A connection, encrypted where it is to be, not logged in. `deadline`: of `time.monotonic()`. Raises `OSError`."""
    connection = socket.create_connection((host, port), timeout=left(deadline))
    if access is None:
        return connection
    try:
        connection.settimeout(left(deadline))
        return access.wrap(connection, host)
    except BaseException:
        connection.close()
        raise


class Link:
    """A connection to one broker, made when it is first needed and again after it broke. Not for several threads."""

    def __init__(self, host: str, port: int, access: Access | None = None) -> None:
        self.host, self.port = host, port
        self._access = access
        self._socket: socket.socket | None = None
        self._protocol: Any = None
        self._login_ends = math.inf

    def ask(self, request: Any, timeout_s: float) -> Any:
        """The broker's answer.

        Raises `TimeoutError` where none came in time, `AccessRefused` where the broker does not let us in, another
        `OSError` where it is not there or closed the connection; the next call connects anew.
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
        if time.monotonic() > self._login_ends:
            self.close()
        if self._socket is None:
            self._socket = connect(self.host, self.port, deadline, self._access)
            self._protocol = KafkaProtocol(client_id=CLIENT_ID)
            if self._access and self._access.security.sasl:
                self._log_in(self._access, deadline)
        return self._exchange(request, deadline)

    def _log_in(self, access: Access, deadline: float) -> None:
        mechanism, who = access.security.mechanism, f"{access.security.username} at {self.host}:{self.port}"
        answer = self._exchange(SaslHandshakeRequest[SASL_HANDSHAKE](mechanism=mechanism), deadline)
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise AccessRefused(f"{self.host}:{self.port} does not take SASL {mechanism}; it takes {offered}")
        login = access.login()
        while not login.is_done():
            said = SaslAuthenticateRequest[SASL_AUTHENTICATE](auth_bytes=login.auth_bytes())
            answer = self._exchange(said, deadline)
            if answer.error_code:
                raise AccessRefused(f"SASL refused {who}: {answer.error_message or f'error {answer.error_code}'}")
            try:
                login.receive(bytes(answer.auth_bytes))
            except (ValueError, KeyError) as e:
                raise AccessRefused(f"SASL {mechanism} of {who} went wrong: {e}") from None
        lasts_ms = answer.session_lifetime_ms
        self._login_ends = time.monotonic() + lasts_ms / 1000 * SESSION_SHARE if lasts_ms > 0 else math.inf

    def _exchange(self, request: Any, deadline: float) -> Any:
        assert self._socket is not None
        self._protocol.send_request(request)
        self._socket.settimeout(left(deadline))
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            self._socket.settimeout(left(deadline))
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
        self._login_ends = math.inf


def ask_versions() -> Any:
    """A request that every broker answers, at once and without a look at the cluster."""
    return ApiVersionsRequest[API_VERSIONS]()


def is_there(host: str, port: int, timeout_s: float, access: Access | None = None) -> bool:
    """Whether a broker takes a connection and does not close it; one that is paused does, and says nothing."""
    deadline = time.monotonic() + timeout_s
    try:
        connection = socket.create_connection((host, port), timeout=timeout_s)
    except OSError:
        return False
    protocol = KafkaProtocol(client_id=CLIENT_ID)
    protocol.send_request(ask_versions())
    try:
        with access.wrap(connection, host) if access else connection as ready:
            ready.sendall(protocol.send_bytes())
            ready.settimeout(left(deadline))
            return ready.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:  # a proxy in front of a broker that is gone takes the connection, and closes it
        return False
    finally:
        connection.close()


def left(deadline: float) -> float:
    """Seconds until a time of `time.monotonic()`. Raises `TimeoutError` when it has passed."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
