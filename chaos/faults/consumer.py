"""Faults of consumers: slowness, death, standing still, and coming and going."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from chaos.faults import targets
from chaos.faults.world import World
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.consumer import ConsumerChurn as ConsumerChurnSpec
from chaos.scenario.faults.consumer import ConsumerSlow as ConsumerSlowSpec

STILL_S = 2.0
"""How long a consumer in assign mode that had something to do must have done nothing to count as paused."""


@dataclass
class _OfAMember:
    """What both have: a client, and its place in its group at the injection.

    Proof for a subscribe member: its member id left the group, or partitions it had belong to another member.
    """

    spec: FaultSpec
    resolved: str = ""
    _group: str | None = None
    _member_id: str = ""
    _partitions: frozenset[TopicPartition] = field(default_factory=frozenset)

    def _aim(self, world: World) -> None:
        self.resolved = targets.client(self.spec.target, world)
        entry = next(c for c in world.scenario.consumers if c.name == self.resolved.partition("/")[0])
        self._group = entry.group if entry.mode == "subscribe" else None
        state = world.kafka.group(self._group) if self._group else None
        for member in state.members if state else ():
            if member.client_id == self.resolved:
                self._member_id, self._partitions = member.member_id, frozenset(member.partitions)

    def _left_group(self, world: World) -> str | None:
        state = world.kafka.group(self._group) if self._group and self._member_id else None
        if state is None:
            return None
        moved = {p: m.client_id for m in state.members if m.member_id != self._member_id for p in m.partitions}
        taken = sorted(self._partitions & set(moved))
        left = self._member_id not in {m.member_id for m in state.members}
        if not left and not taken:
            return None
        words = (
            f"{self.resolved} left group {self._group}" if left else f"{self.resolved} is still in group {self._group}"
        )
        if taken:
            owners = ", ".join(sorted({moved[p] for p in taken}))
            words += f", {', '.join(map(str, taken))} moved to {owners}"
        return words


@dataclass
class ConsumerSlow(_OfAMember):
    """A consumer that takes longer for each record than its poll interval allows for a batch.

    Proof: its member id left the group, or partitions that it had belong to another member.
    """

    def inject(self, world: World) -> str:
        """Order it to be slow."""
        assert isinstance(self.spec, ConsumerSlowSpec)
        self._aim(world)
        world.fleet.order(self.resolved, {"do": "slow", "per_record_s": self.spec.per_record})
        return f"{self.resolved} takes {self.spec.per_record:g} s longer for each record"

    def proof(self, world: World) -> str | None:
        """The group goes on without it."""
        return self._left_group(world)

    def heal(self, world: World) -> str:
        """Back to full speed."""
        if not self.resolved:
            return "nothing to heal"
        world.fleet.order(self.resolved, {"do": "slow", "per_record_s": 0.0})
        return f"{self.resolved} works at full speed"


@dataclass
class ConsumerCrash(_OfAMember):
    """A consumer that dies without a word.

    Proof: its member id left the group, or partitions that it had belong to another member. In assign mode, where no
    group notices, its exit itself is the proof.
    """

    _restarted: bool = False

    def inject(self, world: World) -> str:
        """SIGKILL it."""
        self._aim(world)
        world.fleet.crash(self.resolved)
        return f"killed {self.resolved}"

    def proof(self, world: World) -> str | None:
        """The group goes on without it."""
        if self._group:
            return self._left_group(world)
        return (
            f"the process of {self.resolved} is gone"
            if not world.fleet.state(self.resolved).alive or self._restarted
            else None
        )

    def heal(self, world: World) -> str:
        """Start its next incarnation."""
        if not self.resolved or self._restarted:
            return "nothing to heal"
        world.fleet.restart(self.resolved)
        self._restarted = True
        return f"{self.resolved} started again"


@dataclass
class ConsumerPause(_OfAMember):
    """A consumer that stands still.

    Proof: its member id left the group, or partitions that it had belong to another member. In assign mode, where no
    group notices, what it does not deliver is the proof.
    """

    _paused: bool = False
    _delivered: int = 0
    _since: float = 0.0

    def inject(self, world: World) -> str:
        """SIGSTOP it."""
        self._aim(world)
        self._paused = True
        world.fleet.pause(self.resolved)
        self._delivered, self._since = world.fleet.state(self.resolved).count("delivered"), time.monotonic()
        return f"stopped {self.resolved}"

    def proof(self, world: World) -> str | None:
        """The group goes on without it."""
        if self._group:
            return self._left_group(world)
        state = world.fleet.state(self.resolved) if self._paused else None
        if state is None or time.monotonic() - self._since < STILL_S or state.count("delivered") != self._delivered:
            return None
        return f"{self.resolved} has processed nothing for {STILL_S:g} s"

    def heal(self, world: World) -> str:
        """SIGCONT."""
        if not self._paused:
            return "nothing to heal"
        world.fleet.resume(self.resolved)
        return f"{self.resolved} goes on"


@dataclass
class ConsumerLeave(_OfAMember):
    """A consumer that leaves in good order.

    Proof: its member id left the group, or partitions that it had belong to another member. In assign mode its exit
    itself is the proof.
    """

    _left: bool = False
    _back: bool = False

    def inject(self, world: World) -> str:
        """Order it to stop."""
        self._aim(world)
        self._left = True
        world.fleet.leave(self.resolved, world.scenario.limits.clients)
        return f"{self.resolved} stopped in good order"

    def proof(self, world: World) -> str | None:
        """The group goes on without it."""
        if self._group or not self._left:
            return self._left_group(world)
        gone = self._back or not world.fleet.state(self.resolved).alive
        return f"the process of {self.resolved} is gone" if gone else None

    def heal(self, world: World) -> str:
        """Start its next incarnation."""
        if not self._left or self._back:
            return "nothing to heal"
        if not world.fleet.state(self.resolved).alive:
            world.fleet.restart(self.resolved)
        self._back = True
        return f"{self.resolved} joined again"


@dataclass
class ConsumerJoin(_OfAMember):
    """One more consumer. Proof: it is a member of the group and holds partitions; in assign mode, it holds them."""

    def inject(self, world: World) -> str:
        """Start it."""
        self._aim(world)
        world.fleet.join(self.resolved)
        return f"{self.resolved} started"

    def proof(self, world: World) -> str | None:
        """Ask the coordinator."""
        if not self._group:
            held = world.fleet.state(self.resolved).assigned() if self.resolved else []
            return f"{self.resolved} reads {', '.join(sorted(held))}" if held else None
        state = world.kafka.group(self._group)
        for member in state.members if state else ():
            if member.client_id == self.resolved and state and state.state == "Stable":
                partitions = ", ".join(map(str, sorted(member.partitions))) or "no partition"
                return f"{self.resolved} joined group {self._group} and holds {partitions}"
        return None

    def heal(self, world: World) -> str:
        """It stays."""
        return f"{self.resolved} stays" if self.resolved else "nothing to heal"


@dataclass
class ConsumerChurn(_OfAMember):
    """A consumer that leaves and joins, again and again.

    Proof: the coordinator lists it under another member id. In assign mode, where there is none, its next incarnation
    itself is the proof.
    """

    _begun: bool = False

    def inject(self, world: World) -> str:
        """All the times, one after another."""
        assert isinstance(self.spec, ConsumerChurnSpec)
        self._aim(world)
        for _ in range(self.spec.times):
            self._begun = True
            world.fleet.leave(self.resolved, world.scenario.limits.clients)
            time.sleep(self.spec.every)
            world.fleet.restart(self.resolved)
            time.sleep(self.spec.every)
        return f"{self.resolved} left and joined {self.spec.times} times"

    def proof(self, world: World) -> str | None:
        """Ask the coordinator; in assign mode there is none."""
        if not self._group:
            return f"{self.resolved} is in another incarnation" if self._begun else None
        state = world.kafka.group(self._group)
        for member in state.members if state else ():
            if member.client_id == self.resolved and member.member_id != self._member_id:
                return f"{self.resolved} is another member of {self._group} than before ({member.member_id})"
        return None

    def heal(self, world: World) -> str:
        """It is there, whatever came between."""
        if not self._begun:
            return "nothing to heal"
        if not world.fleet.state(self.resolved).alive:
            world.fleet.restart(self.resolved)
        return f"{self.resolved} is in its group"
