"""Access to a secured cluster: the security settings with their secrets.

librdkafka's clients use `librdkafka`; the platform's own connections (`chaos.kafka.connection`) use `wrap` and `login`.
The secrets exist only in memory. An `Access` is never written, printed or passed to another process.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from chaos.errors import UsageError
from chaos.kafka.security import OAUTHBEARER, Security
from chaos.processes.scrub import Scrubber


class AccessRefused(ConnectionError):
    """A broker answers, but refuses the login."""


@dataclass(frozen=True)
class Access:
    """Security settings with their secrets."""

    security: Security
    password: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)

    @classmethod
    def of(cls, security: Security | None) -> Access | None:
        """Read the secrets. Returns None for plaintext without login. Raises `UsageError` if a secret is missing."""
        if security is None or security.protocol == "PLAINTEXT":
            return None
        password = _secret(security.password, "cluster.security.password")
        return cls(security, password, _secret(security.key_password, "cluster.security.key_password"))

    @property
    def secrets(self) -> list[str]:
        """The texts that no output may contain."""
        found = [secret for secret in (self.password, self.key_password) if secret]
        if self.security.mechanism == OAUTHBEARER:  # the header of a request for a token has both in one (RFC 7617)
            found.append(base64.b64encode(f"{self.security.username}:{self.password}".encode()).decode())
        return found

    @property
    def scrubber(self) -> Scrubber:
        """What replaces the secrets in an output."""
        return Scrubber(self.secrets)

    def librdkafka(self) -> dict[str, str]:
        """Return the settings for a librdkafka client."""
        s = self.security
        if s.mechanism == OAUTHBEARER:
            return self._librdkafka_tokens()
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

    def _librdkafka_tokens(self) -> dict[str, str]:
        s = self.security
        settings = {
            "security.protocol": s.protocol,
            "sasl.mechanisms": s.mechanism,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": s.username,
            "sasl.oauthbearer.client.secret": self.password,
            "sasl.oauthbearer.token.endpoint.url": s.token_endpoint,
            "ssl.ca.location": s.ca,
            "ssl.endpoint.identification.algorithm": None if s.verify_hostname or not s.tls else "none",
        }
        return {key: value for key, value in settings.items() if value is not None}

    def python(self, quotes_names: bool) -> dict[str, Any]:
        """Return the settings for a client of kafka-python or aiokafka. quotes_names: whether it does so for SCRAM."""
        s = self.security
        settings: dict[str, Any] = {"security_protocol": s.protocol}
        if s.tls:
            settings["ssl_context"] = self.context
        if s.sasl:
            settings |= {
                "sasl_mechanism": s.mechanism,
                "sasl_plain_username": s.username if quotes_names else self._login_name,
                "sasl_plain_password": self.password,
            }
        return settings

    @property
    def _login_name(self) -> str:
        """The name for a login by these libraries: SCRAM escapes two characters (RFC 5802), which they leave out."""
        name = str(self.security.username)
        return name if self.security.mechanism == "PLAIN" else name.replace("=", "=3D").replace(",", "=2C")

    def check(self) -> None:
        """Raise `UsageError` if a certificate or key cannot be read."""
        if self.security.tls:
            _ = self.context

    def wrap(self, connection: socket.socket, host: str) -> socket.socket:
        """Encrypt a connection if the protocol asks for it, within the timeout of the socket. Raises `OSError`."""
        return self.context.wrap_socket(connection, server_hostname=host) if self.security.tls else connection

    def login(self) -> Any:
        """Return a SASL exchange: send `auth_bytes()`, pass the answer to `receive()`, until `is_done()`."""
        # imported on use: the client processes log in by librdkafka and do not need these modules
        from kafka.net.sasl.oauth import SaslMechanismOAuth
        from kafka.net.sasl.plain import SaslMechanismPlain
        from kafka.net.sasl.scram import SaslMechanismScram

        if self.security.mechanism == OAUTHBEARER:
            from chaos.kafka.tokens import Tokens

            client, endpoint = str(self.security.username), str(self.security.token_endpoint)
            return SaslMechanismOAuth(sasl_oauth_token_provider=Tokens(endpoint, client, self.password))
        mechanism = SaslMechanismPlain if self.security.mechanism == "PLAIN" else SaslMechanismScram
        return mechanism(
            sasl_mechanism=self.security.mechanism,
            sasl_plain_username=self._login_name,
            sasl_plain_password=self.password,
        )

    @cached_property
    def context(self) -> ssl.SSLContext:
        """The TLS context. Raises `UsageError` if a certificate or key cannot be read."""
        s = self.security
        try:
            context = ssl.create_default_context(cafile=s.ca)
        except (OSError, ValueError) as e:  # SSLError is an OSError
            raise UsageError(f"cluster.security.ca: {s.ca} cannot be read as PEM certificates: {_reason(e)}") from None
        context.check_hostname = s.verify_hostname
        if s.certificate and s.key:
            try:
                # without a password argument, OpenSSL would ask for one at the terminal
                context.load_cert_chain(s.certificate, s.key, self.key_password)
            except (OSError, ValueError) as e:
                raise UsageError(
                    f"cluster.security: {s.certificate} and {s.key} cannot be read as a PEM certificate and its key, "
                    f"with the key_password that is given: {_reason(e)}"
                ) from None
        return context


def librdkafka(security: Security | None) -> dict[str, str]:
    """Return the security settings for a librdkafka client; empty for plaintext without login."""
    access = Access.of(security)
    return access.librdkafka() if access else {}


def python(security: Security | None, quotes_names: bool) -> dict[str, Any]:
    """Return the security settings for a client of kafka-python or aiokafka; empty for plaintext without login."""
    access = Access.of(security)
    return access.python(quotes_names) if access else {}


def _secret(reference: str | None, setting: str) -> str:
    if reference is None:
        return ""
    kind, _, name = reference.partition(":")
    if kind == "env":
        if not (secret := os.environ.get(name)):
            raise UsageError(f"{setting}: the environment variable {name} is not set")
        return secret
    try:
        # bytes: a text would change the line ends inside a secret; the last one belongs to the file
        secret = Path(name).expanduser().read_bytes().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{setting}: {name} cannot be read: {_reason(e)}") from None
    if not secret:
        raise UsageError(f"{setting}: {name} is empty")
    return secret


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
