"""The registry of cluster drivers, with the capabilities of each."""

from __future__ import annotations

from collections.abc import Collection
from pkgutil import resolve_name
from typing import Literal

from chaos.cluster.api import CAPABILITIES, Cluster
from chaos.cluster.settings import CAPABILITY_NEEDS
from chaos.errors import UsageError

DriverName = Literal["process", "docker", "attached"]


DRIVERS = {
    "process": "chaos.cluster.process.driver:ProcessCluster",
    "docker": "chaos.cluster.docker.driver:DockerCluster",
    "attached": "chaos.cluster.attached.driver:AttachedCluster",
}
"""The class of each driver, imported on use: the Docker SDK is slow, and the command line needs only the names."""


def driver(name: str) -> type[Cluster]:
    """Return the class of a driver. Raises `UsageError` if the name is unknown."""
    if name not in DRIVERS:
        raise _unknown(name)
    cls: type[Cluster] = resolve_name(DRIVERS[name])
    return cls


def _unknown(name: str) -> UsageError:
    return UsageError(f"there is no cluster driver {name!r}; known: {', '.join(sorted(DRIVERS))}")


_ONLY_PROCESS = frozenset({"wipe", "cut_log", "limit_disk", "change_release", "set_clock", "slow_disk"})
DRIVER_CAPABILITIES: dict[str, frozenset[str]] = {
    "process": frozenset({"kill", "stop", "start", "pause", "isolate"}) | _ONLY_PROCESS,
    "docker": frozenset(CAPABILITIES) - _ONLY_PROCESS,
    "attached": frozenset(CAPABILITY_NEEDS),
}
"""The names in `CAPABILITIES` of the protocols that each driver class implements. A table: no driver is imported."""


def capabilities(driver_name: str, verbs: Collection[str] | None = None) -> frozenset[str]:
    """Return the capabilities of a driver. Raises `UsageError` if the name is unknown.

    For the attached driver, `verbs` are the verbs that the scenario gives commands for.
    """
    names = DRIVER_CAPABILITIES.get(driver_name)
    if names is None:
        raise _unknown(driver_name)
    if verbs is None:
        return names
    return frozenset(name for name in names if CAPABILITY_NEEDS[name] <= set(verbs))
