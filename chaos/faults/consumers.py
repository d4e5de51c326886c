"""Faults of one consumer: its membership, its process, its pace and its position."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, model_validator

from chaos.faults.base import Client, Fault, World
from chaos.faults.clients import ClientFault, ClientFaultSpec, fenced
from chaos.kafka.partition import TopicPartition
from chaos.setup.clients import Consumer, uses_kip_848
from chaos.setup.model import Setup
from chaos.setup.needs import Needs
from chaos.setup.share import Share
from chaos.setup.triggers import Partition, split_member
from chaos.units import Duration

if TYPE_CHECKING:
    from chaos.kafka.client import GroupState

IDLE_S = 2.0
"""Time without progress after which a consumer in assign mode counts as paused."""

SAMPLE_S = 2.0
"""Least time between two samples of a slow consumer."""


class ConsumerFaultSpec(ClientFaultSpec):
    """A fault of one consumer process."""

    targets = frozenset({"member", "random_member", "random_member_of"})
    of_processors: ClassVar[bool] = False
    """Whether processors, which consume too, can be the target."""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a consumer."""
        selector, value = self.target.selector
        if self.of_processors:
            yield from self._problems_with_processors(setup, where)
            return
        if selector == "random_member_of":
            yield from setup.group_problems(f"{where}.target.{selector}", value)
            if writers := sorted({p.name for p in setup.processors} & set(setup.groups.get(value, []))):
                yield f"{where}.target.{selector}: {writers[0]!r} of the group writes; {self.kind} is for consumers"
            return
        name = self.client_name()
        if name in {p.name for p in setup.producers} | {p.name for p in setup.processors}:
            yield f"{where}.target.{selector}: {name!r} writes; {self.kind} is for consumers"
        else:
            yield from self.client_problems(where, "consumers", {c.name: c.members for c in setup.consumers})

    def _problems_with_processors(self, setup: Setup, where: str) -> Iterator[str]:
        selector, value = self.target.selector
        if selector == "random_member_of":
            yield from setup.group_problems(f"{where}.target.{selector}", value)
            names = set(setup.groups.get(value, []))
        elif (name := self.client_name()) in {p.name for p in setup.producers}:
            other = f"; use {self.kind.replace('consumer', 'producer')}"
            yield f"{where}.target.{selector}: {name!r} only writes; {self.kind} is for consumers and processors{other}"
            return
        else:
            members = {c.name: c.members for c in (*setup.consumers, *setup.processors)}
            yield from self.client_problems(where, "consumers and processors", members)
            names = {name}
        for processor in setup.processors:
            if processor.name in names and processor.threads > 1:
                yield (
                    f"{where}.target.{selector}: the {processor.threads} members in a process of {processor.name} come "
                    "and go together; leave threads out"
                )


class ConsumerSlowSpec(ConsumerFaultSpec):
    """Slow a consumer down per record: it exceeds max.poll.interval.ms, if its client has it; healed by full speed."""

    effects = frozenset({"ends"})
    example = "per_record=200ms"
    kind: Literal["consumer.slow"]
    per_record: Duration = Field(description="extra processing time of each record")


S = TypeVar("S", bound=ConsumerFaultSpec)


