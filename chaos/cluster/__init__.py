"""Cluster: the brokers under test, and what can be done to them.

A driver deploys the brokers of one run, writes `cluster.json`, and later attaches to them again, if need be from
another process (an Airflow DAG deploys in one task and drives in another). Every driver gives `Cluster`. What more it
can do to a broker is a set of small protocols, one per capability; the scenario loader compares what the faults need
with `capabilities(driver)` before anything starts. Methods name a broker by its node id (1, 2, ...) and raise
`ClusterError` where the thing could not be done: a fault that changed nothing must never look like one that did.

What every driver owes:
- `deploy` returns when every broker is registered and unfenced. When it fails, it has removed all that it started.
- Nothing outlives its run: when the owner of a run is gone, or its deadline has passed, everything of it is ended, even
  if the platform itself was killed. `destroy` may be called any number of times, and keeps the logs.
- A process that is not the run's own is never touched, even if it has taken over the number of one that was.

The `process` driver (`chaos.cluster.process`) runs each broker as a JVM of its own on this machine, on 127.0.0.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from chaos.errors import UsageError

if TYPE_CHECKING:
    from chaos.cluster.process import ProcessCluster


class Cluster(Protocol):
    """What every driver gives."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers, as a client's `bootstrap.servers` takes them."""

    @property
    def broker_ids(self) -> list[int]:
        """The node ids, ascending."""

    def broker_alive(self, broker: int) -> bool:
        """Whether the broker exists; a paused one does."""

    def destroy(self) -> None:
        """End everything of the run and remove the brokers' data; the logs stay."""


@runtime_checkable
class Kill(Protocol):
    """A broker can die without a word."""

    def kill_broker(self, broker: int) -> None:
        """End the broker at once, and wait until it is gone."""


@runtime_checkable
class Stop(Protocol):
    """A broker can be asked to leave: controlled shutdown."""

    def stop_broker(self, broker: int) -> None:
        """Ask the broker to shut down, and wait until it is gone."""


@runtime_checkable
class Start(Protocol):
    """A broker that is gone can come back with its data."""

    def start_broker(self, broker: int) -> None:
        """Start the broker and wait until it is ready; nothing to do for one that runs."""

    def start_brokers(self, brokers: list[int]) -> None:
        """Start several at once: after the loss of the majority, no single one gets ready by itself."""


@runtime_checkable
class Pause(Protocol):
    """A broker can stop answering while its connections stay open."""

    def pause_broker(self, broker: int) -> None:
        """Stop the broker's execution where it stands."""

    def resume_broker(self, broker: int) -> None:
        """Let the broker go on; nothing to do for one that is not paused."""


CAPABILITIES: dict[str, type] = {"kill": Kill, "stop": Stop, "start": Start, "pause": Pause}


def _process() -> type[ProcessCluster]:
    # imported on use: the reaper is a module of this package, lives as long as a run, and has to stay small
    from chaos.cluster.process import ProcessCluster

    return ProcessCluster


DRIVERS: dict[str, Callable[[], type[ProcessCluster]]] = {"process": _process}


def driver(name: str) -> type[ProcessCluster]:
    """The class of a driver. Raises `UsageError` for an unknown name."""
    if name not in DRIVERS:
        raise UsageError(f"there is no cluster driver {name!r}; known: {', '.join(sorted(DRIVERS))}")
    return DRIVERS[name]()


def capabilities(driver_name: str) -> frozenset[str]:
    """What a driver can do to a broker, by the names in `CAPABILITIES`; starts nothing."""
    cls: type = driver(driver_name)
    return frozenset(name for name, protocol in CAPABILITIES.items() if issubclass(cls, protocol))
