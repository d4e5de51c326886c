"""Faults of consumers: slowness, and death."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.faults import targets
from chaos.faults.world import World
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.consumer import ConsumerSlow as ConsumerSlowSpec


@dataclass
class _OfAMember:
    """What both have: a client, and its place in its group at the injection.

    Proof for a subscribe member: its member id left the group, or partitions it had belong to another member.
    """

    spec: FaultSpec
    resolved: str = ""
    _group: str | None = None
    _member_id: str = ""
    _partitions: frozenset[str] = field(default_factory=frozenset)

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
            words += f", {', '.join(taken)} moved to {owners}"
        return words


@dataclass
class ConsumerSlow(_OfAMember):
    """A consumer that takes longer for each record than its poll interval allows for a batch."""

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
    """A consumer that dies without a word. In assign mode, where no group notices, its exit itself is the proof."""

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
