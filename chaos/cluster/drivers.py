"""The cluster drivers by name, and what each can do to a broker."""

from __future__ import annotations

from collections.abc import Callable, Collection

from chaos.cluster.api import CAPABILITIES, Cluster
from chaos.cluster.verbs import CAPABILITY_NEEDS
from chaos.errors import UsageError


# imported on use: the reaper is a module of this package, lives as long as a run, and has to stay small
def _process() -> type[Cluster]:
    from chaos.cluster.process.driver import ProcessCluster

    return ProcessCluster


def _docker() -> type[Cluster]:
    from chaos.cluster.docker.driver import DockerCluster

    return DockerCluster


def _attached() -> type[Cluster]:
    from chaos.cluster.attached.driver import AttachedCluster

    return AttachedCluster


DRIVERS: dict[str, Callable[[], type[Cluster]]] = {"process": _process, "docker": _docker, "attached": _attached}


def driver(name: str) -> type[Cluster]:
    """The class of a driver. Raises `UsageError` for an unknown name."""
    if name not in DRIVERS:
        raise UsageError(f"there is no cluster driver {name!r}; known: {', '.join(sorted(DRIVERS))}")
    return DRIVERS[name]()


def capabilities(driver_name: str, verbs: Collection[str] | None = None) -> frozenset[str]:
    """What a driver can do to a broker, by the names in `CAPABILITIES`; starts nothing.

    `verbs` are those that commands are given for, where the driver goes by commands.
    """
    cls: type = driver(driver_name)
    able_to = frozenset(name for name, protocol in CAPABILITIES.items() if issubclass(cls, protocol))
    if verbs is None:
        return able_to
    return frozenset(name for name in able_to if CAPABILITY_NEEDS[name] <= set(verbs))
