"""Triggers, which say when a step of the timeline fires, and targets, which say what a fault hits.

Both are data. Targets are resolved as late as possible, at the moment of injection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from chaos.kafka.partition import TopicPartition
from chaos.relay.roles import MomentApi, StepApi
from chaos.setup.names import GroupId, InCluster, RackName, TopicName, TransactionalId
from chaos.units import Duration, parse_duration

Phase = Literal["injected", "proven", "healed"]
PHASES: tuple[Phase, ...] = ("injected", "proven", "healed")
CONTROLLER_TARGETS = frozenset({"controller", "controller_follower", "controller_observer", "controllers"})
"""The keys of `Target` that mean controllers of the KRaft quorum."""


class Strict(BaseModel):
    """A part of a scenario. It refuses unknown keys, and its values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OneOf(Strict):
    """A part with alternatives: exactly one of its fields is given."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        check_one_of(self, *type(self).model_fields)
        return self

    @property
    def selector(self) -> tuple[str, Any]:
        """The field that is given, and its value, such as `("leader_of", "orders/0")`."""
        return next((name, value) for name, value in self if value is not None)


def check_one_of(part: BaseModel, *names: str) -> None:
    """Raise `ValueError` unless exactly one of these fields of a part is given."""
    keys = [name for name, value in part if name in names and value is not None]
    if len(keys) != 1:
        raise ValueError(f"give exactly one of {', '.join(names)} (found {', '.join(keys) or 'none'})")


@dataclass(frozen=True)
class After:
    """The parsed form of a text such as `kill.healed + 3s`."""

    fault: str
    phase: Phase
    delay_s: float


def parse_after(text: str) -> After:
    """Parse `<fault>[.injected|.proven|.healed] [+ <duration>]`; the default phase is injected. Raises `ValueError`."""
    match = re.fullmatch(r"\s*([A-Za-z0-9_-]+)(?:\.(\w+))?\s*(?:\+\s*(\S+))?\s*", text)
    if not match:
        raise ValueError(
            f"{text!r} is not understood; write the name of a fault and a duration, such as 'kill.healed + 3s'"
        )
    phase = match[2] or "injected"
    if phase not in PHASES:
        raise ValueError(f"{phase!r} is not a phase of a fault; the phases are {', '.join(PHASES)}")
    return After(match[1], phase, parse_duration(match[3]) if match[3] else 0.0)


def parsed_by(parse: Callable[[str], object]) -> AfterValidator:
    """Return a validator that refuses a text which `parse` cannot read, and keeps the text."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


class Delivered(Strict):
    """Number of records processed by one consumer entry, or by all entries of a group."""

    consumer: str | None = Field(None, description="name of an entry of `consumers`")
    group: GroupId | None = Field(None, description="or a group id: all its entries together")
    records: int = Field(gt=0)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        check_one_of(self, "consumer", "group")
        return self

    @property
    def by(self) -> str:
        """The name of the entry or of the group, for messages."""
        return f"group {self.group}" if self.consumer is None else self.consumer


class Acked(Strict):
    """Number of records acknowledged to one producer entry."""

    producer: str = Field(description="name of an entry of `producers`")
    records: int = Field(gt=0)


def check_step(text: str) -> str:
    """Return a step, such as `Produce response`, as it is. Raises `ValueError` for anything else."""
    api, _, side = text.partition(" ")
    if api not in get_args(StepApi) or side not in ("request", "response"):
        steps = ", ".join(get_args(StepApi))
        raise ValueError(f"{text!r} is no step; write a request or its answer, such as Produce response: {steps}")
    return text


class WireMoment(Strict):
    """A request of an application, or the answer to one, seen on the wire. It waits there until the fault is in."""

    app: str = Field(description="the application, such as billing, or one instance, billing/1")
    api: MomentApi = Field(description="the kind of request by its Kafka name")
    side: Literal["request", "response"] = Field("request", description="the request, or its answer")
    after: Annotated[str, AfterValidator(check_step)] | None = Field(
        None, description="only if this was the instance's last step before, such as Produce response; any if left out"
    )
    nth: int = Field(1, ge=1, description="the first such moment, the second one, …, since the load began")
    latest: Duration | None = Field(
        None,
        gt=0,
        description="time after the start of the clients at which the fault comes without it; never if left out",
    )

    def describe(self) -> str:
        """Return the moment as text, such as `OffsetCommit request 3 of billing after Produce response`."""
        after = f" after {self.after}" if self.after else ""
        return f"{self.api} {self.side} {self.nth} of {self.app}{after}"


class Works(Strict):
    """An application works again: its group is stable, and each of its instances has fetched since a phase of a fault.

    A member that was killed stays in its group for its session time-out, 45 s by default; no partition moves before.
    """

    app: str = Field(description="the application, such as billing")
    after: Annotated[str, parsed_by(parse_after)] = Field(description="a phase of another fault: kill.healed + 1s")

    def describe(self) -> str:
        """Return the trigger as text."""
        return f"once {self.app} works again after {self.after}"


