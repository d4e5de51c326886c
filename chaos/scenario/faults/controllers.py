"""Faults of KRaft controllers: the active one, another one, or several. Without dedicated ones, every broker is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.faults.brokers import Cycle
from chaos.scenario.setup import Setup
from chaos.scenario.triggers import CONTROLLER_TARGETS


class ControllerFault(FaultSpec):
    """A fault of controllers, dedicated or not."""

    targets = CONTROLLER_TARGETS
    hits_controllers = True

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the cluster has a quorum with such controllers."""
        yield from super().problems(setup, where)
        selector, _ = self.target.selector
        cluster = setup.cluster
        if selector == "controller" or setup.attached:
            return
        count = cluster.controllers or cluster.brokers
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
