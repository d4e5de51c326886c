"""Faults of one consumer: its membership, its process and its position."""

from __future__ import annotations

import time
from typing import Any, TypeVar

from chaos.faults.base import World
from chaos.faults.clients import ClientFault, fenced
from chaos.fleet.roster import ClientState
from chaos.kafka.groups import GroupState
from chaos.kafka.partition import TopicPartition
from chaos.kafka.share_groups import share_group
from chaos.scenario.faults import clients as specs
from chaos.setup.clients import Consumer
from chaos.setup.share import Share
from chaos.setup.triggers import split_member

S = TypeVar("S", bound=specs.ConsumerFault)

IDLE_S = 2.0
"""Time without progress after which a consumer in assign mode counts as paused."""


class MemberFault(ClientFault[S]):
    """A fault of one consumer, with its membership at the injection.

    A client has two memberships while the coordinator has not yet dropped the one that the client gave up.
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
        state = self._state(world, self._group) if self._group else None
        for member in state.members if state else ():
            if self._is_target(member.client_id):
                self._member_ids |= {member.member_id}
                self._partitions |= set(member.partitions)
                self._instance_id = member.instance_id
        self.begun = True

    def _is_target(self, client_id: str) -> bool:
        """Return whether a member of the group is the target; a stream thread adds its name to the client's."""
        return client_id == self.resolved or client_id.startswith(f"{self.resolved}-StreamThread-")

    def _state(self, world: World, group: str) -> GroupState | None:
        shared = self._consumer.mode == "share"
        return share_group(world.kafka, group) if shared else world.kafka.group(group)

    def _effect(self, world: World) -> str | None:
        return self._group_effect(world, self._group) if self._group else self._assign_effect(world)

    def _group_effect(self, world: World, group: str) -> str | None:
        """Describe how the group continues without the member; return None before that."""
        return self._departure(self._state(world, group), group)

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


class EndFault(MemberFault[S]):
    """A fault that ends the process of a consumer.

    Proof: all its memberships left the group; that partitions moved is no proof, as its own second membership moves
    some. The group does not miss a static member before its session ends (KIP-345), so there, as in assign mode, the
    proof is the exit of its process.
    """

    def _group_effect(self, world: World, group: str) -> str | None:
        state = self._state(world, group)
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


class ConsumerCrash(EndFault[specs.ConsumerCrash], spec=specs.ConsumerCrash):
    """A consumer that crashes."""

    def _inject(self, world: World) -> str:
        world.fleet.crash(self.resolved)
        return f"killed {self.resolved}"


class ConsumerPause(MemberFault[specs.ConsumerPause], spec=specs.ConsumerPause):
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
        """Check that it has delivered nothing since the pause."""
        delivered = world.fleet.state(self.resolved).count("delivered")
        if time.monotonic() - self._since < IDLE_S or delivered != self._delivered:
            return None
        return f"{self.resolved} has processed nothing for {IDLE_S:g} s"

    def _undo(self, world: World) -> str:
        world.fleet.resume(self.resolved)
        return f"{self.resolved} runs again"


class ConsumerLeave(EndFault[specs.ConsumerLeave], spec=specs.ConsumerLeave):
    """A consumer or processor that leaves its group and stops.

    Kafka Streams does not leave: the group misses it when its session ends. So there the proof is a stop in order.
    """

    _stopped: ClientState

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


class ConsumerJoin(MemberFault[specs.ConsumerJoin], spec=specs.ConsumerJoin):
    """One more consumer. Proof: it is a member of the group and has partitions; in assign mode, it has partitions.

    If its entry has `admitted: 0`, the proof is the error that it reports when the coordinator refuses it.
    """

    lasting = "the member stays"

    def _inject(self, world: World) -> str:
        world.fleet.join(self.resolved)
        return f"{self.resolved} started"

    def _group_effect(self, world: World, group: str) -> str | None:
        state = self._state(world, group)
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


class ConsumerChurn(MemberFault[specs.ConsumerChurn], spec=specs.ConsumerChurn):
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
        state = self._state(world, group)
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


class ConsumerResume(ClientFault[specs.ConsumerResume], spec=specs.ConsumerResume):
    """A consumer that resumes partitions which are not paused. Proof: it reports that it did."""

    _before: int

    def _inject(self, world: World) -> str:
        self._before, self.begun = self._resumed(world), True
        world.fleet.order(self.resolved, {"do": "resume"})
        return f"ordered {self.resolved} to resume its partitions"

    def _effect(self, world: World) -> str | None:
        done = self._resumed(world) > self._before
        return f"{self.resolved} resumed its partitions, none of which was paused" if done else None

    def _resumed(self, world: World) -> int:
        return int(world.fleet.state(self.resolved).progress().get("resumed", 0))


class ConsumerFence(MemberFault[specs.ConsumerFence], spec=specs.ConsumerFence):
    """Two processes with one group.instance.id: the broker accepts the later one and fences the earlier one (KIP-345).

    Proof: the earlier one ended with an error that says that it was fenced.
    """

    _fenced: ClientState

    def _inject(self, world: World) -> str:
        self._fenced = world.fleet.state(self.resolved)
        world.fleet.take_over(self.resolved)
        return f"started the next incarnation of {self.resolved} while it runs"

    def _group_effect(self, world: World, group: str) -> str | None:
        return fenced(self._fenced, f"{self.resolved} ({self._instance_id})", "FENCED")


class ConsumerSeek(ClientFault[specs.ConsumerSeek], spec=specs.ConsumerSeek):
    """A consumer that seeks. Proof: the position of a partition changed, and the consumer has delivered from there."""

    _seeks_before: int
    _moves: dict[str, tuple[int, int]]
    """Positions before and after the seek by partition."""

    def _inject(self, world: World) -> str:
        self._seeks_before = len(self._seeks(world))
        offsets, ago = self.spec.offsets, self.spec.ago
        order: dict[str, Any] = {"offsets": offsets} if offsets else {"ago_s": ago}
        if self.spec.lookup_first is not None:
            order["lookup_first_s"] = self.spec.lookup_first
        destination = f"{offsets}" if offsets else f"the records written {ago:g} s ago"
        self._moves, self.begun = {}, True
        world.fleet.order(self.resolved, {"do": "seek", **order})
        return f"ordered {self.resolved} to seek to {destination}"

    def _effect(self, world: World) -> str | None:
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
