"""Faults of share groups."""

from __future__ import annotations

from chaos.errors import FaultError
from chaos.faults.base import Fault, World
from chaos.kafka import admin
from chaos.kafka.partition import TopicPartition
from chaos.kafka.share_groups import share_positions
from chaos.scenario.faults import admin as specs


class ResetShareOffsets(Fault[specs.ResetShareOffsets], spec=specs.ResetShareOffsets):
    """Other start offsets of a share group. Proof: the coordinator returns them."""

    lasting = "its start offsets stay as they were set"
    _starts: dict[TopicPartition, int]

    def _aim(self, world: World) -> None:
        self._group = str(self.spec.target.group)
        self.resolved = f"group {self._group}"

    def _inject(self, world: World) -> str:
        topics = {topic for entry in world.scenario.shares if entry.group == self._group for topic in entry.topics}
        names = world.observer.partitions(topics)
        starts = world.kafka.start_offsets(names) if self.spec.to == "earliest" else world.kafka.end_offsets(names)
        if set(starts) != set(names):
            raise FaultError(f"not all of {', '.join(map(str, names))} return their offsets")
        self.evidence["offsets"] = {str(name): offset for name, offset in starts.items()}
        admin.alter_share_offsets(world.kafka, self._group, starts)
        self._starts, self.begun = starts, True
        return f"set {self._group} to {', '.join(f'{name}: {offset}' for name, offset in starts.items())}"

    def _effect(self, world: World) -> str | None:
        found = share_positions(world.kafka, self._group, self._starts) or {}
        reset = {partition: at.start for partition, at in found.items()} == self._starts
        return f"{self.resolved} has the start offsets that it was set to" if reset else None
