"""Faults on the wire between clients and a broker, done by the proxy; see `chaos.relay`."""

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
    """What all of them have: they hit a broker's connections with clients, and leave the broker itself alone."""

    targets = ONE_BROKER
    breaks_brokers = False


class FrameFault(WireFault):
    """Those that pick single requests, or their answers."""

    api: Api | None = Field(None, description="the kind of request, by Kafka's name; any when left out")
    client: ClientPattern = Field("*", description="client ids, such as billing/1 or shop/*")
    side: Literal["request", "response"] = Field("request", description="the request itself, or the answer to it")
    count: int | None = Field(None, ge=1, description="only the first so many; all when left out")


class WireDrop(FrameFault):
    """Swallow requests or answers while the connection stays open; healed by letting them pass."""

    kind: Literal["wire.drop"]


class WireDelay(FrameFault):
    """Hold requests or answers back, with all behind them on the connection; healed by letting them go."""

    kind: Literal["wire.delay"]
    delay: Duration = Field(gt=0, description="how long each is held")


class WireCut(FrameFault):
    """Close the connection in place of a request or an answer; healed by letting them pass."""

    kind: Literal["wire.cut"]


class WireSlow(WireFault):
    """Make the link to a broker slow for all clients; healed by full speed."""

    kind: Literal["wire.slow"]
    latency: Duration = Field(0.0, description="added to each round trip")
    bandwidth: Size | None = Field(None, gt=0, description="bytes a second in each direction; no limit if left out")

    @model_validator(mode="after")
    def _slows(self) -> Self:
        if not self.latency and self.bandwidth is None:
            raise ValueError("give latency, bandwidth or both")
        return self
