"""Security settings of a cluster, with references in place of the secrets.

A reference is `env:NAME` (an environment variable) or `file:PATH`. Only references appear in the scenario, in
`resolved.json`, in `cluster.json` and in the specs of clients. Each process that connects reads the secret itself
(`chaos.kafka.access`) and keeps it in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

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
    for each run. `chaos.scenario.security_rules` checks what the driver needs.
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
