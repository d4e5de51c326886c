"""Faults of broker processes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import BROKER_TARGETS, ONE_BROKER, FaultSpec
from chaos.setup.triggers import Strict
from chaos.units import Duration


class BrokerKill(FaultSpec):
    """SIGKILL a broker, all followers of a partition, or a rack; healed by a start with the old disks."""

    targets = ONE_BROKER | {"followers_of", "rack"}
    needs = frozenset({"kill", "start"})
    kind: Literal["broker.kill"]


class Cycle(Strict):
    """Alternate pauses and run times."""

    paused: Duration = Field(gt=0, description="length of each pause")
    running: Duration = Field(gt=0, description="time between two pauses")


class BrokerPause(FaultSpec):
    """SIGSTOP a broker: connections stay open, requests get no answer; healed by SIGCONT."""

    targets = BROKER_TARGETS
    needs = frozenset({"pause"})
    kind: Literal["broker.pause"]
    cycle: Cycle | None = Field(None, description="repeat short pauses until healed; one long pause if left out")


class CoordinatorKill(FaultSpec):
    """SIGKILL the broker that coordinates a group, or keeps the state of a share group; healed by a start."""

    targets = frozenset({"coordinator_of", "share_coordinator_of"})
    needs = frozenset({"kill", "start"})
    kind: Literal["coordinator.kill"]


class BrokerStop(FaultSpec):
    """Shut a broker down in a controlled way: it hands over its leaderships first; healed by a start."""

    targets = ONE_BROKER | {"followers_of"}
    needs = frozenset({"stop", "start"})
    kind: Literal["broker.stop"]


class RollingRestart(FaultSpec):
    """Restart the brokers one by one, each after all replicas are in sync; healed by a start of those that are down.

    Dedicated controllers are restarted before them, one by one, the active one last.
    """

    targets = frozenset({"all_brokers"})
    needs = frozenset({"stop", "start"})
    kind: Literal["cluster.rolling_restart"]
