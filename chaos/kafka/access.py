"""Getting into a secured cluster: security settings with their secrets, which live in memory and nowhere else.

Everything that connects does so by one of these: librdkafka's clients by `librdkafka`, our own connections
(`connection`) by `wrap` and `login`. An `Access` is never written, printed or handed to another process; that one looks
the secrets up for itself.
"""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from chaos.errors import UsageError
from chaos.kafka.security import Security


class AccessRefused(ConnectionError):
    """A broker answers, and does not let us in."""


@dataclass(frozen=True)
class Access:
    """Security settings with their secrets looked up."""

    security: Security
    password: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)

    @classmethod
    def of(cls, security: Security | None) -> Access | None:
        """Look the secrets up; None where connections are plain. Raises `UsageError` where one is not to be had."""
        if security is None or security.protocol == "PLAINTEXT":
            return None
        password = _secret(security.password, "cluster.security.password")
        return cls(security, password, _secret(security.key_password, "cluster.security.key_password"))

    @property
    def secrets(self) -> list[str]:
        """What must not be seen anywhere."""
        return [secret for secret in (self.password, self.key_password) if secret]

    def librdkafka(self) -> dict[str, str]:
        """As librdkafka's clients take it."""
        s = self.security
        settings = {
            "security.protocol": s.protocol,
            "sasl.mechanisms": s.mechanism,
            "sasl.username": s.username,
            "sasl.password": self.password or None,
            "ssl.ca.location": s.ca,
            "ssl.certificate.location": s.certificate,
            "ssl.key.location": s.key,
            "ssl.key.password": self.key_password or None,
            "ssl.endpoint.identification.algorithm": None if s.verify_hostname or not s.tls else "none",
        }
        return {key: value for key, value in settings.items() if value is not None}

    def check(self) -> None:
        """Raise `UsageError` where a certificate or a key cannot be read."""
        if self.security.tls:
            _ = self._context

    def wrap(self, connection: socket.socket, host: str) -> socket.socket:
        """The connection, encrypted where it is to be; its time-out covers the handshake. Raises `OSError`."""
        return self._context.wrap_socket(connection, server_hostname=host) if self.security.tls else connection

    def login(self) -> Any:
        """A SASL exchange: what to say (`auth_bytes`), what is answered (`receive`), whether it is over (`is_done`)."""
        # on use: clients, which are many, log in by librdkafka
        from kafka.net.sasl.plain import SaslMechanismPlain
        from kafka.net.sasl.scram import SaslMechanismScram

        # RFC 5802 writes these two characters of a name otherwise; kafka-python leaves that to its caller
        name = str(self.security.username)
        escaped = name.replace("=", "=3D").replace(",", "=2C")
        plain = self.security.mechanism == "PLAIN"
        mechanism = SaslMechanismPlain if plain else SaslMechanismScram
        return mechanism(
            sasl_mechanism=self.security.mechanism,
            sasl_plain_username=name if plain else escaped,
            sasl_plain_password=self.password,
        )

    @cached_property
    def _context(self) -> ssl.SSLContext:
        s = self.security
        try:
            context = ssl.create_default_context(cafile=s.ca)
        except (OSError, ValueError) as e:  # an SSLError is an OSError
            raise UsageError(f"cluster.security.ca: {s.ca} cannot be read as PEM certificates: {_words(e)}") from None
        context.check_hostname = s.verify_hostname
        if s.certificate and s.key:
            try:
                # a password is always given: without one, OpenSSL would ask for it at the terminal
                context.load_cert_chain(s.certificate, s.key, self.key_password)
            except (OSError, ValueError) as e:
                raise UsageError(
                    f"cluster.security: {s.certificate} and {s.key} cannot be read as a PEM certificate and its key, "
                    f"with the key_password that is given: {_words(e)}"
                ) from None
        return context


def librdkafka(security: Security | None) -> dict[str, str]:
    """What librdkafka's clients need besides the bootstrap servers; nothing where connections are plain."""
    access = Access.of(security)
    return access.librdkafka() if access else {}


def _secret(reference: str | None, what: str) -> str:
    if reference is None:
        return ""
    kind, _, place = reference.partition(":")
    if kind == "env":
        if not (found := os.environ.get(place)):
            raise UsageError(f"{what}: the environment variable {place} is not set")
        return found
    try:
        found = Path(place).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{what}: {place} cannot be read: {_words(e)}") from None
    if not found:
        raise UsageError(f"{what}: {place} is empty")
    return found


def _words(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
