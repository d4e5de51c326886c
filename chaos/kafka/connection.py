"""A connection to one broker, for one request at a time.

Client libraries retry requests, cache metadata and choose brokers for their callers. That prevents the observation of
a cluster under faults, and librdkafka's Admin API ends the whole process when a coordinator moves (librdkafka issue
5040). So the platform sends its own requests, each to the broker that the caller names. kafka-python encodes them.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import ssl
import time
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from chaos.kafka import messages
from chaos.kafka.security import Access, AccessRefused

CLIENT_ID = "aftershock-observer"
SESSION_SHARE = 0.8
"""Fraction of the lifetime of a SASL session after which the next request logs in again (KIP-368)."""

# at DEBUG it logs whole requests, and the login request contains the password
logging.getLogger("kafka.protocol.parser").setLevel(logging.INFO)


def connect(host: str, port: int, deadline: float, access: Access | None = None) -> socket.socket:
    """Return a connection, encrypted if `access` asks for it, before the login. Raises `OSError`.

    deadline: a time of `time.monotonic()`.
    """
    connection = socket.create_connection((host, port), timeout=seconds_left(deadline))
    if access is None:
        return connection
    try:
        connection.settimeout(seconds_left(deadline))
        return access.wrap(connection, host)
    except BaseException:
        connection.close()
        raise


class BrokerConnection:
    """A connection to one broker, which opens with the first request and again after a failure. Not thread-safe."""

    def __init__(self, host: str, port: int, access: Access | None = None) -> None:
        self.host, self.port = host, port
        self._access = access
        self._socket: socket.socket | None = None
        self._protocol: Any = None
        self._login_ends = math.inf

    def ask(self, request: Any, timeout_s: float) -> Any:
        """Send a request and return the answer.

        Raises `TimeoutError` if no answer arrives in time, `AccessRefused` if the broker refuses the login, another
        `OSError` if it cannot be reached or closes the connection. After an error, the next call connects again.
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
        mechanism, user = access.security.mechanism, f"{access.security.username} at {self.host}:{self.port}"
        answer = self._exchange(SaslHandshakeRequest[1](mechanism=mechanism), deadline)
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise AccessRefused(f"{self.host}:{self.port} does not take SASL {mechanism}; it takes {offered}")
        login = access.login()
        while not login.is_done():
            answer = self._exchange(SaslAuthenticateRequest[1](auth_bytes=login.auth_bytes()), deadline)
            if answer.error_code:
                raise AccessRefused(f"SASL refused {user}: {answer.error_message or f'error {answer.error_code}'}")
            try:
                login.receive(bytes(answer.auth_bytes))
            except (ValueError, KeyError) as e:
                raise AccessRefused(f"SASL {mechanism} of {user} failed: {e}") from None
        if (lifetime_ms := answer.session_lifetime_ms) > 0:
            self._login_ends = time.monotonic() + lifetime_ms / 1000 * SESSION_SHARE

    def _exchange(self, request: Any, deadline: float) -> Any:
        assert self._socket is not None
        self._protocol.send_request(request)
        self._socket.settimeout(seconds_left(deadline))
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            self._socket.settimeout(seconds_left(deadline))
            received = self._socket.recv(1 << 16)
            if not received:
                raise ConnectionResetError(f"{self.host}:{self.port} closed the connection")
            for _, answer in self._protocol.receive_bytes(received):
                return answer

    def close(self) -> None:
        """Close the connection, if it is open."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = self._protocol = None
        self._login_ends = math.inf


def accepts_connections(host: str, port: int, timeout_s: float, access: Access | None = None) -> bool:
    """Return whether a broker accepts a connection and keeps it open. A paused broker does, without an answer."""
    deadline = time.monotonic() + timeout_s
    try:
        connection = socket.create_connection((host, port), timeout=timeout_s)
    except OSError:
        return False
    protocol = KafkaProtocol(client_id=CLIENT_ID)
    protocol.send_request(messages.versions())
    try:
        with access.wrap(connection, host) if access else connection as ready:
            ready.sendall(protocol.send_bytes())
            ready.settimeout(seconds_left(deadline))
            return ready.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:  # a proxy accepts connections for a dead broker, and closes them
        return False
    finally:
        connection.close()


def login_works(host: str, port: int, timeout_s: float, access: Access) -> bool:
    """Return whether a broker accepts a new connection with this login, and answers."""
    link = BrokerConnection(host, port, access)
    try:
        link.ask(messages.versions(), timeout_s)
    except OSError:
        return False
    finally:
        link.close()
    return True


def login_refusal(host: str, port: int, timeout_s: float, access: Access) -> str | None:
    """Return why a broker refuses a login, None if it takes it. Raises another `OSError` than `AccessRefused`."""
    link = BrokerConnection(host, port, access)
    try:
        link.ask(messages.versions(), timeout_s)
    except AccessRefused as e:
        return str(e)
    finally:
        link.close()
    return None


def seconds_left(deadline: float) -> float:
    """Return the seconds until a time of `time.monotonic()`. Raises `TimeoutError` if it has passed."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


@dataclass(frozen=True)
class Presented:
    """The certificate that a listener presents in a TLS handshake."""

    serial: int
    issuer: str
    ends: datetime

    def describe(self) -> str:
        """Return the end of the serial number, the issuer and the end of validity."""
        return f"{short_serial(self.serial)} of {self.issuer}, valid until {self.ends:%Y-%m-%dT%H:%M:%SZ}"


class AnyCertificate(Access):
    """Credentials for a broker with a certificate that a fault has made invalid: the certificate is not checked."""

    @cached_property
    def context(self) -> ssl.SSLContext:
        """The TLS context, which verifies nothing."""
        context = Access(self.security, self.password, self.key_password).context
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def short_serial(serial: int) -> str:
    """Return the last eight hexadecimal digits of a serial number."""
    return f"{serial:08x}"[-8:]


def presented_certificate(host: str, port: int, timeout_s: float) -> Presented:
    """Return the certificate that a listener presents, valid or not. Raises `OSError` without a handshake."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    deadline = time.monotonic() + timeout_s
    with socket.create_connection((host, port), timeout_s) as plain:
        plain.settimeout(seconds_left(deadline))
        with context.wrap_socket(plain, server_hostname=host) as encrypted:
            der = encrypted.getpeercert(binary_form=True)
    if der is None:
        raise ConnectionError(f"{host}:{port} presents no certificate")
    certificate = x509.load_der_x509_certificate(der)
    names = certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    issuer = str(names[0].value) if names else ""
    return Presented(certificate.serial_number, issuer, certificate.not_valid_after_utc)


def certificate_refusal(host: str, port: int, timeout_s: float, access: Access) -> str | None:
    """Return why a client that checks the certificate of a listener does not connect; None if it does.

    Raises `OSError` if no handshake is possible for another reason.
    """
    try:
        connect(host, port, time.monotonic() + timeout_s, access).close()
    except ssl.SSLCertVerificationError as e:
        return e.verify_message
    return None
