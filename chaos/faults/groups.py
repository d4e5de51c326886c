"""Faults of consumer groups: committed offsets deleted or reset, groups deleted."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.errors import FaultError
from chaos.faults.topics import Lasting
from chaos.faults.world import World
from chaos.kafka import admin
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults.admin import ResetOffsets as ResetOffsetsSpec


@dataclass
class DeleteOffsets(Lasting):
    """Committed offsets deleted. Proof: the coordinator has none of them."""

    stays = "its offsets stay deleted"

    _had: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, object]:
        """For the audit: which offsets are gone."""
        return {"offsets": dict.fromkeys(map(str, self._had))}

    def inject(self, world: World) -> str:
        """Delete all that the group has."""
        group = str(self.spec.target.group)
        self._had = _committed(group, world)
        if not self._had:
            raise FaultError(f"group {group} has no committed offset that could be deleted")
        admin.delete_offsets(world.kafka, group, self._had)
        self.resolved = f"group {group}"
        return f"deleted {len(self._had)} committed offsets of {group}"

    def proof(self, world: World) -> str | None:
        """Ask for them."""
        found = world.kafka.committed(str(self.spec.target.group), self._had) if self._had else None
        return f"{self.resolved} has no committed offset any more" if found == {} else None


@dataclass
class ResetOffsets(Lasting):
    """Other offsets committed. Proof: the coordinator gives them back."""

    stays = "its offsets stay as they were reset"

    _to: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, object]:
        """For the audit: where each partition's offset is now."""
        return {"offsets": {str(partition): offset for partition, offset in self._to.items()}}

    def inject(self, world: World) -> str:
        """Commit for every partition that the group reads."""
        assert isinstance(self.spec, ResetOffsetsSpec)
        group, to = str(self.spec.target.group), self.spec.to
        names = world.observer.partitions(topics_of(group, world))
        asked = world.kafka.start_offsets(names) if to == "earliest" else world.kafka.end_offsets(names)
        if set(asked) != set(names):
            raise FaultError(f"not all of {', '.join(map(str, names))} tell their offsets")
        self._to = {name: to if isinstance(to, int) else offset for name, offset in asked.items()}
        admin.commit(world.kafka, group, self._to)
        self.resolved = f"group {group}"
        return f"reset {group} to {', '.join(f'{name}: {offset}' for name, offset in self._to.items())}"

    def proof(self, world: World) -> str | None:
        """Ask for them."""
        found = world.kafka.committed(str(self.spec.target.group), self._to) if self._to else None
        return f"{self.resolved} has the offsets that it was reset to" if found and found == self._to else None


@dataclass
class DeleteGroup(Lasting):
    """A group deleted. Proof: its coordinator knows no such group, and no offset of it."""

    stays = "it stays deleted until its members come back"

    _had: dict[TopicPartition, int] = field(default_factory=dict)

    def inject(self, world: World) -> str:
        """Delete it."""
        group = str(self.spec.target.group)
        self._had = _committed(group, world)
        if not self._had:
            raise FaultError(f"group {group} has committed nothing, so nothing would go with it")
        admin.delete_group(world.kafka, group)
        self.resolved = f"group {group}"
        return f"deleted {self.resolved} with {len(self._had)} committed offsets"

    def proof(self, world: World) -> str | None:
        """Ask for it."""
        group = str(self.spec.target.group)
        if not self._had or world.kafka.committed(group, self._had) != {}:
            return None
        state = world.kafka.group(group)
        return f"{self.resolved} is {state.state} and has no committed offset" if state else None


def topics_of(group: str, world: World) -> set[str]:
    """The topics that the readers of a group read: consumers by name or pattern, and processors."""
    names = [topic.name for topic in world.scenario.topics]
    return {topic for c in world.scenario.readers if c.group == group for topic in c.topics_among(names)}


def _committed(group: str, world: World) -> dict[TopicPartition, int]:
    found = world.kafka.committed(group, world.observer.partitions(topics_of(group, world)))
    if found is None:
        raise FaultError(f"the coordinator of {group} does not tell what it has committed")
    return found