class MemberFault(ClientFault[S]):
    """A fault of one consumer, with its membership at the injection.

    A client has two memberships while the coordinator has not yet dropped the membership that the client gave up.
    Proof: all its memberships left the group, or its partitions belong to another member.
    """

    _consumer: Consumer | Share
    _group: str | None
    _member_ids: frozenset[str] = frozenset()
    _instance_id: str | None = None
    _partitions: frozenset[TopicPartition] = frozenset()

    def _aim(self, world: World) -> None:
        """Read the membership, too, directly before the first change."""
        super()._aim(world)
        entry, _ = split_member(self.resolved)
        self._consumer = next(c for c in (*world.scenario.readers, *world.scenario.shares) if c.name == entry)
        self._group = self._consumer.group if self._consumer.mode != "assign" else None
        state = world.kafka.group(self._group) if self._group else None
        for member in state.members if state else ():
            if self._is_target(member.client_id):
                self._member_ids |= {member.member_id}
                self._partitions |= set(member.partitions)
                self._instance_id = member.instance_id
        self.begun = True

    def _is_target(self, client_id: str) -> bool:
        """Return whether a member of the group is the target; a stream thread adds its name to the client's."""
        return client_id == self.resolved or client_id.startswith(f"{self.resolved}-StreamThread-")

    def _effect(self, world: World) -> str | None:
        return self._group_effect(world, self._group) if self._group else self._assign_effect(world)

    def _group_effect(self, world: World, group: str) -> str | None:
        """Describe how the group continues without the member; return None before that."""
        return self._departure(world.kafka.group(group), group)

    def _departure(self, state: GroupState | None, group: str) -> str | None:
        if state is None or not self._member_ids:
            return None
        owners = {p: m.client_id for m in state.members if m.member_id not in self._member_ids for p in m.partitions}
        moved = sorted(self._partitions & set(owners))
        left = self._member_ids.isdisjoint(m.member_id for m in state.members)
        shared = self._consumer.mode == "share"  # other members had its partitions before
        if not left and (shared or not moved):
            return None
        membership = f"{self.resolved} {'left' if left else 'is still in'} group {group}"
        if shared or not moved:
            return membership
        receivers = ", ".join(sorted({owners[partition] for partition in moved}))
        return f"{membership}, {', '.join(map(str, moved))} moved to {receivers}"

    def _assign_effect(self, world: World) -> str | None:
        """Describe the effect on a consumer in assign mode, which has no group that notices."""
        return None


@dataclass(frozen=True)
class _Sample:
    """The progress of a consumer at a moment. lag: records of its partitions that it has not processed."""

    at: float
    delivered: int
    partitions: frozenset[TopicPartition]
    lag: int


class ConsumerSlow(MemberFault[ConsumerSlowSpec], spec=ConsumerSlowSpec):
    """A consumer that processes records slowly.

    Proof: all its memberships left the group, or its partitions belong to another member. Where no poll interval evicts
    it, as in assign mode, the proof is that it takes the additional time for each record and falls behind. A member of
    a share group keeps its membership: the proof is that its locks expire. The broker refuses one of its
    acknowledgements, or, if no member releases records, another member gets records again.
    """

    _before: _Sample | None = None
    _expired_before = 0

    def _inject(self, world: World) -> str:
        self._expired_before = self._expired(world)
        world.fleet.order(self.resolved, {"do": "slow", "per_record_s": self.spec.per_record})
        return f"{self.resolved} takes {self.spec.per_record:g} s longer for each record"

    def _group_effect(self, world: World, group: str) -> str | None:
        if self._consumer.mode == "share":
            expired = self._expired(world) - self._expired_before
            return f"locks of {self.resolved} expired: {expired} records went to others" if expired > 0 else None
        if self._consumer.client.missing("poll interval"):
            return self._assign_effect(world)
        return super()._group_effect(world, group)

    def _expired(self, world: World) -> int:
        """Return the refused acknowledgements of a member of a share group, and the records that others got again."""
        if self._group is None or self._consumer.mode != "share":
            return 0
        entries = [entry for entry in world.scenario.shares if entry.group == self._group]
        refused = world.fleet.state(self.resolved).count("refused")
        if any(entry.release_every for entry in entries):
            return refused
        others = {client for entry in entries for client in world.fleet.present(entry.name)} - {self.resolved}
        return refused + sum(world.fleet.state(client).count("again") for client in others)

    def _assign_effect(self, world: World) -> str | None:
        """Compare two samples at least `SAMPLE_S` apart, of the same partitions."""
        now, before = self._sample(world), self._before
        if before is None or before.partitions != now.partitions or not now.partitions:
            self._before = now
            return None
        took, processed = now.at - before.at, now.delivered - before.delivered
        if took < max(SAMPLE_S, self.spec.per_record):
            return None
        # a client may process its partitions in parallel, as sarama does
        most = (took / self.spec.per_record + 1) * len(now.partitions)
        if now.lag <= before.lag or processed > most:
            self._before = now
            return None
        return (
            f"{self.resolved} processed {processed} records in {took:.1f} s, and its lag grew from {before.lag} to "
            f"{now.lag} records"
        )

    def _sample(self, world: World) -> _Sample:
        state = world.fleet.state(self.resolved)
        positions = {TopicPartition.parse(name): position for name, position in state.positions().items()}
        ends = world.kafka.end_offsets(positions)
        lag = sum(ends[p] - position for p, position in positions.items() if p in ends)
        return _Sample(time.monotonic(), state.count("delivered"), frozenset(positions), lag)

    def _undo(self, world: World) -> str:
        if not world.fleet.state(self.resolved).alive:
            return f"{self.resolved} is gone"
        world.fleet.order(self.resolved, {"do": "slow", "per_record_s": 0.0})
        return f"{self.resolved} works at full speed"


