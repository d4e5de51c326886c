"""How a cluster that exists is reached: its security settings, with every secret named and none of them held.

A secret is written as `env:NAME`, a variable of the environment, or as `file:PATH`. Only this reference is ever written
down, in the scenario, in `resolved.json`, in `cluster.json` and in the specs of clients; each process that connects
looks the secret up for itself (`chaos.kafka.access`) and keeps it in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator


def _reference(value: Any) -> Any:
    kind, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind not in ("env", "file") or not rest.strip():
        # what was given is not repeated: it may be the secret itself
        raise ValueError("a secret is not written here; name where it is: env:NAME (a variable) or file:PATH")
    return value


Secret = Annotated[str, BeforeValidator(_reference), WithJsonSchema({"type": "string", "pattern": "^(env|file):.+$"})]
"""Where a secret is: `env:NAME` or `file:PATH`."""


class Security(BaseModel):
    """The security settings of a cluster's listener. Certificates and keys are PEM files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(None, description="of SASL")
    username: str | None = Field(None, min_length=1)
    password: Secret | None = Field(None, description="env:NAME or file:PATH")
    ca: str | None = Field(
        None, description="file of the authorities that sign the brokers' certificates; the system's"
    )
    certificate: str | None = Field(None, description="file of the client's certificate, where brokers ask for one")
    key: str | None = Field(None, description="file of the client's private key")
    key_password: Secret | None = Field(None, description="env:NAME or file:PATH, where the key is encrypted")
    verify_hostname: bool = Field(True, description="whether a broker's certificate must name its host")

    @property
    def sasl(self) -> bool:
        """Whether a client logs in."""
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        login = ("mechanism", "username", "password")
        if self.sasl and (missing := [key for key in login if getattr(self, key) is None]):
            raise ValueError(f"protocol {self.protocol} needs {', '.join(missing)}")
        unused = [] if self.sasl else [*login]
        unused += [] if self.tls else ["ca", "certificate", "key", "key_password"]
        if given := [key for key in unused if getattr(self, key) is not None]:
            raise ValueError(f"{', '.join(given)} does not fit protocol {self.protocol}")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key are given together")
        if self.key_password is not None and self.key is None:
            raise ValueError("key_password needs a key")
        return self

    def absolute(self) -> Security:
        """With all paths absolute, for processes that work in other directories; `~` is the user's home."""
        changed = {key: _absolute(path) for key in ("ca", "certificate", "key") if (path := getattr(self, key))}
        for key in ("password", "key_password"):
            kind, _, path = (getattr(self, key) or "").partition(":")
            if kind == "file":
                changed[key] = f"file:{_absolute(path)}"
        return self.model_copy(update=changed)


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())
