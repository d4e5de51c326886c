"""The capabilities to limit and to slow the disks of nodes; `chaos.cluster.api` has the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from chaos.kafka.partition import TopicPartition
    from chaos.preload.disk import Delayed, Delays
    from chaos.preload.meter import Reading


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