class ConsumerCrashSpec(ConsumerFaultSpec):
    """SIGKILL a consumer process; healed by a start of its next incarnation."""

    effects = frozenset({"ends", "restarts", "crashes"})
    kind: Literal["consumer.crash"]


class EndFault(MemberFault[S]):
    """A fault that ends the process of a consumer.

    Proof: all its memberships left the group; that partitions moved is no proof, as its own second membership moves
    some. The group does not miss a static member before its session ends (KIP-345), so there, as in assign mode, the
    proof is the exit of its process.
    """

    def _group_effect(self, world: World, group: str) -> str | None:
        state = world.kafka.group(group)
        if self._instance_id is None:
            return self._departure(state, group) if self._left(world, state) else None
        if state is None or (not self._restarted and world.fleet.state(self.resolved).alive):
            return None
        listed = next((m for m in state.members if m.instance_id == self._instance_id), None)
        if listed is None:
            return f"the session of the static member {self._instance_id} ended, and group {group} removed it"
        again = f" and its next process, {listed.member_id}" if listed.member_id not in self._member_ids else ""
        partitions = ", ".join(map(str, listed.partitions)) or "no partition"
        return (
            f"the process of {self.resolved} is gone and sends no heartbeat; group {group} keeps {partitions} for the "
            f"static member {self._instance_id}{again}"
        )

    def _left(self, world: World, state: GroupState | None) -> bool:
        """Return whether no membership is left of those at the aim, and of those since then of the dead process."""
        members = state.members if state else ()
        if not self._restarted and not world.fleet.state(self.resolved).alive:
            self._member_ids |= {m.member_id for m in members if self._is_target(m.client_id)}
        return self._member_ids.isdisjoint(m.member_id for m in members)

    def _assign_effect(self, world: World) -> str | None:
        gone = self._restarted or not world.fleet.state(self.resolved).alive
        return f"the process of {self.resolved} is gone" if gone else None

    def _undo(self, world: World) -> str:
        return self._restart(world)


class ConsumerCrash(EndFault[ConsumerCrashSpec], spec=ConsumerCrashSpec):
    """A consumer that crashes."""

    def _inject(self, world: World) -> str:
        world.fleet.crash(self.resolved)
        return f"killed {self.resolved}"


class ConsumerSeekSpec(ConsumerFaultSpec):
    """Make a consumer seek to another position, as its application would; there is nothing to heal."""

    effects = frozenset({"seeks"})
    left_out = "an act of the application"
    abilities = ("seek",)
    needs_records = True
    one_of = ("offsets", "ago")
    example = "ago=5s"
    kind: Literal["consumer.seek"]
    offsets: dict[Partition, int] | None = Field(None, description="to these offsets, such as orders/0: 100")
    ago: Duration | None = Field(
        None, gt=0, description="or, on each assigned partition, to the records written this long ago"
    )
    lookup_first: Annotated[Duration | None, Needs("assignments in turn")] = Field(
        None,
        gt=0,
        description="in place of a seek: assign the partitions without offsets, so that the client library looks up "
        "where to start, and this long afterwards again at the target (assign mode)",
    )


