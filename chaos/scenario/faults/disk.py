"""Faults of a broker's disk that need no container."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import ONE_BROKER, FaultSpec
from chaos.units import Size


class BrokerWipe(FaultSpec):
    """SIGKILL a broker and replace its disk with an empty, formatted one; healed by a start."""

    targets = ONE_BROKER
    needs = frozenset({"kill", "start", "wipe"})
    kind: Literal["broker.wipe"]


class LogTruncate(FaultSpec):
    """Power loss: SIGKILL a broker and remove the unflushed end of the partition's log; healed by a start.

    It removes whole batches and never goes below the recovery point: flushed records survive.
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


DiskFaults = BrokerWipe | LogTruncate | DiskLimit
