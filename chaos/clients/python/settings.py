"""The settings of a client of a library in Python: its names, with values of the right types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.clients.protocol import ClientSpec, Config, Scalar
from chaos.clients.python.library import Library, Settings
from chaos.errors import ClientError
from chaos.kafka.security import python_settings as security_settings

ASSIGNORS = "partition_assignment_strategy"


def connection(spec: ClientSpec, library: Library) -> Settings:
    """Return the connection settings of a client. Raises `UsageError` if a secret is missing."""
    servers = spec.bootstrap.split(",")
    return {
        "bootstrap_servers": servers,
        "client_id": spec.client,
        **security_settings(spec.security, library.quotes_names),
    }


def own_settings(config: Config, library: Library, known: Mapping[str, Any]) -> Settings:
    """Return settings of a scenario by the names of the library. Raises `ClientError` for one that it does not know."""
    settings: Settings = {}
    for name, value in config.items():
        own = name.replace(".", "_")
        if own not in known:
            raise ClientError(f"{library.traits.library} {library.release} has no setting {name}")
        settings[own] = _assignors(value, library) if own == ASSIGNORS else _typed(own, value, known[own])
    return settings


def _typed(name: str, value: Scalar, default: object) -> object:
    """Return a value in the type of the default; a scenario may write numbers and booleans as texts."""
    if name == "acks":
        return value if str(value) == "all" else int(value)
    if isinstance(default, bool):
        return str(value).lower() == "true"
    if isinstance(default, int | float) and isinstance(value, str):
        return int(value)
    return value


def _assignors(value: Scalar, library: Library) -> tuple[type, ...]:
    names = str(library.traits.common({ASSIGNORS: value})["partition.assignment.strategy"]).split(",")
    if unknown := [name for name in names if name not in library.assignors]:
        raise ClientError(f"{library.traits.library} {library.release} has no assignor {unknown[0]} ({ASSIGNORS})")
    return tuple(library.assignors[name] for name in names)
