"""The contract of a cluster driver: the base class `Cluster`, plus one small protocol per capability.

A driver deploys the brokers of one run and writes `cluster.json`. Any process, such as a later task of an Airflow DAG,
can then attach to the brokers. The scenario loader compares the needs of the faults with `drivers.capabilities` before
anything starts. Methods identify a broker by its node ID (1, 2, ...) and raise `ClusterError` if the operation did not
take effect. Methods that start, end, pause or cut a broker take the node ID of a dedicated controller (101, ...) as
well.

Every driver guarantees:
- `deploy` returns when every broker is registered and unfenced. If it fails, it removes everything it started.
- Nothing outlives its run: when the owner of a run is gone, or the deadline has passed, everything of the run is ended,
  even if the platform itself was killed. `destroy` can be called any number of times, and keeps the logs.
- It never touches a process of another run, even if that process reuses a process ID.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, runtime_checkable

from chaos.errors import ClusterError

if TYPE_CHECKING:
    from chaos.cluster.settings import ClusterSpec
    from chaos.cluster.state import BrokerStatus, ClusterState
    from chaos.install.cache import Progress
    from chaos.kafka.partition import TopicPartition
    from chaos.preload.libraries import Delayed, Delays, Skew
    from chaos.preload.meter import Reading
    from chaos.processes.process import ProcessId
    from chaos.relay.cuts import Cut
    from chaos.run.directory import Run


class Cluster(ABC):
    """The brokers of one run: the base class of the drivers. Its methods may be called from several threads."""

    def __init__(self, run: Run, state: ClusterState) -> None:
        self.run = run
        self.state = state
        self._lock = threading.RLock()  # protects the state and its file; never held during a wait

    @classmethod  # noqa: B027 - a default
    def install(cls, spec: ClusterSpec, on_progress: Progress) -> None:
        """Bring the release of Kafka onto this machine if `deploy` needs it there; nothing by default."""

    @classmethod
    @abstractmethod
    def deploy(
        cls, run: Run, spec: ClusterSpec, owner: ProcessId | None, deadline_s: float, on_progress: Progress
    ) -> Self:
        """Deploy the cluster of a run. It ends when `owner` is gone or after `deadline_s`, whichever comes first."""

    @classmethod
    def attach(cls, run: Run) -> Self:
        """Return the deployed cluster of a run. Raises `RunDirError` if `cluster.json` is missing or damaged."""
        from chaos.cluster import state  # on use: the command line imports this module for the capabilities only

        return cls(run, state.load(run))

    @staticmethod  # noqa: B027 - a default
    def clear(run: Run) -> None:
        """Remove what a run leaves outside its processes, such as containers or topics; nothing by default."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers, in the format of the client setting `bootstrap.servers`."""
        return self.state.bootstrap

    @property
    def broker_ids(self) -> list[int]:
        """The node IDs of the brokers, ascending."""
        return [b.id for b in self.state.brokers]

    @property
    def controller_ids(self) -> list[int]:
        """The node IDs of the dedicated controllers, ascending; empty if there are none."""
        return [c.id for c in self.state.controllers]

    @property
    def node_ids(self) -> list[int]:
        """The node IDs of the dedicated controllers and of the brokers."""
        return [*self.controller_ids, *self.broker_ids]

    @abstractmethod
    def broker_alive(self, broker: int) -> bool:
        """Return whether the broker exists; a paused broker does."""

    def address(self, broker: int) -> tuple[str, int]:
        """Return host and port: of a broker for clients, or of a controller for the platform."""
        broker_state = self.state.node(broker)
        return broker_state.host, broker_state.port

    def check(self) -> None:  # noqa: B027 - a default
        """Raise `ClusterError` if a component that the brokers depend on has ended; there is none by default."""

    def start_broker(self, broker: int) -> None:
        """Start a broker with its data, and wait until it is ready; do nothing if it runs."""
        self.start_brokers([broker])

    @abstractmethod
    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several nodes together: without a quorum majority, a single broker never becomes ready."""

    @abstractmethod
    def end_brokers(self) -> None:
        """End the brokers after the log was read, to free the machine for the audit."""

    def destroy(self) -> None:
        """End everything of the run, including clients and reaper, and remove the brokers' data; keep the logs."""
        from chaos.cluster.teardown import end_all

        end_all(self.run.path, partial(self.clear, self.run))
        if self.run.cluster.exists():  # the whole run directory may have been removed
            self._record_end()

    def _record_end(self) -> None:
        for node in self.node_ids:
            self._set_status(node, "ended")

    def _set_status(self, broker: int, status: BrokerStatus) -> None:
        with self._lock:
            self.state.node(broker).state = status
            self.state.save(self.run.cluster)

    def _log(self, broker: int) -> str:
        return str(self.run.path / str(self.state.node(broker).log))


