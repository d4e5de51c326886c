"""Consumers that process records slowly."""

from __future__ import annotations

import time
from dataclasses import dataclass

from chaos.faults.base import World
from chaos.faults.consumers import MemberFault
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import clients as specs

SAMPLE_S = 2.0
"""Least time between two samples of a slow consumer."""


@dataclass(frozen=True)
class _Sample:
    """The progress of a consumer at a moment. lag: records of its partitions that it has not processed."""

    at: float
    delivered: int
    partitions: frozenset[TopicPartition]
    lag: int


class ConsumerSlow(MemberFault[specs.ConsumerSlow], spec=specs.ConsumerSlow):
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
