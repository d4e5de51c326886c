"""Faults of the connections of clients (wire.*): rules of the wire proxy for single requests and answers."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults.base import BROKER_TARGETS, FaultSpec
from chaos.scenario.faults.wire_errors import CODES, ERRORS, allowed
from chaos.setup.clients import settings_of
from chaos.setup.hints import nearest
from chaos.setup.model import Setup
from chaos.setup.names import TopicName
from chaos.setup.triggers import Partition, Strict
from chaos.units import Duration, Size

RecordApi = Literal["Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "OffsetForLeaderEpoch"]
OffsetApi = Literal["OffsetCommit", "OffsetFetch", "FindCoordinator"]
MemberApi = Literal["JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "ConsumerGroupHeartbeat"]
TransactionApi = Literal["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"]
Api = Literal[RecordApi, OffsetApi, MemberApi, TransactionApi]
TOPIC_APIS: tuple[Api, ...] = (
    *("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch"),
    *("OffsetCommit", "OffsetFetch", "AddPartitionsToTxn", "TxnOffsetCommit"),
)
"""The requests that name topics and partitions, and that the proxy reads for them."""
Side = Literal["request", "response"]
ClientPattern = Annotated[str, Field(min_length=1, max_length=200)]


class WireFault(FaultSpec):
    """A fault of a broker's connections with clients. It leaves the broker itself alone."""

    run_only = "the connections of the clients of a run"
    breaks_brokers = False


class FrameSet(Strict):
    """Requests or responses of clients: those that are in every set that is given."""

    api: Api | None = Field(None, description="the kind of request by its Kafka name; any if left out")
    client: ClientPattern = Field("*", description="client ids, such as billing/1 or shop/*")
    side: Side = Field("request", description="the request, or its response")
    topic: TopicName | None = Field(None, description="only requests that name this topic, and their responses")
    partition: Partition | None = Field(None, description="only requests that name this partition, such as orders/0")

    @property
    def names(self) -> tuple[str | None, int | None]:
        """The topic and the partition that the requests name; None for any."""
        if self.partition is None:
            return self.topic, None
        partition = TopicPartition.parse(self.partition)
        return partition.topic, partition.number

    def name_problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check the topic or partition, and that the proxy reads such requests for it."""
        if self.topic is not None and self.partition is not None:
            yield f"{where}: give topic or partition, not both: orders/0 names its topic, too"
        if self.topic is not None:
            yield from setup.topic_problems(f"{where}.topic", [self.topic])
        if self.partition is not None:
            yield from setup.partition_problems(f"{where}.partition", self.partition)
        key = "topic" if self.topic is not None else "partition" if self.partition is not None else None
        if key and self.api not in TOPIC_APIS:
            given = f"{self.api} requests are" if self.api else "requests of any kind are"
            apis = ", ".join(TOPIC_APIS)
            yield f"{where}.{key}: {given} not read for it; give an api that names topics: {apis}"


class FrameFault(WireFault, FrameSet):
    """A fault of single requests or responses."""

    targets = BROKER_TARGETS

    count: int | None = Field(None, ge=1, description="only the first ones, this many; all if left out")

    @property
    def sets(self) -> list[FrameSet]:
        """All sets of frames that the fault is about."""
        return [self]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check the topic or partition."""
        yield from super().problems(setup, where)
        yield from self.name_problems(setup, where)


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


class WireHold(FrameFault):
    """Hold requests or responses, and everything after them on the connection, until another frame has passed.

    A held request reaches the broker even if its client has closed the connection meanwhile. Healed by sending all on.
    """

    kind: Literal["wire.hold"]
    until: FrameSet = Field(
        description="the requests or responses; the first that passes afterwards frees the held frames"
    )
    at_most: Duration = Field(30.0, gt=0, description="time after which a frame passes in any case")

    @property
    def sets(self) -> list[FrameSet]:
        """All sets of frames that the fault is about."""
        return [self, self.until]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check what the frames wait for."""
        yield from super().problems(setup, where)
        yield from self.until.name_problems(setup, f"{where}.until")
        if self.until.api is None:
            yield f"{where}.until: give the api of the requests or responses that free the held ones"


class WireError(FrameFault):
    """Answer requests with an error code in place of the broker, or put it into the broker's answers.

    A request that is answered does not reach the broker. In a broker's answer, the given topic or
    partition gets the code, or all; the broker has carried the request out. Healed by letting them pass.
    """

    no_promise = "wire.error answers in place of the broker"

    kind: Literal["wire.error"]
    error: str = Field(description="the code by its Kafka name, such as NOT_LEADER_OR_FOLLOWER")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the request can be answered so, and that the code claims no more than what happened."""
        yield from super().problems(setup, where)
        if self.api is None or self.api not in ERRORS:
            yield f"{where}.api: give a kind of request that can be answered with an error: {', '.join(ERRORS)}"
            return
        codes = allowed(self.api, self.side)
        if self.error not in CODES:
            yield f"{where}.error: {self.error!r} is not one of {', '.join(codes)}{nearest(self.error, codes)}"
        elif self.error not in codes:
            frame = "the response to" if self.side == "response" else "a request"
            yield f"{where}.error: {frame} {self.api} takes one of {', '.join(codes)}, not {self.error}"
        for producer in setup.producers if self.side == "request" else ():
            ids = [f"{producer.name}/{number}" for number in range(1, producer.count + 1)]
            unanswered = str(settings_of(producer).get("acks")) == "0"
            if unanswered and any(fnmatchcase(name, self.client) for name in ids):
                yield f"{where}.client: {producer.name} has acks 0, and no broker answers its records"


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
