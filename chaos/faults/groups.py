"""Faults of consumer groups: delete or reset committed offsets, delete a group."""

from __future__ import annotations

from typing import TypeVar

from chaos.errors import FaultError
from chaos.faults.base import Fault, World
from chaos.kafka import admin
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import groups as specs
from chaos.scenario.faults.base import FaultSpec

S = TypeVar("S", bound=FaultSpec)


class GroupFault(Fault[S]):
    """A fault of the committed offsets of a group."""

    def __init__(self, spec: S) -> None:
        super().__init__(spec)
        self._group = str(spec.target.group)
        self._offsets: dict[TopicPartition, int] = {}
        """The offsets that were deleted, or that were committed."""

    def record(self, offsets: dict[TopicPartition, int]) -> None:
        """Record the target and its offsets."""
        self.resolved, self._offsets, self.begun = f"group {self._group}", offsets, True

    def committed(self, world: World) -> dict[TopicPartition, int]:
        """Return the committed offsets of the group. Raises `FaultError` if it has none, or no broker answers."""
        offsets = world.kafka.committed(self._group, world.observer.partitions(topics_of(self._group, world)))
        if offsets is None:
            raise FaultError(f"the coordinator of group {self._group} does not return its committed offsets")
        if not offsets:
            raise FaultError(f"group {self._group} has no committed offset, so nothing can be deleted")
        return offsets


class DeleteOffsets(GroupFault[specs.DeleteOffsets], spec=specs.DeleteOffsets):
    """Committed offsets deleted. Proof: the coordinator returns none of them."""

    lasting = "its offsets stay deleted"

    def inject(self, world: World) -> str:
        """Delete all offsets of the group."""
        offsets = self.committed(world)
        admin.delete_offsets(world.kafka, self._group, offsets)
        self.record(offsets)
        self.evidence["offsets"] = dict.fromkeys(map(str, offsets))
        return f"deleted {len(offsets)} committed offsets of {self._group}"

    def effect(self, world: World) -> str | None:
        """Read the offsets."""
        gone = world.kafka.committed(self._group, self._offsets) == {}
        return f"{self.resolved} has no committed offset any more" if gone else None


class ResetOffsets(GroupFault[specs.ResetOffsets], spec=specs.ResetOffsets):
    """Other offsets committed. Proof: the coordinator returns them."""

    lasting = "its offsets stay as they were reset"

    def inject(self, world: World) -> str:
        """Commit an offset for every partition that the group reads."""
        to, names = self.spec.to, world.observer.partitions(topics_of(self._group, world))
        offsets = world.kafka.start_offsets(names) if to == "earliest" else world.kafka.end_offsets(names)
        if set(offsets) != set(names):
            raise FaultError(f"not all of {', '.join(map(str, names))} return their offsets")
        if isinstance(to, int):
            offsets = dict.fromkeys(offsets, to)
        admin.commit(world.kafka, self._group, offsets)
        self.record(offsets)
        self.evidence["offsets"] = {str(name): offset for name, offset in offsets.items()}
        return f"reset {self._group} to {', '.join(f'{name}: {offset}' for name, offset in offsets.items())}"

    def effect(self, world: World) -> str | None:
        """Read the offsets."""
        reset = world.kafka.committed(self._group, self._offsets) == self._offsets
        return f"{self.resolved} has the offsets that it was reset to" if reset else None


class DeleteGroup(GroupFault[specs.DeleteGroup], spec=specs.DeleteGroup):
    """A group deleted. Proof: its coordinator reports no such group, and no offset of it."""

    lasting = "it stays deleted until its members come back"

    def inject(self, world: World) -> str:
        """Delete the group."""
        offsets = self.committed(world)
        admin.delete_group(self._group).apply(world.kafka)
        self.record(offsets)
        return f"deleted {self.resolved} with {len(offsets)} committed offsets"

    def effect(self, world: World) -> str | None:
        """Read the offsets and the state of the group."""
        if world.kafka.committed(self._group, self._offsets) != {}:
            return None
        state = world.kafka.group(self._group)
        return f"{self.resolved} is {state.state} and has no committed offset" if state else None


def topics_of(group: str, world: World) -> set[str]:
    """Return the topics that the consumers and processors of a group read."""
    names = [topic.name for topic in world.scenario.topics]
    return {topic for c in world.scenario.readers if c.group == group for topic in c.topics_among(names)}
