"""Faults of the connections between clients and a broker, injected by the wire proxy (`chaos.relay`)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from chaos.scenario.faults.base import ONE_BROKER, FaultSpec
from chaos.units import Duration, Size

Api = Literal[
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "ApiVersions",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
    "ConsumerGroupHeartbeat",
]
ClientPattern = Annotated[str, Field(min_length=1, max_length=200)]


class WireFault(FaultSpec):
    """A fault of a broker's connections with clients. It leaves the broker itself alone."""

    targets = ONE_BROKER
    breaks_brokers = False


class FrameFault(WireFault):
    """A fault of single requests or responses."""

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


WireFaults = WireDrop | WireDelay | WireCut | WireSlow
