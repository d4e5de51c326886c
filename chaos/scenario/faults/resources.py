"""Faults of the CPU, the memory and the disk of a node. The faults of disks come first: they need no container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.cluster.settings import data_folders
from chaos.scenario.faults.base import BROKER_TARGETS, FaultSpec
from chaos.setup.model import Setup
from chaos.setup.triggers import CONTROLLER_TARGETS
from chaos.units import Duration, Size, format_duration

LEAST_DELAY_S, MOST_DELAY_S = 0.02, 5.0
"""Least delay of a disk that a loaded machine does not look like, and the longest that can be proven in time."""


class BrokerWipe(FaultSpec):
    """SIGKILL a broker and replace its disk with an empty, formatted one; healed by a start."""

    final = True
    needs = frozenset({"kill", "start", "wipe"})
    kind: Literal["broker.wipe"]


class LogTruncate(FaultSpec):
    """Power loss: SIGKILL a broker and remove the unflushed end of the partition's log; healed by a start.

    It removes whole batches and never goes below the recovery point: flushed records survive. It does not work with
    flush.messages and flush.ms, as brokers write the recovery point once in a minute only.
    """

    final = True
    targets = frozenset({"leader_of", "follower_of", "isr_of"})
    needs = frozenset({"kill", "start", "cut_log"})
    kind: Literal["log.truncate"]
    records: int | None = Field(None, gt=0, description="minimum number of records to remove; all if left out")


class DiskLimit(FaultSpec):
    """Limit the files of a broker to the size of a partition's log; healed by lifting it and, if down, a start.

    A broker with several data folders (log.dirs in cluster.config) loses only the folder with the log, and lives on
    without the replicas there (KIP-112); healed by the folder and a restart.
    """

    targets = frozenset({"leader_of", "follower_of"})
    needs = frozenset({"limit_disk", "start"})
    kind: Literal["disk.limit"]
    free: Size = Field(0, description="bytes by which the log may still grow")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that a folder that is lost has no room."""
        yield from super().problems(setup, where)
        if self.free and data_folders(setup.cluster.config):
            yield f"{where}.free: with several data folders the folder is lost as a whole; leave free out"

    @property
    def needed(self) -> frozenset[str]:
        """A broker that lives on without a folder is stopped to get it back."""
        return self.needs | {"stop"}


class DiskSlow(FaultSpec):
    """Let the writes of nodes to their data take longer, or their flushes; healed by the former speed.

    The thread that writes or flushes waits before the file changes. Each write counts, whatever its size. Reads, and
    indexes that are mapped into memory, are as fast as ever.
    """

    targets = BROKER_TARGETS | CONTROLLER_TARGETS
    hits_controllers = True
    needs = frozenset({"slow_disk"})
    kind: Literal["disk.slow"]
    write: Duration | None = Field(None, description="additional time of each write, such as 50ms")
    fsync: Duration | None = Field(None, description="additional time of each fsync and msync, such as 200ms")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the delays can be proven."""
        yield from super().problems(setup, where)
        given = {key: value for key, value in (("write", self.write), ("fsync", self.fsync)) if value is not None}
        if not given:
            yield f"{where}: a slow disk delays something; give write, fsync, or both, such as write: 50ms"
        for key, value in given.items():
            if value < LEAST_DELAY_S:
                yield (
                    f"{where}.{key}: {format_duration(value)} cannot be told from the delays of a loaded machine; "
                    f"give {format_duration(LEAST_DELAY_S)} or more"
                )
            if value > MOST_DELAY_S:
                yield (
                    f"{where}.{key}: a disk that takes {format_duration(value)} hangs, and cannot be observed in time; "
                    f"give {format_duration(MOST_DELAY_S)} or less, or use broker.pause"
                )
        if given and self.fsync is None and self.target.picks_controllers and setup.cluster.controllers:
            yield (
                f"{where}.write: a dedicated controller reports how long it flushes its log, not how long it writes; "
                "give fsync too"
            )


class BrokerThrottle(FaultSpec):
    """Limit a broker to a part of a CPU; healed by its former limit."""

    example = "cpus=0.1"
    needs = frozenset({"throttle"})
    kind: Literal["broker.throttle"]
    cpus: float = Field(gt=0, description="CPUs that are left, such as 0.05")


class BrokerOom(FaultSpec):
    """Use up a broker's memory until the kernel kills it (set cluster.memory); healed by a start."""

    needs = frozenset({"exhaust_memory", "start"})
    limit = ("memory", "the memory that is used up")
    kind: Literal["broker.oom"]


class DiskFill(FaultSpec):
    """Fill a broker's disk (set cluster.disk); healed by freeing space, and by a start if the broker went down."""

    needs = frozenset({"fill_disk", "start"})
    limit = ("disk", "the size of the disk that is filled")
    kind: Literal["disk.fill"]
    free: Size = Field(0, description="bytes that are left")
