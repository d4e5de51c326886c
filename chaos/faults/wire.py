"""Faults of the connections of clients (wire.*): rules of the wire proxy for single requests and answers.

The error codes with which a request can be answered, and which of them leave the outcome of the request honest.

A code stands for what a broker did. If the proxy invents it, it must not say more than what happened, because clients,
and the audit after them, believe it. So a request has only the codes after which a client asks again, or gives up
without a claim about earlier attempts. A write that the broker has carried out (`side: response`) has only the codes
that leave open whether it was carried out: all client programs record them as `unknown`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from chaos.errors import FaultError
from chaos.faults.base import BROKER_TARGETS, Effect, Fault, FaultSpec, World
from chaos.faults.targets import BrokerFault
from chaos.kafka.partition import TopicPartition
from chaos.setup.clients import settings_of
from chaos.setup.model import Setup, unknown
from chaos.setup.names import TopicName, nearest
from chaos.setup.triggers import Partition, Strict, split_member
from chaos.units import Duration, Size

if TYPE_CHECKING:
    from chaos.relay.control import Hits, Proxy
    from chaos.relay.rules import Act, Frames, Rule

CODES = {
    "UNKNOWN_SERVER_ERROR": -1,
    "CORRUPT_MESSAGE": 2,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "REQUEST_TIMED_OUT": 7,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "ILLEGAL_GENERATION": 22,
    "UNKNOWN_MEMBER_ID": 25,
    "REBALANCE_IN_PROGRESS": 27,
    "CONCURRENT_TRANSACTIONS": 51,
    "KAFKA_STORAGE_ERROR": 56,
    "FENCED_LEADER_EPOCH": 74,
    "UNKNOWN_LEADER_EPOCH": 75,
    "OFFSET_NOT_AVAILABLE": 78,
    "UNSTABLE_OFFSET_COMMIT": 88,
    "UNKNOWN_TOPIC_ID": 100,
}
"""The numbers of the error codes, by their names in Kafka's protocol guide."""

