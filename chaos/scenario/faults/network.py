"""Faults of the network between brokers, and between brokers and clients. `wire` has those of single connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import ONE_BROKER, Direction, FaultSpec
from chaos.setup.model import Setup
from chaos.setup.triggers import Target


class CutFault(FaultSpec):
    """A fault that drops packets at a broker."""

    needs = frozenset({"isolate"})

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the cluster runs without ZooKeeper, which every broker would still reach."""
        if setup.cluster.metadata == "zookeeper":
            yield f"{where}: {self.kind} needs a cluster without ZooKeeper, which every broker would still reach"


class BrokerIsolate(CutFault):
    """Drop the packets between a broker or a rack and its peers, its clients, or both; healed by letting them pass.

    The peers are all other nodes, also dedicated controllers. The brokers of a rack reach each other.
    """

    targets = ONE_BROKER | {"rack"}
    kind: Literal["broker.isolate"]
    cut: Literal["peers", "clients", "all"] = Field("peers", description="the connections that are cut")
    direction: Direction = "both"


class LinkCut(CutFault):
    """Drop the packets between two brokers; healed by letting them pass."""

    example = 'other={"broker":3}'
    kind: Literal["link.cut"]
    other: Target = Field(description="the broker at the other end")
    direction: Direction = "both"

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check the other end of the link."""
        yield from super().problems(setup, where)
        yield from setup.target_problems(f"{where}.other", self.other)
        selector, _ = self.other.selector
        if selector not in ONE_BROKER:
            yield f"{where}.other: {selector} does not name one broker; {', '.join(sorted(ONE_BROKER))} do"


class BrokerDisconnect(FaultSpec):
    """Disconnect a broker from the network; healed by reconnecting it."""

    needs = frozenset({"disconnect"})
    kind: Literal["broker.disconnect"]