class ConsumerSeek(ClientFault[ConsumerSeekSpec], spec=ConsumerSeekSpec):
    """A consumer that seeks. Proof: the position of a partition changed, and the consumer has delivered from there."""

    _seeks_before: int
    _positions: dict[str, tuple[int, int]]
    """Positions before and after the seek by partition."""

    def _inject(self, world: World) -> str:
        self._seeks_before = len(self._seeks(world))
        offsets, ago = self.spec.offsets, self.spec.ago
        order: dict[str, Any] = {"offsets": offsets} if offsets else {"ago_s": ago}
        if self.spec.lookup_first is not None:
            order["lookup_first_s"] = self.spec.lookup_first
        destination = f"{offsets}" if offsets else f"the records written {ago:g} s ago"
        self._positions, self.begun = {}, True
        world.fleet.order(self.resolved, {"do": "seek", **order})
        return f"ordered {self.resolved} to seek to {destination}"

    def _effect(self, world: World) -> str | None:
        for partition, before, after in self._seeks(world)[self._seeks_before :]:
            if before is not None and before != after:
                self._positions[partition] = before, after
        positions = world.fleet.state(self.resolved).positions()
        if not self._positions or any(
            positions.get(name, after) <= after for name, (_, after) in self._positions.items()
        ):
            return None
        changes = [
            f"{name} from {before} to {after}, by now {positions[name]}"
            for name, (before, after) in sorted(self._positions.items())
        ]
        return f"{self.resolved} went {'; '.join(changes)}"

    def _seeks(self, world: World) -> list[tuple[str, int | None, int]]:
        """Return the seeks that the consumer has reported: partition, position before, position after."""
        seeks: list[tuple[str, int | None, int]] = world.fleet.state(self.resolved).progress().get("sought", [])
        return seeks


class ConsumerResumeSpec(ConsumerFaultSpec):
    """Make a consumer resume its partitions though none is paused: nothing changes; there is nothing to heal."""

    effects = frozenset()
    left_out = "an act of the application"
    abilities = ("resume",)
    kind: Literal["consumer.resume"]


class ConsumerResume(ClientFault[ConsumerResumeSpec], spec=ConsumerResumeSpec):
    """A consumer that resumes partitions which are not paused. Proof: it reports that it did."""

    _before: int

    def _inject(self, world: World) -> str:
        self._before, self.begun = self._resumed(world), True
        world.fleet.order(self.resolved, {"do": "resume"})
        return f"ordered {self.resolved} to resume its partitions"

    def _effect(self, world: World) -> str | None:
        done = self._resumed(world) > self._before
        return f"{self.resolved} resumed its partitions, and none was paused" if done else None

    def _resumed(self, world: World) -> int:
        return int(world.fleet.state(self.resolved).progress().get("resumed", 0))


class ConsumerPauseSpec(ConsumerFaultSpec):
    """SIGSTOP a consumer for longer than its session: it becomes a zombie; healed by SIGCONT."""

    effects = frozenset({"connections", "ends"})
    kind: Literal["consumer.pause"]


