"""Faults of the network between brokers and clients."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import ONE_BROKER, Direction, FaultSpec
from chaos.scenario.triggers import Target


class BrokerIsolate(FaultSpec):
    """Drop the packets between a broker and its peers, its clients, or both; healed by letting them pass."""

    targets = ONE_BROKER
    needs = frozenset({"isolate"})
    kind: Literal["broker.isolate"]
    cut: Literal["peers", "clients", "all"] = Field("peers", description="from whom")
    direction: Direction = "both"


class LinkCut(FaultSpec):
    """Drop the packets between two brokers; healed by letting them pass."""

    targets = ONE_BROKER
    needs = frozenset({"isolate"})
    kind: Literal["link.cut"]
    other: Target = Field(description="the broker at the other end")
    direction: Direction = "both"


class BrokerDisconnect(FaultSpec):
    """Take a broker off the network altogether; healed by putting it back."""

    targets = ONE_BROKER
    needs = frozenset({"disconnect"})
    kind: Literal["broker.disconnect"]
