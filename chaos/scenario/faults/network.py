"""Faults of the network between brokers, between brokers and clients, and of the connections of clients (wire.*)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from chaos.scenario.faults.base import BROKER_TARGETS, ONE_BROKER, Direction, FaultSpec
from chaos.scenario.setup import Setup
from chaos.scenario.triggers import Target
from chaos.units import Duration, Size

RecordApi = Literal["Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "OffsetForLeaderEpoch"]
OffsetApi = Literal["OffsetCommit", "OffsetFetch", "FindCoordinator"]
MemberApi = Literal["JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "ConsumerGroupHeartbeat"]
TransactionApi = Literal["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"]
Api = Literal[RecordApi, OffsetApi, MemberApi, TransactionApi]
ClientPattern = Annotated[str, Field(min_length=1, max_length=200)]


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


class WireFault(FaultSpec):
    """A fault of a broker's connections with clients. It leaves the broker itself alone."""

    breaks_brokers = False


class FrameFault(WireFault):
    """A fault of single requests or responses."""

    targets = BROKER_TARGETS

    api: Api | None = Field(None, description="the kind of request by its Kafka name; any if left out")
    client: ClientPattern = Field("*", description="client ids, such as billing/1 or shop/*")
    side: Literal["request", "response"] = Field("request", description="the request, or its response")
    count: int | None = Field(None, ge=1, description="only the first ones, this many; all if left out")


class WireDrop(FrameFault):
    """Drop requests or responses while the connection stays open; healed by letting them pass."""

    kind: Literal["wire.drop"]


class WireDelay(FrameFault):
    """Delay requests or responses, and everything after them on the connection; healed by sending them on."""

    kind: Literal["wire.delay"]
    delay: Duration = Field(gt=0, description="delay of each")


class WireCut(FrameFault):
    """Close the connection instead of forwarding a request or a response; healed by letting them pass."""

    kind: Literal["wire.cut"]


class WireSlow(WireFault):
    """Slow the connections of all clients to a broker down; healed by full speed."""

    kind: Literal["wire.slow"]
    latency: Duration = Field(0.0, description="added to each round trip")
    bandwidth: Size | None = Field(None, gt=0, description="bytes per second in each direction; no limit if left out")

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if not self.latency and self.bandwidth is None:
            raise ValueError("give latency, bandwidth or both")
        return self