_LEADER = (
    *("UNKNOWN_SERVER_ERROR", "UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"),
    *("KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
)

_COORDINATOR = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")

_MEMBER = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS")

_TRANSACTION = (*_COORDINATOR, "CONCURRENT_TRANSACTIONS")

ERRORS: dict[str, tuple[str, ...]] = {
    "Produce": (
        *_LEADER,
        *("REQUEST_TIMED_OUT", "CORRUPT_MESSAGE", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    ),
    "Fetch": (*_LEADER, "OFFSET_NOT_AVAILABLE", "UNKNOWN_TOPIC_ID"),
    "ListOffsets": (*_LEADER, "OFFSET_NOT_AVAILABLE"),
    "OffsetForLeaderEpoch": _LEADER,
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "JoinGroup": (*_COORDINATOR, "UNKNOWN_MEMBER_ID"),
    "SyncGroup": (*_COORDINATOR, *_MEMBER),
    "Heartbeat": (*_COORDINATOR, *_MEMBER),
    "OffsetFetch": (*_COORDINATOR, "UNSTABLE_OFFSET_COMMIT"),
    "OffsetCommit": (*_COORDINATOR, *_MEMBER, "REQUEST_TIMED_OUT"),
    "InitProducerId": _TRANSACTION,
    "AddPartitionsToTxn": _TRANSACTION,
    "AddOffsetsToTxn": _TRANSACTION,
    "TxnOffsetCommit": _COORDINATOR,
    "EndTxn": _TRANSACTION,
}
"""The error codes of each request that can be answered with one."""

OPEN: dict[str, tuple[str, ...]] = {
    "Produce": (
        *("UNKNOWN_SERVER_ERROR", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "KAFKA_STORAGE_ERROR"),
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    ),
    "OffsetCommit": ("COORDINATOR_NOT_AVAILABLE", "REQUEST_TIMED_OUT"),
    "TxnOffsetCommit": ("COORDINATOR_NOT_AVAILABLE",),
    "EndTxn": ("COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"),
}
"""The error codes that a write of these kinds can be given although the broker has carried it out."""

RecordApi = Literal["Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "OffsetForLeaderEpoch"]

OffsetApi = Literal["OffsetCommit", "OffsetFetch", "FindCoordinator"]

MemberApi = Literal[
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "ConsumerGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "ShareGroupHeartbeat",
]

ShareApi = Literal["ShareFetch", "ShareAcknowledge"]

TransactionApi = Literal["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"]

Api = Literal[RecordApi, OffsetApi, MemberApi, ShareApi, TransactionApi]

TOPIC_APIS: tuple[Api, ...] = (
    *("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch"),
    *("OffsetCommit", "OffsetFetch", "AddPartitionsToTxn", "TxnOffsetCommit"),
)
"""The requests that name topics and partitions, and that the proxy reads for them."""

REPEATED_BY_MEMBERS = frozenset(
    {"OffsetCommit", "TxnOffsetCommit", "Heartbeat"}
    | {"ConsumerGroupHeartbeat", "StreamsGroupHeartbeat", "ShareGroupHeartbeat"}
)
"""The requests that members send to the coordinator of their group all the time."""

Side = Literal["request", "response"]

ClientPattern = Annotated[str, Field(min_length=1, max_length=200)]

MIN_RISE_SHARE = 0.8
"""Minimum rise of a round trip, as a share of the delay that was added."""

PROBES = 3
"""Round trips to measure; the shortest counts."""

PROBE_S = 0.5
"""Time that a probe takes on a link of limited bandwidth."""

PROBE_NAME, MAX_NAMES = "x" * 240, 4000

PROBE_TIMEOUT_S = 15.0


def as_share(value: Any) -> Any:
    """Return a share that is given in percent, such as `5 %`, as a number. Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    number = value.strip().removesuffix("%")
    try:
        return float(number) / (100 if number != value.strip() else 1)
    except ValueError:
        raise ValueError(f"{value!r} is no share, such as 5 % or 0.05") from None


def allowed(api: str, side: str) -> tuple[str, ...]:
    """Return the error codes for this side of a kind of request; none if it is never answered with one."""
    return OPEN[api] if side == "response" and api in OPEN else ERRORS.get(api, ())


class WireFaultSpec(FaultSpec):
    """A fault of a broker's connections with clients. It leaves the broker itself alone."""

    run_only = "the connections of the clients of a run"
    breaks_brokers = False


class FrameSet(Strict):
    """Requests or responses of clients: the members of every set that is given."""

    api: Api | None = Field(None, description="the kind of request by its Kafka name; any if left out")
    client: ClientPattern = Field("*", description="client ids, such as billing/1 or shop/*")
    app: str | None = Field(
        None, description="only the connections of this application, such as billing, or of one instance, billing/1"
    )
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
        if self.app is not None:
            yield from app_problems(setup, f"{where}.app", self.app)
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


class FrameFaultSpec(WireFaultSpec, FrameSet):
    """A fault of single requests or responses."""

    targets = BROKER_TARGETS

    count: int | None = Field(
        None, ge=1, description="only the first ones, this many; all if left out", examples=[1, 3, 20]
    )
    share: Annotated[float, BeforeValidator(as_share), Field(gt=0, le=1)] = Field(
        1.0, description="only this share of them, such as 5 %, drawn by the seed", examples=["5 %", "30 %"]
    )

    @property
    def sets(self) -> list[FrameSet]:
        """All sets of frames that the fault is about."""
        return [self]

    @property
    def breaks(self) -> frozenset[Effect]:
        """Nothing, if all frames are frames of an application: no client of the scenario sees it."""
        return frozenset() if self.app is not None else self.effects

    @property
    def unpromised(self) -> str:
        """The reason of the kind, unless all frames are frames of an application."""
        return "" if self.app is not None else self.no_promise

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check the topic or partition."""
        yield from super().problems(setup, where)
        yield from self.name_problems(setup, where)


class WireDropSpec(FrameFaultSpec):
    """Drop requests or responses while the connection stays open; healed by letting them pass."""

    effects = frozenset({"wire", "connections"})
    left_out = "as lost-answer, but each run waits for the time-out of a request"
    kind: Literal["wire.drop"]


W = TypeVar("W", bound=WireFaultSpec)


class RuleFault(BrokerFault[W]):
    """A fault that is one rule of the wire proxy."""

    _rule = 0

    def _add_rule(self, rule: Rule, world: World) -> None:
        self._rule = proxy_of(world).add(rule)
        self.begun = True

    def _undo(self, world: World) -> str:
        """Remove the rule; the proxy sends on the frames that it holds."""
        counts = proxy_of(world).remove(self._rule)
        late = f", {counts.outlived} connections outlived their clients" if counts.outlived else ""
        return f"the wire of {self.resolved} is whole again; {counts.hits} frames were hit in all{late}"


F = TypeVar("F", bound=FrameFaultSpec)


class FrameFault(RuleFault[F]):
    """A fault of single requests or responses. Proof: the proxy counted at least one frame that it hit.

    The proxy counts a frame when it applies the rule, which is the damage itself. The audit judges the reaction of
    clients.
    """

    act: ClassVar[Act]
    result: ClassVar[str]

    def _inject(self, world: World) -> str:
        frames = _frames(self.spec, tuple(self.brokers))
        rule = self._rule_for(frames, world)
        if self.spec.share < 1:
            rule = replace(rule, share=self.spec.share, seed=world.rng.randrange(2**31))
        self._add_rule(rule, world)
        first = f"the first {self.spec.count} " if self.spec.count else ""
        first += f"{self.spec.share:.3g} of the " if self.spec.share < 1 else ""
        return f"from now on {first}{self._describe()} are {self._result()}"

    def _rule_for(self, frames: Frames, world: World) -> Rule:
        from chaos.relay.rules import Rule

        return Rule(self.act, frames, self.spec.count)

    def _result(self) -> str:
        return self.result

    def _effect(self, world: World) -> str | None:
        return self._proved(proxy_of(world).counts(self._rule))

    def _proved(self, counts: Hits) -> str | None:
        """Return the counts as evidence, if they prove the fault."""
        return f"{counts.hits} {self._describe()} were {self._result()} so far" if counts.hits else None

    def _describe(self) -> str:
        return f"{_describe(self.spec)} at {self.resolved}"


class WireDrop(FrameFault[WireDropSpec], spec=WireDropSpec):
    """Drop frames. Proof: the proxy counted at least one frame that it dropped."""

    act, result = "drop", "dropped"


class WireDelaySpec(FrameFaultSpec):
    """Delay requests or responses, and everything after them on the connection; healed by sending them on."""

    effects = frozenset({"late", "wire", "connections"})
    example = "delay=2s"
    kind: Literal["wire.delay"]
    delay: Duration = Field(gt=0, description="delay of each")


class WireDelay(FrameFault[WireDelaySpec], spec=WireDelaySpec):
    """Delay frames. Proof: the proxy counted at least one frame that it delayed."""

    act, result = "delay", "delayed"

    def _rule_for(self, frames: Frames, world: World) -> Rule:
        from chaos.relay.rules import Rule

        return Rule(self.act, frames, self.spec.count, delay_s=self.spec.delay)


class WireCutSpec(FrameFaultSpec):
    """Close the connection instead of forwarding a request or a response; healed by letting them pass."""

    effects = frozenset({"wire", "connections"})
    kind: Literal["wire.cut"]


class WireCut(FrameFault[WireCutSpec], spec=WireCutSpec):
    """Close the connection instead of sending a frame on. Proof: the proxy counted at least one such frame."""

    act, result = "cut", "lost with their connection"


class WireHoldSpec(FrameFaultSpec):
    """Hold requests or responses, and everything after them on the connection, until another frame has passed.

    A held request reaches the broker even if its client has closed the connection meanwhile. Healed by sending all on.
    """

    effects = frozenset({"late", "wire", "connections"})
    left_out = "an order of requests that one bug needs; slow-link is its like"
    example = 'api=Fetch until={"api":"Produce"} at_most=10s'
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


class WireHold(FrameFault[WireHoldSpec], spec=WireHoldSpec):
    """Hold frames until another one has passed. Proof: the proxy sent on a frame that it held, after the other one.

    A frame that passed because its time was over is no proof.
    """

    act = "hold"

    def _rule_for(self, frames: Frames, world: World) -> Rule:
        from chaos.relay.rules import Rule

        return Rule(self.act, frames, self.spec.count, delay_s=self.spec.at_most, until=_frames(self.spec.until, None))

    def _result(self) -> str:
        return f"held until one of the {_describe(self.spec.until)} has passed"

    def _proved(self, counts: Hits) -> str | None:
        if not counts.released:
            return None
        late = f"; {counts.outlived} connections had outlived their clients by then" if counts.outlived else ""
        until = f"one of the {_describe(self.spec.until)} had passed"
        return f"{counts.hits} {self._describe()} were held so far, {counts.released} of them until {until}{late}"


class WireErrorSpec(FrameFaultSpec):
    """Answer requests with an error code in place of the broker, or put it into the broker's answers.

    A request that is answered does not reach the broker. In a broker's answer, the given topic or
    partition gets the code, or all; the broker has carried the request out. Healed by letting them pass.
    """

    effects = frozenset({"wire", "connections"})
    left_out = "an error without a reason is no fault of a broker that the promises are about"
    no_promise = "wire.error answers in place of the broker"

    example = "api=Produce error=NOT_LEADER_OR_FOLLOWER"
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


class WireError(FrameFault[WireErrorSpec], spec=WireErrorSpec):
    """Errors in place of answers. Proof: the proxy gave at least one answer with the error code.

    A broker's answer that the code did not change does not count.
    """

    act = "error"

    def _rule_for(self, frames: Frames, world: World) -> Rule:
        from chaos.relay.rules import Rule

        return Rule(self.act, frames, self.spec.count, error=CODES[self.spec.error])

    def _result(self) -> str:
        if self.spec.side == "response":
            return f"changed to {self.spec.error}, after the broker had carried the requests out"
        return f"answered with {self.spec.error} and not passed on"


class LinkSpeed(Strict):
    """How slow a link is."""

    latency: Duration = Field(0.0, description="added to each round trip")
    bandwidth: Size | None = Field(None, gt=0, description="bytes per second in each direction; no limit if left out")

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if not self.latency and self.bandwidth is None:
            raise ValueError("give latency, bandwidth or both")
        return self

    def describe_speed(self) -> str:
        """Return the speed as text, such as `50 ms more for a round trip, 1,024 bytes/s at most`."""
        latency = [f"{self.latency * 1000:g} ms more for a round trip"] if self.latency else []
        bandwidth = [f"{self.bandwidth:,} bytes/s at most"] if self.bandwidth else []
        return ", ".join(latency + bandwidth)


class WireSlowSpec(WireFaultSpec, LinkSpeed):
    """Slow the connections of all clients to a broker down; healed by full speed."""

    effects = frozenset({"late", "wire", "connections"})
    example = "latency=400ms"
    kind: Literal["wire.slow"]


class WireSlow(RuleFault[WireSlowSpec], spec=WireSlowSpec):
    """Slow link. Proof: round trips through the proxy take longer by at least 80 % of the added delay.

    The shortest of several round trips before is compared with the shortest of several now, because a busy machine only
    adds time to single ones.
    """

    _before_s: float
    _names: tuple[str, ...] = ()
    """The topic names in a probe: enough bytes to fill a link of limited bandwidth in both directions."""

    def _inject(self, world: World) -> str:
        from chaos.relay.rules import Frames, Rule

        if self.spec.bandwidth:
            count = max(1, round(self.spec.bandwidth * PROBE_S / 2 / len(PROBE_NAME)))
            self._names = tuple(f"{PROBE_NAME}{number}" for number in range(min(MAX_NAMES, count)))
        try:
            self._before_s = min(self._round_trip_s(world) for _ in range(PROBES))
        except OSError as e:
            raise FaultError(f"{self.resolved} did not answer even before the fault: {e or type(e).__name__}") from None
        self._add_rule(
            Rule("slow", Frames((self.broker,)), latency_s=self.spec.latency, bandwidth=self.spec.bandwidth), world
        )
        return f"slowed the link between clients and {self.resolved}: {self.spec.describe_speed()}"

    def _effect(self, world: World) -> str | None:
        transfer_s = 2 * len(self._names) * len(PROBE_NAME) / self.spec.bandwidth if self.spec.bandwidth else 0.0
        least_s = self._before_s + MIN_RISE_SHARE * (self.spec.latency + transfer_s)
        shortest_s = PROBE_TIMEOUT_S
        for _ in range(PROBES):
            try:
                shortest_s = min(shortest_s, self._round_trip_s(world))
            except TimeoutError:
                break
            except OSError:
                return None
            if shortest_s < least_s:
                return None
        return f"a round trip with {self.resolved} rose from {self._before_s * 1000:.0f} to {shortest_s * 1000:.0f} ms"

    def _round_trip_s(self, world: World) -> float:
        """Return the seconds of a request for topics that do not exist. Raises `OSError`."""
        from chaos.kafka import messages
        from chaos.kafka.connection import BrokerConnection

        link = BrokerConnection(*proxy_of(world).address(self.broker), world.access)
        try:
            link.ask(messages.metadata(), PROBE_TIMEOUT_S)
            began = time.monotonic()
            link.ask(messages.metadata(self._names), PROBE_TIMEOUT_S)
            return time.monotonic() - began
        finally:
            link.close()


def front_of(app: str) -> str:
    """Return the pattern for the fronts of an application, or the front of an instance."""
    return app if "/" in app else f"{app}/*"


def app_problems(setup: Setup, where: str, app: str) -> Iterator[str]:
    """Check that the scenario has an application, or an instance of one."""
    instances = {found.name: found.instances for found in setup.apps}
    name = app.partition("/")[0]
    yield from unknown(where, name, "apps", set(instances))
    if "/" in app and name in instances and split_member(app)[1] > instances[name]:
        yield f"{where}: {name} has instances 1 to {instances[name]}, not {app.partition('/')[2]}"


def proxy_of(world: World) -> Proxy:
    """Return the wire proxy of the run. Raises `FaultError` if it has none."""
    if world.proxy is None:
        raise FaultError("this run has no wire proxy")
    return world.proxy


def _frames(spec: FrameSet, brokers: tuple[int, ...] | None) -> Frames:
    from chaos.relay.rules import Frames

    topic, partition = spec.names
    return Frames(brokers, spec.api, spec.client, spec.side, topic, partition, spec.app and front_of(spec.app))


def _describe(spec: FrameSet) -> str:
    """Return a set of frames as text, such as `Produce requests of shop/* for orders/0`."""
    frames = f"{spec.api} {spec.side}s" if spec.api else f"{spec.side}s"
    clients = "" if spec.client == "*" else f" of {spec.client}"
    clients += f" of {spec.app}" if spec.app else ""
    name = spec.partition or spec.topic
    return f"{frames}{clients}" + (f" for {name}" if name else "")


FAULTS: dict[str, type[Fault[Any]]] = {
    "wire.drop": WireDrop,
    "wire.delay": WireDelay,
    "wire.cut": WireCut,
    "wire.hold": WireHold,
    "wire.error": WireError,
    "wire.slow": WireSlow,
}
