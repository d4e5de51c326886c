"""Faults of brokers that any driver of processes can do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import BROKER_TARGETS, ONE_BROKER, FaultSpec
from chaos.scenario.triggers import Strict
from chaos.units import Duration, Size


class BrokerKill(FaultSpec):
    """SIGKILL a broker, or all followers of a partition; healed by starting them again on their old disks."""

    targets = ONE_BROKER | {"followers_of"}
    needs = frozenset({"kill", "start"})
    kind: Literal["broker.kill"]


class BrokerStop(FaultSpec):
    """Ask a broker to shut down: it hands over what it leads first; healed by starting it again."""

    targets = ONE_BROKER | {"followers_of"}
    needs = frozenset({"stop", "start"})
    kind: Literal["broker.stop"]


class Cycle(Strict):
    """So long paused, so long running, again and again."""

    paused: Duration = Field(gt=0, description="how long it stands still each time")
    running: Duration = Field(gt=0, description="how long it runs in between")


class BrokerPause(FaultSpec):
    """SIGSTOP a broker: connections stay open, nothing answers; healed by SIGCONT."""

    targets = BROKER_TARGETS
    needs = frozenset({"pause"})
    kind: Literal["broker.pause"]
    cycle: Cycle | None = Field(None, description="pause in turns until healed; one long pause when left out")


class CoordinatorKill(FaultSpec):
    """SIGKILL the broker that coordinates a group; healed by starting it again."""

    targets = frozenset({"coordinator_of"})
    needs = frozenset({"kill", "start"})
    kind: Literal["coordinator.kill"]


class ControllerKill(FaultSpec):
    """SIGKILL the active controller; healed by starting it again."""

    targets = frozenset({"controller"})
    needs = frozenset({"kill", "start"})
    kind: Literal["controller.kill"]


class RollingRestart(FaultSpec):
    """Restart every broker in turn, the next when all replicas are in sync again; healed by starting what is down."""

    targets = frozenset({"all_brokers"})
    needs = frozenset({"stop", "start"})
    kind: Literal["cluster.rolling_restart"]


class BrokerWipe(FaultSpec):
    """SIGKILL a broker and replace its disk by an empty one that is formatted; healed by starting it again."""

    targets = ONE_BROKER
    needs = frozenset({"kill", "start", "wipe"})
    kind: Literal["broker.wipe"]


class LogTruncate(FaultSpec):
    """Power loss: SIGKILL, and what was not flushed of the partition's log is gone; healed by starting again.

    Whole batches, and never below the recovery point: what Kafka has flushed survives.
    """

    targets = frozenset({"leader_of", "follower_of", "isr_of"})
    needs = frozenset({"kill", "start", "cut_log"})
    kind: Literal["log.truncate"]
    records: int | None = Field(None, gt=0, description="cut off at least so many; left out: all")


class DiskLimit(FaultSpec):
    """Let no file of a broker grow beyond the log of a partition; healed by lifting that and a start if need be."""

    targets = frozenset({"leader_of", "follower_of"})
    needs = frozenset({"limit_disk", "start"})
    kind: Literal["disk.limit"]
    free: Size = Field(0, description="bytes by which the log may still grow")