@runtime_checkable
class Kill(Protocol):
    """End of a broker without a shutdown."""

    def kill_broker(self, broker: int) -> None:
        """End the broker at once, and wait until it is gone."""


@runtime_checkable
class Stop(Protocol):
    """Controlled shutdown of a broker."""

    def stop_broker(self, broker: int) -> None:
        """Request a controlled shutdown, and wait until the broker is gone."""


@runtime_checkable
class Start(Protocol):
    """Start of a broker that is down, with its data."""

    def start_broker(self, broker: int) -> None:
        """Start the broker and wait until it is ready; do nothing if it runs."""

    def start_brokers(self, brokers: Sequence[int]) -> None:
        """Start several nodes together: without a quorum majority, a single broker never becomes ready."""


@runtime_checkable
class Pause(Protocol):
    """Suspension of a broker while its connections stay open."""

    def pause_broker(self, broker: int) -> None:
        """Suspend the execution of the broker."""

    def resume_broker(self, broker: int) -> None:
        """Resume the broker; do nothing if it is not paused."""


@runtime_checkable
class Isolate(Protocol):
    """Cuts in the network of a broker, by peer and direction. Connections stay open, and hang.

    A cut in one direction also prevents new connections in both, because the TCP handshake needs both directions.
    """

    def cut_network(self, cut: Cut) -> None:
        """Drop or hold the packets of this cut; several cuts may overlap."""

    def mend_network(self, cut: Cut) -> None:
        """Let the packets of this cut pass again; do nothing if the cut does not exist."""

    def dropped_packets(self, cut: Cut) -> int:
        """Return how many packets, or pieces of data, this cut has blocked so far."""


@runtime_checkable
class Disconnect(Protocol):
    """Detachment of a broker from its network, so that connection attempts fail at once."""

    def disconnect_broker(self, broker: int) -> None:
        """Detach the broker."""

    def reconnect_broker(self, broker: int) -> None:
        """Attach the broker again at its old address; do nothing if it is connected."""


@runtime_checkable
class Throttle(Protocol):
    """CPU limit for a broker."""

    def throttle_broker(self, broker: int, cpus: float) -> None:
        """Limit the broker to `cpus` CPUs."""

    def unthrottle_broker(self, broker: int) -> None:
        """Restore the CPU limit of the scenario."""

    def throttled_s(self, broker: int) -> float:
        """Return the seconds that the broker has waited because of the limit, as counted by the kernel."""


@runtime_checkable
class ExhaustMemory(Protocol):
    """Exhaustion of a broker's memory, so that the kernel kills the broker."""

    def exhaust_memory(self, broker: int) -> None:
        """Use up the memory of the broker, and wait until the broker is gone."""

    def killed_for_memory(self, broker: int) -> bool:
        """Return whether the kernel killed the broker for lack of memory since its last start."""


@runtime_checkable
class FillDisk(Protocol):
    """Full disk of a broker; the disk has a fixed size."""

    def fill_disk(self, broker: int, free_bytes: int) -> None:
        """Fill the disk until `free_bytes` are left."""

    def free_disk(self, broker: int) -> None:
        """Remove what `fill_disk` wrote, if anything."""

    def disk_room(self, broker: int) -> int:
        """Return the free bytes on the disk."""


