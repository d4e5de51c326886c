"""Faults of a broker's CPU, memory and disk. The faults of disks come first: they need no container."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import FaultSpec
from chaos.units import Size


class BrokerWipe(FaultSpec):
    """SIGKILL a broker and replace its disk with an empty, formatted one; healed by a start."""

    needs = frozenset({"kill", "start", "wipe"})
    kind: Literal["broker.wipe"]


class LogTruncate(FaultSpec):
    """Power loss: SIGKILL a broker and remove the unflushed end of the partition's log; healed by a start.

    It removes whole batches and never goes below the recovery point: flushed records survive. It does not work with
    flush.messages and flush.ms, as brokers write the recovery point once in a minute only.
    """

    targets = frozenset({"leader_of", "follower_of", "isr_of"})
    needs = frozenset({"kill", "start", "cut_log"})
    kind: Literal["log.truncate"]
    records: int | None = Field(None, gt=0, description="minimum number of records to remove; all if left out")


class DiskLimit(FaultSpec):
    """Limit the files of a broker to the size of a partition's log; healed by lifting it and, if down, a start."""

    targets = frozenset({"leader_of", "follower_of"})
    needs = frozenset({"limit_disk", "start"})
    kind: Literal["disk.limit"]
    free: Size = Field(0, description="bytes by which the log may still grow")


class BrokerThrottle(FaultSpec):
    """Limit a broker to a part of a CPU; healed by its former limit."""

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
