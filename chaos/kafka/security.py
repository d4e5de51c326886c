"""Security settings of a cluster, with references in place of the secrets; and `Access`, which has the secrets.

A reference is `env:NAME` (an environment variable) or `file:PATH`. Only references appear in the scenario, in
`resolved.json`, in `cluster.json` and in the specs of clients. Each process that connects reads the secret itself and
keeps it in memory: an `Access` is never written, printed or passed to another process.

librdkafka's clients use `librdkafka_settings`; the platform's own connections (`chaos.kafka.connection`) use `wrap` and
`login`.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from chaos.errors import UsageError
from chaos.processes.scrub import Scrubber
from chaos.units import Duration


def _reference(value: Any) -> Any:
    kind, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind not in ("env", "file") or not rest.strip():
        # the message does not repeat the value, which may be the secret itself
        raise ValueError("a secret is not written here; name where it is: env:NAME (a variable) or file:PATH")
    return value


Secret = Annotated[str, BeforeValidator(_reference), WithJsonSchema({"type": "string", "pattern": "^(env|file):.+$"})]
"""Reference to a secret: `env:NAME` or `file:PATH`."""


OAUTHBEARER = "OAUTHBEARER"


class SecurityFields(BaseModel):
    """The settings of a connection, in any combination. Certificates and keys are PEM files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = Field(
        None, description="SASL mechanism"
    )
    username: str | None = Field(None, min_length=1)
    password: Secret | None = Field(None, description="env:NAME or file:PATH")
    token_endpoint: str | None = Field(
        None, description="OAUTHBEARER: where clients get tokens, for `username` and `password` as client id and secret"
    )
    ca: str | None = Field(
        None, description="certificates of the authorities that sign the brokers' certificates; default: the system's"
    )
    certificate: str | None = Field(None, description="the client's certificate, if the brokers require one")
    key: str | None = Field(None, description="the client's private key")
    key_password: Secret | None = Field(None, description="env:NAME or file:PATH, if the key is encrypted")
    verify_hostname: bool = Field(True, description="whether a broker's certificate must contain its host name")

    @property
    def sasl(self) -> bool:
        """Whether clients log in."""
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    def absolute(self) -> Self:
        """Return a copy with absolute paths, for processes with other working directories. Expands `~`."""
        changed = {key: _absolute(path) for key in ("ca", "certificate", "key") if (path := getattr(self, key))}
        for key in ("password", "key_password"):
            kind, _, path = (getattr(self, key) or "").partition(":")
            if kind == "file":
                changed[key] = f"file:{_absolute(path)}"
        return self.model_copy(update=changed)


class Security(SecurityFields):
    """Security settings of a cluster's listener, which are complete and fit each other."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        tokens: tuple[str, ...] = ("token_endpoint",)
        login: tuple[str, ...] = ("mechanism", "username", "password")
        files = ("ca", "certificate", "key", "key_password")
        login = (*login, *tokens) if self.mechanism == OAUTHBEARER else login
        if self.sasl and (missing := [key for key in login if getattr(self, key) is None]):
            raise ValueError(f"protocol {self.protocol} needs {', '.join(missing)}")
        unused = [*(() if self.sasl else login), *(() if self.tls else files)]
        unused += [] if self.mechanism == OAUTHBEARER else tokens
        if superfluous := [key for key in unused if getattr(self, key) is not None]:
            raise ValueError(f"{', '.join(superfluous)} does not fit protocol {self.protocol}")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key are given together")
        if self.key_password is not None and self.key is None:
            raise ValueError("key_password needs a key")
        return self


class ClusterSecurity(SecurityFields):
    """How clients connect to the cluster. An existing cluster has all fields but the last four.

    For a new cluster, give `protocol`, `mechanism`, and these four: Aftershock makes certificates, users and passwords
    for each run. `chaos.scenario.cluster_rules` checks what the driver needs.
    """

    client_certificates: bool = Field(
        False, description="process, docker: clients identify themselves by a certificate (mutual TLS); needs SSL"
    )
    acls: bool = Field(
        False, description="process, docker: brokers have an authorizer, and clients the rights that they need"
    )

    certificate_lifetime: Duration | None = Field(
        None, description="process, docker: how long certificates are valid from the start on; 30 days if left out"
    )

    token_lifetime: Duration | None = Field(
        None, description="process, docker, OAUTHBEARER: how long a token is valid; 5m if left out"
    )

    @property
    def secured(self) -> bool:
        """Whether there is anything to set up."""
        return self != ClusterSecurity()

    def given(self) -> Security:
        """Return the settings for an existing cluster. Raises `ValidationError`."""
        return Security(**{name: getattr(self, name) for name in Security.model_fields})


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


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
        password = read_secret(security.password, "cluster.security.password")
        return cls(security, password, read_secret(security.key_password, "cluster.security.key_password"))

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


@dataclass(frozen=True)
class Endpoint:
    """How to reach a cluster: its bootstrap servers, and how clients and the platform log in; None for plain ones."""

    bootstrap: str
    clients: Security | None = None
    platform: Security | None = None


def librdkafka_settings(security: Security | None) -> dict[str, str]:
    """Return the security settings for a librdkafka client; empty for plaintext without login."""
    access = Access.of(security)
    return access.librdkafka() if access else {}


def python_settings(security: Security | None, quotes_names: bool) -> dict[str, Any]:
    """Return the security settings for a client of kafka-python or aiokafka; empty for plaintext without login."""
    access = Access.of(security)
    return access.python(quotes_names) if access else {}


def jaas(text: str) -> str:
    """Return a text as JAAS reads it inside quotes (java.io.StreamTokenizer)."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def read_secret(reference: str | None, setting: str) -> str:
    """Return what a reference names; empty for None. setting: the key, for the `UsageError` if nothing is there."""
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