@runtime_checkable
class Wipe(Protocol):
    """Replacement of the disk of a broker that is down by an empty one."""

    def wipe_disk(self, broker: int) -> None:
        """Remove everything except the identifiers that a newly formatted disk has."""

    def replicas_on_disk(self, broker: int) -> int:
        """Return the number of partition replicas on the disk."""


@dataclass(frozen=True)
class LogTail:
    """The offsets cut off a log: from `start` up to, but not including, `end`. Empty if both are equal."""

    start: int
    end: int


@runtime_checkable
class CutLog(Protocol):
    """Loss of the unflushed tail of a partition's log while its broker is down."""

    def cut_log(self, broker: int, partition: TopicPartition, records: int | None) -> LogTail:
        """Cut off at least `records` records (None: all that were not flushed), and return the lost offsets."""


@runtime_checkable
class ChangeRelease(Protocol):
    """Another release of Kafka, or other settings, for single brokers."""

    def prepare_release(self, release: str, on_progress: Progress) -> None:
        """Fetch and prepare a release, so that the next start with it is quick."""

    def set_release(self, broker: int, release: str) -> None:
        """Let the next start of a broker, with its data, run this release."""

    def set_settings(self, broker: int, settings: Mapping[str, str]) -> None:
        """Let the next start of a broker have these values of settings."""

    def logged_release(self, broker: int) -> str | None:
        """Return the release that the broker has logged since its last start; None if it has logged none."""

    def logged_errors(self, broker: int) -> str:
        """Return the errors that the broker has logged since its last start, with the path of the log."""

    def note_refinalized(self) -> None:
        """Record that the features, or settings that stand for them, are no longer as deployed."""


@runtime_checkable
class SetClock(Protocol):
    """A clock of a node that differs from the clock of the machine."""

    def set_clock(self, node: int, skew: Skew) -> None:
        """Change the clock of a node, running or not. It stays until it is set again, also over restarts."""

    def clock_ahead_s(self, node: int) -> float:
        """Return how many seconds the clock of a node is ahead now, as it was set; 0 if it is right."""


@runtime_checkable
class LimitDisk(Protocol):
    """Limit on the growth of a broker's files."""

    def limit_disk(self, broker: int, partition: TopicPartition, free_bytes: int) -> int:
        """Limit file size to the log of the partition plus `free_bytes`; return the limit in bytes."""

    def unlimit_disk(self, broker: int) -> None:
        """Remove the limit; do nothing if the broker is gone or has no limit."""

    def fail_folder(self, broker: int, partition: TopicPartition) -> str:
        """Take the data folder with a partition away from a broker with several, and return its name.

        The broker notices when it writes a file there: a new segment, or a checkpoint, every 5 s.
        """

    def mend_folders(self, broker: int) -> None:
        """Give the folders back that were taken away; a broker uses them after a restart."""


@runtime_checkable
class SlowDisk(Protocol):
    """A disk of a node that takes longer to write, and a meter of what the node says about its own times."""

    def slow_disk(self, node: int, delays: Delays) -> None:
        """Delay the writes of a node, running or not. The delays stay until they are set again, also over restarts."""

    def disk_delays(self, node: int) -> Delays:
        """Return the delays of a node as they are set."""

    def delayed_writes(self, node: int) -> Delayed:
        """Return how many writes and syncs of a node were delayed so far."""

    def meter(self, node: int) -> Reading | None:
        """Return the latest times that the node reports; None before it has reported any."""


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
    "change_release": ChangeRelease,
    "set_clock": SetClock,
    "slow_disk": SlowDisk,
}

C = TypeVar("C")


def able(cluster: Cluster, to: type[C]) -> C:
    """Return the cluster, typed as one that has a capability. Raises `ClusterError` if it has not."""
    if not isinstance(cluster, to):
        raise ClusterError(f"the {cluster.state.driver} driver cannot {to.__name__}")
    return cluster