class ConsumerPause(MemberFault[ConsumerPauseSpec], spec=ConsumerPauseSpec):
    """A consumer process that is stopped by SIGSTOP.

    Proof: its member id left the group, or its partitions belong to another member. In assign mode the proof is that it
    delivers nothing.
    """

    _delivered = 0
    _since = 0.0

    def _inject(self, world: World) -> str:
        world.fleet.pause(self.resolved)
        self._delivered, self._since = world.fleet.state(self.resolved).count("delivered"), time.monotonic()
        return f"stopped {self.resolved}"

    def _assign_effect(self, world: World) -> str | None:
        """Check that it delivers nothing; what it wrote before it was stopped may be read after that."""
        if (delivered := world.fleet.state(self.resolved).count("delivered")) != self._delivered:
            self._delivered, self._since = delivered, time.monotonic()
        if time.monotonic() - self._since < IDLE_S:
            return None
        return f"{self.resolved} has processed nothing for {IDLE_S:g} s"

    def _undo(self, world: World) -> str:
        world.fleet.resume(self.resolved)
        return f"{self.resolved} runs again"


class ConsumerLeaveSpec(ConsumerFaultSpec):
    """Make a consumer or processor leave its group and stop in order; healed by a start of its next incarnation."""

    effects = frozenset({"hands_over", "restarts"})
    of_processors = True
    kind: Literal["consumer.leave"]
    for_good: bool = Field(
        False, examples=[False], description="it does not come back, as in a rolling change; there is nothing to heal"
    )

    @model_validator(mode="after")
    def _check_heal(self) -> Self:
        if self.for_good and self.heal:
            raise ValueError("heal: a consumer that leaves for_good does not come back; leave one of the two out")
        return self


class ConsumerLeave(EndFault[ConsumerLeaveSpec], spec=ConsumerLeaveSpec):
    """A consumer or processor that leaves its group and stops.

    Kafka Streams does not leave: the group misses it when its session ends. So there the proof is a stop in order.
    """

    _stopped: Client

    def _inject(self, world: World) -> str:
        self._stopped = world.fleet.state(self.resolved)
        world.fleet.leave(self.resolved, world.scenario.limits.clients)
        return f"{self.resolved} stopped in a controlled way"

    def _group_effect(self, world: World, group: str) -> str | None:
        if self._consumer.client.runtime != "streams":
            return super()._group_effect(world, group)
        return f"{self.resolved} stopped in order" if self._stopped.exit_code == 0 else None

    def _undo(self, world: World) -> str:
        return f"{self.resolved} stays away" if self.spec.for_good else super()._undo(world)


class ConsumerJoinSpec(ConsumerFaultSpec):
    """Start a member of a consumer or processor that was held back until then; it stays."""

    effects = frozenset({"hands_over"})
    left_out = "a planned change; consumer-leave has a rebalance, too"
    of_processors = True
    targets = frozenset({"member"})
    once_per_target = True
    kind: Literal["consumer.join"]


class ConsumerJoin(MemberFault[ConsumerJoinSpec], spec=ConsumerJoinSpec):
    """One more consumer. Proof: it is a member of the group and has partitions; in assign mode, it has partitions.

    If its entry has `admitted: 0`, the proof is the error that it reports when the coordinator refuses it.
    """

    lasting = "the member stays"

    def _inject(self, world: World) -> str:
        world.fleet.join(self.resolved)
        return f"{self.resolved} started"

    def _group_effect(self, world: World, group: str) -> str | None:
        state = world.kafka.group(group)
        if self._consumer.mode == "subscribe" and self._consumer.admitted == 0:
            errors = world.fleet.state(self.resolved).errors
            return f"{self.resolved} is refused by group {group}: {errors[0]}" if errors else None
        for member in state.members if state and state.state == "Stable" else ():
            if self._is_target(member.client_id):
                partitions = ", ".join(map(str, sorted(member.partitions))) or "no partition"
                return f"{self.resolved} joined group {group} and has {partitions}"
        return None

    def _assign_effect(self, world: World) -> str | None:
        assigned = world.fleet.state(self.resolved).assigned()
        return f"{self.resolved} reads {', '.join(sorted(assigned))}" if assigned else None


