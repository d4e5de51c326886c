"""Faults of KRaft controllers: the active one, another one, or several. Without dedicated ones, every broker is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import Direction, FaultSpec
from chaos.scenario.faults.brokers import Cycle
from chaos.setup.model import Setup
from chaos.setup.triggers import CONTROLLER_TARGETS

MIN_SUCCESSION = 3
"""Least number of controllers of which the others are a majority when one is cut off."""


class ControllerFault(FaultSpec):
    """A fault of controllers, dedicated or not."""

    targets = CONTROLLER_TARGETS - {"controller_observer"}
    hits_controllers = True

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the cluster has a quorum with such controllers."""
        yield from super().problems(setup, where)
        selector, _ = self.target.selector
        cluster = setup.cluster
        if selector == "controller" or setup.attached:
            return
        count = cluster.voters or cluster.controllers or cluster.brokers
        if cluster.metadata == "zookeeper":
            yield f"{where}.target.{selector}: with ZooKeeper only one broker is a controller; use controller: true"
        elif selector == "controller_follower" and count == 1:
            yield f"{where}.target.{selector}: the only controller is the active one; use controller: true"


class ControllerKill(ControllerFault):
    """SIGKILL controllers; healed by a start with the old disks."""

    needs = frozenset({"kill", "start"})
    kind: Literal["controller.kill"]


class ControllerPause(ControllerFault):
    """SIGSTOP controllers: connections stay open, requests get no answer; healed by SIGCONT."""

    needs = frozenset({"pause"})
    kind: Literal["controller.pause"]
    cycle: Cycle | None = Field(None, description="repeat short pauses until healed; one long pause if left out")


class ControllerIsolate(ControllerFault):
    """Drop the packets between the active controller and the other controllers; healed by letting them pass.

    Brokers still reach it, so it may go on as the active one beside its successor.
    """

    targets = frozenset({"controller"})
    needs = frozenset({"isolate"})
    kind: Literal["controller.isolate"]
    direction: Direction = "both"

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the controllers are dedicated, and that the others are a majority."""
        yield from super().problems(setup, where)
        count = setup.cluster.voters or setup.cluster.controllers
        if count is None:
            yield f"{where}: needs cluster.controllers; with brokers that are controllers too, use broker.isolate"
        elif count < MIN_SUCCESSION:
            key = "voters" if setup.cluster.voters else "controllers"
            yield (
                f"{where}: with {count} {key} the others are no majority, so none becomes active; "
                f"give cluster.{key} {MIN_SUCCESSION} or more"
            )