class Trigger(OneOf):
    """The moment of a step: exactly one of these. Progress repeats on slow machines, so prefer it to times."""

    at: Duration | None = Field(None, description="time after the start of the clients")
    acked: Annotated[int, Field(gt=0)] | Acked | None = Field(
        None, description="number of records acknowledged to all producers together, or to one entry"
    )
    delivered: Delivered | None = Field(None, description="number of records processed by a consumer entry or a group")
    after: Annotated[str, parsed_by(parse_after)] | None = Field(
        None, description="after a phase of another fault: 'kill + 3s', 'kill.healed', 'kill.proven + 500ms'"
    )

    works: Works | None = Field(
        None, description="when an application works again after another fault: {app: billing, after: kill.healed}"
    )
    wire: WireMoment | None = Field(None, description="a moment of an application's work, seen on the wire")

    @property
    def awaited(self) -> After | None:
        """The phase of a fault that the trigger waits for, if it names one."""
        text = self.works.after if self.works else self.after
        return parse_after(text) if text is not None else None

    def describe(self) -> str:
        """Return the trigger as text, such as `at 8,000 acknowledged records`."""
        if isinstance(self.acked, Acked):
            return f"at {self.acked.records:,} records acknowledged to {self.acked.producer}"
        if self.acked is not None:
            return f"at {self.acked:,} acknowledged records"
        if self.delivered is not None:
            return f"at {self.delivered.records:,} records processed by {self.delivered.by}"
        if self.after is not None:
            return f"after {self.after}"
        if self.works is not None:
            return self.works.describe()
        if self.wire is not None:
            latest = self.wire.latest
            return f"at {self.wire.describe()}{f', or {latest:g} s after the start' if latest is not None else ''}"
        return f"{self.at:g} s after the start"


class Heal(OneOf):
    """The moment at which a fault is healed. Every fault that is left is healed before the drain."""

    after: Duration | None = Field(None, description="time after the injection")
    when: Trigger | None = Field(None, description="or a trigger")


def split_member(text: str) -> tuple[str, int]:
    """Split `billing/1` into the client entry and the number of the member, counted from 1. Raises `ValueError`."""
    name, _, number = text.partition("/")
    if not name or not number.isdigit() or int(number) < 1:
        raise ValueError(f"{text!r} is not a client; write entry/number, counted from 1, such as billing/1")
    return name, int(number)


Partition = Annotated[str, parsed_by(TopicPartition.parse), InCluster(260)]
Member = Annotated[str, parsed_by(split_member)]


class Target(OneOf):
    """The target of a fault, resolved at the moment of injection. Exactly one of these."""

    leader_of: Partition | None = Field(None, description="the leader of this partition, such as orders/0")
    followers_of: Partition | None = Field(None, description="all followers of this partition")
    follower_of: Partition | None = Field(None, description="one follower of this partition, chosen by the seed")
    isr_of: Partition | None = Field(None, description="all brokers in the ISR of this partition")
    coordinator_of: GroupId | None = Field(None, description="the coordinator of this group id")
    coordinator_of_app: str | None = Field(
        None, description="the coordinator of the group of this application, also of one that the run has to find"
    )
    share_coordinator_of: GroupId | None = Field(
        None, description="the share coordinator of this share group, for partition 0 of its first topic"
    )
    transaction_coordinator_of: TransactionalId | None = Field(
        None, description="the transaction coordinator of this transactional id"
    )
    controller: Literal[True] | None = Field(None, description="the active controller")
    controller_follower: Literal[True] | None = Field(
        None, description="a controller that is not the active one, chosen by the seed"
    )
    controller_observer: Literal[True] | None = Field(
        None, description="a dedicated controller that is no voter of a dynamic quorum, chosen by the seed"
    )
    controllers: Literal["majority", "all"] | None = Field(
        None, description="the active controller with others, chosen by the seed, up to a majority; or all of them"
    )
    broker: int | None = Field(None, ge=0, description="this broker")
    rack: RackName | None = Field(None, description="all brokers in this rack")
    random_broker: Literal[True] | None = Field(None, description="a broker chosen by the seed")
    broker_of_moment: Literal[True] | None = Field(
        None, description="the broker to which the request of `when.wire` went, or from which its answer came"
    )
    member: Member | None = Field(None, description="this client, such as billing/1")
    random_member: str | None = Field(None, description="a client of this entry, chosen by the seed")
    random_member_of: GroupId | None = Field(
        None, description="a member of this group, whichever entry it belongs to, chosen by the seed"
    )
    task_manager: Member | None = Field(
        None, description="a task manager of the session cluster of an entry, such as replay/1: the first one of replay"
    )
    task_manager_of: Member | None = Field(
        None, description="a task manager that runs a subtask of this client's job, chosen by the seed"
    )
    app: str | None = Field(
        None, description="this instance of an application, such as billing/1, or the whole application billing"
    )
    all_brokers: Literal[True] | None = Field(None, description="every broker")
    topic: TopicName | None = Field(None, description="this topic")
    partition: Partition | None = Field(None, description="this partition, such as orders/0")
    group: GroupId | None = Field(None, description="this group id")

    @property
    def picks_controllers(self) -> bool:
        """Whether the target is one or several controllers."""
        return self.selector[0] in CONTROLLER_TARGETS

    def describe(self) -> str:
        """Return the target as text, such as `leader of orders/0`."""
        name, value = self.selector
        return name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {value}"