class ConsumerChurnSpec(ConsumerFaultSpec):
    """Make a consumer leave and rejoin repeatedly; healed by a start if it is down."""

    effects = frozenset({"hands_over", "restarts"})
    left_out = "several consumer-leave, one after another"
    kind: Literal["consumer.churn"]
    times: int = Field(5, ge=1, le=100, description="how often it leaves")
    every: Duration = Field(1.0, description="time that it stays away, and then in the group")


class ConsumerChurn(MemberFault[ConsumerChurnSpec], spec=ConsumerChurnSpec):
    """A consumer that leaves and rejoins repeatedly.

    Proof: the coordinator lists it with another member id. In assign mode the proof is its next incarnation.
    """

    def _inject(self, world: World) -> str:
        for _ in range(self.spec.times):
            world.fleet.leave(self.resolved, world.scenario.limits.clients)
            time.sleep(self.spec.every)
            world.fleet.restart(self.resolved)
            time.sleep(self.spec.every)
        return f"{self.resolved} left and joined {self.spec.times} times"

    def _group_effect(self, world: World, group: str) -> str | None:
        state = world.kafka.group(group)
        if self._consumer.mode == "subscribe" and self._consumer.admitted == 0:
            errors = world.fleet.state(self.resolved).errors
            return f"{self.resolved} is refused by group {group}: {errors[0]}" if errors else None
        for member in state.members if state else ():
            if member.client_id == self.resolved and member.member_id not in self._member_ids:
                return f"{self.resolved} is another member of {group} than before ({member.member_id})"
        return None

    def _assign_effect(self, world: World) -> str | None:
        """Return the effect that the injection itself proves."""
        return f"{self.resolved} runs in another incarnation"

    def _undo(self, world: World) -> str:
        if not world.fleet.state(self.resolved).alive:
            world.fleet.restart(self.resolved)
        return f"{self.resolved} is in its group"


class ConsumerFenceSpec(ConsumerFaultSpec):
    """Start a second process with the group.instance.id of a running static member, which fences the first (KIP-345).

    There is nothing to heal: the later process continues.
    """

    effects = frozenset({"ends", "restarts"})
    left_out = "needs static membership"
    kind: Literal["consumer.fence"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a static member of the classic protocol."""
        yield from super().problems(setup, where)
        selector, value = self.target.selector
        names = setup.groups.get(value, []) if selector == "random_member_of" else [self.client_name()]
        for entry in [c for c in setup.consumers if c.name in names]:
            if entry.mode != "subscribe" or not entry.static:
                yield f"{where}.target.{selector}: {entry.name} is not static, so no other process can fence it"
            elif uses_kip_848(entry.config):
                yield (
                    f"{where}.target.{selector}: {entry.name} has group.protocol=consumer (KIP-848), where the broker "
                    "refuses the later process (UNRELEASED_INSTANCE_ID) and fences none"
                )


class ConsumerFence(MemberFault[ConsumerFenceSpec], spec=ConsumerFenceSpec):
    """Two processes with one group.instance.id: the broker accepts the later one and fences the earlier one (KIP-345).

    Proof: the earlier one ended with an error that says that it was fenced.
    """

    _fenced: Client

    def _inject(self, world: World) -> str:
        self._fenced = world.fleet.state(self.resolved)
        world.fleet.take_over(self.resolved)
        return f"started the next incarnation of {self.resolved} while it runs"

    def _group_effect(self, world: World, group: str) -> str | None:
        return fenced(self._fenced, f"{self.resolved} ({self._instance_id})", "FENCED")


FAULTS: dict[str, type[Fault[Any]]] = {
    "consumer.slow": ConsumerSlow,
    "consumer.crash": ConsumerCrash,
    "consumer.seek": ConsumerSeek,
    "consumer.resume": ConsumerResume,
    "consumer.pause": ConsumerPause,
    "consumer.leave": ConsumerLeave,
    "consumer.join": ConsumerJoin,
    "consumer.churn": ConsumerChurn,
    "consumer.fence": ConsumerFence,
}
