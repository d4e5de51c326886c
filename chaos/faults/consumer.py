"""Faults of consumers: slow processing, crash, pause, leave, join, churn and seek."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

from chaos.faults import targets
from chaos.faults.base import NOTHING_TO_HEAL, Fault, World
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import consumer as specs

S = TypeVar("S", bound=specs.ConsumerFault)

IDLE_S = 2.0
"""Time without progress after which a consumer in assign mode counts as paused."""


class MemberFault(Fault[S], Generic[S]):
    """A fault of one consumer, with its membership at the injection.

    Proof for a subscribe consumer: its member id left the group, or its partitions belong to another member.
    """

    def __init__(self, spec: S) -> None:
        super().__init__(spec)
        self._group: str | None = None
        self._member_id = ""
        self._partitions: frozenset[TopicPartition] = frozenset()

    def begin(self, world: World) -> None:
        """Resolve the target and read its membership, directly before the first change."""
        self.resolved = targets.client(self.spec.target, world)
        name = self.resolved.partition("/")[0]
        consumer = next(c for c in world.scenario.consumers if c.name == name)
        self._group = consumer.group if consumer.mode == "subscribe" else None
        state = world.kafka.group(self._group) if self._group else None
        for member in state.members if state else ():
            if member.client_id == self.resolved:
                self._member_id, self._partitions = member.member_id, frozenset(member.partitions)
        self.begun = True

    def effect(self, world: World) -> str | None:
        """Ask the coordinator; in assign mode look at the process."""
        return self.group_effect(world, self._group) if self._group else self.assign_effect(world)

    def group_effect(self, world: World, group: str) -> str | None:
        """Describe how the group continues without the member; return None before that."""
        state = world.kafka.group(group) if self._member_id else None
        if state is None:
            return None
        owners = {p: m.client_id for m in state.members if m.member_id != self._member_id for p in m.partitions}
        moved = sorted(self._partitions & set(owners))
        left = self._member_id not in {m.member_id for m in state.members}
        if not left and not moved:
            return None
        membership = f"{self.resolved} {'left' if left else 'is still in'} group {group}"
        if not moved:
            return membership
        receivers = ", ".join(sorted({owners[partition] for partition in moved}))
        return f"{membership}, {', '.join(map(str, moved))} moved to {receivers}"

    def assign_effect(self, world: World) -> str | None:
        """Describe the effect on a consumer in assign mode, which has no group that notices."""
        return None


class ConsumerSlow(MemberFault[specs.ConsumerSlow], spec=specs.ConsumerSlow):
    """A consumer that processes a batch for longer than its poll interval.

    Proof: its member id left the group, or its partitions belong to another member.
    """

    def inject(self, world: World) -> str:
        """Order the consumer to be slow."""
        self.begin(world)
        world.fleet.order(self.resolved, {"do": "slow", "per_record_s": self.spec.per_record})
        return f"{self.resolved} takes {self.spec.per_record:g} s longer for each record"

    def undo(self, world: World) -> str:
        """Order full speed."""
        world.fleet.order(self.resolved, {"do": "slow", "per_record_s": 0.0})
        return f"{self.resolved} works at full speed"


class EndFault(MemberFault[S]):
    """A fault that ends the process of a consumer."""

    _restarted = False

    def assign_effect(self, world: World) -> str | None:
        """Check that the process is gone."""
        gone = self._restarted or not world.fleet.state(self.resolved).alive
        return f"the process of {self.resolved} is gone" if gone else None

    def undo(self, world: World) -> str:
        """Start the next incarnation."""
        if self._restarted:
            return NOTHING_TO_HEAL
        if not world.fleet.state(self.resolved).alive:
            world.fleet.restart(self.resolved)
        self._restarted = True
        return f"{self.resolved} started again"


class ConsumerCrash(EndFault[specs.ConsumerCrash], spec=specs.ConsumerCrash):
    """A consumer that crashes.

    Proof: its member id left the group, or its partitions belong to another member. In assign mode the proof is the
    exit of its process.
    """

    def inject(self, world: World) -> str:
        """Kill the process."""
        self.begin(world)
        world.fleet.crash(self.resolved)
        return f"killed {self.resolved}"


class ConsumerPause(MemberFault[specs.ConsumerPause], spec=specs.ConsumerPause):
    """A consumer process that is stopped by SIGSTOP.

    Proof: its member id left the group, or its partitions belong to another member. In assign mode the proof is that it
    delivers nothing.
    """

    _delivered = 0
    _since = 0.0

    def inject(self, world: World) -> str:
        """Pause the process."""
        self.begin(world)
        world.fleet.pause(self.resolved)
        self._delivered, self._since = world.fleet.state(self.resolved).count("delivered"), time.monotonic()
        return f"stopped {self.resolved}"

    def assign_effect(self, world: World) -> str | None:
        """Check that it has delivered nothing since the pause."""
        delivered = world.fleet.state(self.resolved).count("delivered")
        if time.monotonic() - self._since < IDLE_S or delivered != self._delivered:
            return None
        return f"{self.resolved} has processed nothing for {IDLE_S:g} s"

    def undo(self, world: World) -> str:
        """Resume the process."""
        world.fleet.resume(self.resolved)
        return f"{self.resolved} runs again"


class ConsumerLeave(EndFault[specs.ConsumerLeave], spec=specs.ConsumerLeave):
    """A consumer that leaves its group and stops.

    Proof: its member id left the group, or its partitions belong to another member. In assign mode the proof is the
    exit of its process.
    """

    def inject(self, world: World) -> str:
        """Order the consumer to stop."""
        self.begin(world)
        world.fleet.leave(self.resolved, world.scenario.limits.clients)
        return f"{self.resolved} stopped in a controlled way"


class ConsumerJoin(MemberFault[specs.ConsumerJoin], spec=specs.ConsumerJoin):
    """One more consumer. Proof: it is a member of the group and has partitions; in assign mode, it has partitions."""

    lasting = "the member stays"

    def inject(self, world: World) -> str:
        """Start the member."""
        self.begin(world)
        world.fleet.join(self.resolved)
        return f"{self.resolved} started"

    def group_effect(self, world: World, group: str) -> str | None:
        """Find the member in the stable group."""
        state = world.kafka.group(group)
        for member in state.members if state and state.state == "Stable" else ():
            if member.client_id == self.resolved:
                partitions = ", ".join(map(str, sorted(member.partitions))) or "no partition"
                return f"{self.resolved} joined group {group} and has {partitions}"
        return None

    def assign_effect(self, world: World) -> str | None:
        """Ask the consumer for its assignment."""
        assigned = world.fleet.state(self.resolved).assigned()
        return f"{self.resolved} reads {', '.join(sorted(assigned))}" if assigned else None


class ConsumerChurn(MemberFault[specs.ConsumerChurn], spec=specs.ConsumerChurn):
    """A consumer that leaves and rejoins repeatedly.

    Proof: the coordinator lists it with another member id. In assign mode the proof is its next incarnation.
    """

    def inject(self, world: World) -> str:
        """Stop and restart the consumer `times` times."""
        self.begin(world)
        for _ in range(self.spec.times):
            world.fleet.leave(self.resolved, world.scenario.limits.clients)
            time.sleep(self.spec.every)
            world.fleet.restart(self.resolved)
            time.sleep(self.spec.every)
        return f"{self.resolved} left and joined {self.spec.times} times"

    def group_effect(self, world: World, group: str) -> str | None:
        """Find the member with another member id."""
        state = world.kafka.group(group)
        for member in state.members if state else ():
            if member.client_id == self.resolved and member.member_id != self._member_id:
                return f"{self.resolved} is another member of {group} than before ({member.member_id})"
        return None

    def assign_effect(self, world: World) -> str | None:
        """Return the effect that the injection itself proves."""
        return f"{self.resolved} runs in another incarnation"

    def undo(self, world: World) -> str:
        """Start the consumer if it is down."""
        if not world.fleet.state(self.resolved).alive:
            world.fleet.restart(self.resolved)
        return f"{self.resolved} is in its group"


class ConsumerSeek(Fault[specs.ConsumerSeek], spec=specs.ConsumerSeek):
    """A consumer that seeks. Proof: the position of a partition changed, and the consumer has delivered from there."""

    def __init__(self, spec: specs.ConsumerSeek) -> None:
        super().__init__(spec)
        self._seeks_before = 0
        self._moves: dict[str, tuple[int, int]] = {}
        """Positions before and after the seek by partition."""

    def inject(self, world: World) -> str:
        """Order the seek."""
        self.resolved = targets.client(self.spec.target, world)
        self._seeks_before = len(self._seeks(world))
        if self.spec.offsets:
            order: dict[str, object] = {"offsets": self.spec.offsets}
            destination = f"{self.spec.offsets}"
        else:
            order = {"ago_s": self.spec.ago}
            destination = f"the records written {self.spec.ago:g} s ago"
        self.begun = True
        world.fleet.order(self.resolved, {"do": "seek", **order})
        return f"ordered {self.resolved} to seek to {destination}"

    def effect(self, world: World) -> str | None:
        """Compare the positions that the consumer reports."""
        for partition, before, after in self._seeks(world)[self._seeks_before :]:
            if before is not None and before != after:
                self._moves[partition] = before, after
        positions = world.fleet.state(self.resolved).positions()
        if not self._moves or any(positions.get(name, after) <= after for name, (_, after) in self._moves.items()):
            return None
        moves = [
            f"{name} from {before} to {after}, by now {positions[name]}"
            for name, (before, after) in sorted(self._moves.items())
        ]
        return f"{self.resolved} went {'; '.join(moves)}"

    def _seeks(self, world: World) -> list[tuple[str, int | None, int]]:
        """Return the seeks that the consumer has reported: partition, position before, position after."""
        seeks: list[tuple[str, int | None, int]] = world.fleet.state(self.resolved).progress().get("sought", [])
        return seeks
