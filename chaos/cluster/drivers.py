"""The registry of cluster drivers, with the capabilities of each. A driver is one folder and one line here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal

from chaos.cluster.api import CAPABILITIES, Cluster
from chaos.cluster.settings import CAPABILITY_NEEDS
from chaos.errors import UsageError


@dataclass(frozen=True)
class Driver:
    """A driver. brokers: what they are. capabilities: names in `CAPABILITIES` of protocols that its class implements.

    place: module and class, imported on use: the Docker SDK is slow, and the command line needs only the names.
    """

    place: str
    brokers: str
    capabilities: frozenset[str]


_ONLY_PROCESS = frozenset({"wipe", "cut_log", "limit_disk", "change_release", "set_clock", "slow_disk"})
_OF_PROCESS = frozenset({"kill", "stop", "start", "pause", "isolate"}) | _ONLY_PROCESS

DRIVERS = {
    "process": Driver("chaos.cluster.process.driver:ProcessCluster", "JVMs", _OF_PROCESS),
    "docker": Driver(
        "chaos.cluster.docker.driver:DockerCluster", "containers", frozenset(CAPABILITIES) - _ONLY_PROCESS
    ),
    "attached": Driver("chaos.cluster.attached.driver:AttachedCluster", "existing", frozenset(CAPABILITY_NEEDS)),
}

if TYPE_CHECKING:
    DriverName = str
else:
    DriverName = Literal[tuple(DRIVERS)]  # for the schema of a scenario, and for the message about another name


def driver(name: str) -> type[Cluster]:
    """Return the class of a driver. Raises `UsageError` if the name is unknown."""
    cls: type[Cluster] = resolve_name(_registered(name).place)
    return cls


def _registered(name: str) -> Driver:
    if name not in DRIVERS:
        raise UsageError(f"there is no cluster driver {name!r}; known: {', '.join(sorted(DRIVERS))}")
    return DRIVERS[name]


def capabilities(driver_name: str, verbs: Collection[str] | None = None) -> frozenset[str]:
    """Return the capabilities of a driver. Raises `UsageError` if the name is unknown.

    For the attached driver, `verbs` are the verbs that the scenario gives commands for.
    """
    names = _registered(driver_name).capabilities
    if verbs is None:
        return names
    return frozenset(name for name in names if CAPABILITY_NEEDS[name] <= set(verbs))
