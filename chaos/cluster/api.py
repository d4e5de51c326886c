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

- `process` (`chaos.cluster.process`) runs each broker as a JVM of its own on this machine, on 127.0.0.1. Its network is
  cut without root, by a switch that all connections go through (`chaos.cluster.process.network`).
- `docker` (`chaos.cluster.docker`) runs each broker in a container of its own, on a network of the run's own; clients
  reach them at 127.0.0.1. It can do what only containers give: unplug the network, fill a disk, take CPU or memory.
- `attached` (`chaos.cluster.attached`) uses a cluster that exists. It makes and removes topics and groups of the run's
  own, and does to brokers what the user gives commands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, runtime_checkable

from chaos.errors import ClusterError

if TYPE_CHECKING:
    from chaos.cluster.process.log_files import Tail
    from chaos.cluster.settings import ClusterSpec
    from chaos.cluster.state import ClusterState
    from chaos.install.cache import Progress
    from chaos.kafka.partition import TopicPartition
    from chaos.processes.process import ProcessId
    from chaos.relay.cuts import Cut
    from chaos.run.directory import Run


class Cluster(Protocol):
    """What every driver gives."""

    run: Run
    state: ClusterState

    @classmethod
    def deploy(
        cls, run: Run, spec: ClusterSpec, owner: ProcessId | None, deadline_s: float, on_progress: Progress
    ) -> Self:
        """Make the cluster of a run; it ends when `owner` is gone or after `deadline_s`, whichever is first."""

    @classmethod
    def attach(cls, run: Run) -> Self:
        """The cluster that some process deployed for this run. Raises `RunDirError` without a sound `cluster.json`."""

    @staticmethod
    def clear(run: Run) -> None:
        """Remove what a run left outside of its own processes, whatever became of it; called when those are gone."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers, as a client's `bootstrap.servers` takes them."""

    @property
    def broker_ids(self) -> list[int]:
        """The node ids, ascending."""

    def broker_alive(self, broker: int) -> bool:
        """Whether the broker exists; a paused one does."""

    def address(self, broker: int) -> tuple[str, int]:
        """Host and port at which clients reach the broker."""

    def check(self) -> None:
        """Raise `ClusterError` if something has ended that the cluster needs beside its brokers."""

    def end_brokers(self) -> None:
        """The log has been read: the brokers are not needed any more, and the audit wants the machine to itself."""

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

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several at once: after the loss of the majority, no single one gets ready by itself."""


@runtime_checkable
class Pause(Protocol):
    """A broker can stop answering while its connections stay open."""

    def pause_broker(self, broker: int) -> None:
        """Stop the broker's execution where it stands."""

    def resume_broker(self, broker: int) -> None:
        """Let the broker go on; nothing to do for one that is not paused."""


@runtime_checkable
class Isolate(Protocol):
    """A broker's network can be cut, in parts and in one direction. Connections stay open, and hang.

    Where a direction is cut, no new connection comes about in either, for both are needed to shake hands.
    """

    def cut_network(self, cut: Cut) -> None:
        """Drop the packets of this cut, or hold them, as TCP sends them again; several cuts may overlap."""

    def mend_network(self, cut: Cut) -> None:
        """Let them pass again; nothing to do where the cut is not there any more."""

    def dropped_packets(self, cut: Cut) -> int:
        """How many packets, or pieces of data, this cut has been in the way of so far."""


@runtime_checkable
class Disconnect(Protocol):
    """A broker can be taken off the network altogether, so that connecting to it fails at once."""

    def disconnect_broker(self, broker: int) -> None:
        """Unplug it."""

    def reconnect_broker(self, broker: int) -> None:
        """Plug it in again at its old address; nothing to do for one that is connected."""


@runtime_checkable
class Throttle(Protocol):
    """A broker's CPU can be taken away in part."""

    def throttle_broker(self, broker: int, cpus: float) -> None:
        """Give it no more than so many CPUs."""

    def unthrottle_broker(self, broker: int) -> None:
        """Give it what it had at first."""

    def throttled_s(self, broker: int) -> float:
        """Seconds that it has waited so far because its share of the CPU was used up, as the kernel counts."""


@runtime_checkable
class ExhaustMemory(Protocol):
    """A broker can be driven over its memory limit, so that the kernel kills it."""

    def exhaust_memory(self, broker: int) -> None:
        """Use up its memory, and wait until it is gone."""

    def killed_for_memory(self, broker: int) -> bool:
        """Whether the kernel ended its latest life for want of memory."""


@runtime_checkable
class FillDisk(Protocol):
    """A broker's disk has a size and can be filled."""

    def fill_disk(self, broker: int, free_bytes: int) -> None:
        """Leave so much room on it."""

    def free_disk(self, broker: int) -> None:
        """Take away what filled it; nothing to do where nothing does."""

    def disk_room(self, broker: int) -> int:
        """Bytes that are free on it now."""


@runtime_checkable
class Wipe(Protocol):
    """The disk of a broker that is down can be replaced by an empty one."""

    def wipe_disk(self, broker: int) -> None:
        """Take everything away but what a new disk is formatted with: who the broker is, and in which cluster."""

    def replicas_on_disk(self, broker: int) -> int:
        """How many replicas of partitions lie on its disk."""


@runtime_checkable
class CutLog(Protocol):
    """The tail of a partition's log that was not flushed can be lost while its broker is down."""

    def cut_log(self, broker: int, partition: TopicPartition, records: int | None) -> Tail:
        """Cut off at least so many records, None: all that were not flushed; says which offsets went."""


@runtime_checkable
class LimitDisk(Protocol):
    """The files of a broker can be kept from growing."""

    def limit_disk(self, broker: int, partition: TopicPartition, free_bytes: int) -> int:
        """Let no file grow beyond that partition's log and so many bytes; returns the limit in bytes."""

    def unlimit_disk(self, broker: int) -> None:
        """Let them grow again; nothing to do for one that is gone or has no limit."""


CAPABILITIES: dict[str, type] = {
    "kill": Kill,
    "stop": Stop,
    "start": Start,
    "pause": Pause,
    "isolate": Isolate,
    "disconnect": Disconnect,
    "throttle": Throttle,
    "exhaust_memory": ExhaustMemory,
    "fill_disk": FillDisk,
    "wipe": Wipe,
    "cut_log": CutLog,
    "limit_disk": LimitDisk,
}


C = TypeVar("C")


def able(cluster: Cluster, to: type[C]) -> C:
    """The cluster, as one that has a capability. Raises `ClusterError` where it has not."""
    if not isinstance(cluster, to):
        raise ClusterError(f"the {cluster.state.driver} driver cannot {to.__name__}")
    return cluster
