"""Faults of topics: partitions added, made and deleted while clients run, records deleted, settings changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.world import World
from chaos.kafka import admin
from chaos.kafka.partition import TopicPartition
from chaos.kafka.settings import as_text
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.admin import AddPartitions as AddPartitionsSpec
from chaos.scenario.faults.admin import DeleteRecords as DeleteRecordsSpec
from chaos.scenario.faults.admin import TopicConfig as TopicConfigSpec


@dataclass
class Lasting:
    """What an administrator does for good: there is nothing to heal."""

    stays: ClassVar[str]

    spec: FaultSpec
    resolved: str = ""

    def heal(self, world: World) -> str:
        """It stays as it is."""
        return f"{self.resolved}: {self.stays}" if self.resolved else "nothing to heal"


@dataclass
class AddPartitions(Lasting):
    """More partitions. Proof: metadata lists them all, each with a leader."""

    stays = "its partitions stay"

    def inject(self, world: World) -> str:
        """Ask the controller."""
        assert isinstance(self.spec, AddPartitionsSpec)
        self.resolved = str(self.spec.target.topic)
        before = len(_partitions(self.resolved, world))
        admin.add_partitions(world.kafka, self.resolved, self.spec.to)
        return f"{self.resolved} goes from {before} to {self.spec.to} partitions"

    def proof(self, world: World) -> str | None:
        """Look at the metadata."""
        assert isinstance(self.spec, AddPartitionsSpec)
        there = _partitions(self.resolved, world) if self.resolved else []
        return f"{self.resolved} has {len(there)} partitions, all led" if len(there) == self.spec.to else None


@dataclass
class CreateTopic(Lasting):
    """A topic made while clients run. Proof: metadata lists its partitions, each with a leader."""

    stays = "it stays"

    def inject(self, world: World) -> str:
        """Make it as the scenario describes it."""
        name = str(self.spec.target.topic)
        if _partitions(name, world):
            raise FaultError(f"{name} is there already")
        create(name, world)
        self.resolved = name
        return f"made {name}"

    def proof(self, world: World) -> str | None:
        """Look at the metadata."""
        there = _partitions(self.resolved, world) if self.resolved else []
        wanted = world.scenario.topic(self.resolved).partitions if self.resolved else 0
        return f"{self.resolved} is there with {len(there)} partitions" if there and len(there) == wanted else None


@dataclass
class DeleteTopic:
    """A topic deleted while clients run. Proof: metadata does not list it any more."""

    spec: FaultSpec
    resolved: str = ""

    def inject(self, world: World) -> str:
        """Delete it."""
        self.resolved = str(self.spec.target.topic)
        admin.delete_topic(world.kafka, self.resolved)
        return f"deleted {self.resolved}"

    def proof(self, world: World) -> str | None:
        """Look at the metadata."""
        metadata = world.observer.metadata
        if metadata is None or not self.resolved or _partitions(self.resolved, world):
            return None
        return f"{self.resolved} is gone from the metadata"

    def heal(self, world: World) -> str:
        """Make it again, empty."""
        if not self.resolved:
            return "nothing to heal"
        if not _partitions(self.resolved, world):
            create(self.resolved, world)
        return f"{self.resolved} is there again, empty"


@dataclass
class DeleteRecords(Lasting):
    """Records deleted from the log's start. Proof: the leaders tell a log start that is as high as asked."""

    stays = "what was deleted stays deleted"

    _before: dict[TopicPartition, int] = field(default_factory=dict)

    def inject(self, world: World) -> str:
        """Ask for the ends, then delete below."""
        assert isinstance(self.spec, DeleteRecordsSpec)
        names = named(self.spec.target.topic, self.spec.target.partition, world)
        ends, starts = world.kafka.end_offsets(names), world.kafka.start_offsets(names)
        if set(ends) != set(names) or set(starts) != set(names):
            raise FaultError(f"not all of {', '.join(map(str, names))} tell where their logs begin and end")
        self.resolved = ", ".join(map(str, names))
        wanted = {
            name: min(end, self.spec.before) if self.spec.before is not None else end - (self.spec.leave or 0)
            for name, end in ends.items()
        }
        self._before = {name: offset for name, offset in wanted.items() if offset > starts[name]}
        if not self._before:
            raise FaultError(f"{self.resolved} hold no record below what is to be deleted")
        admin.delete_records(world.kafka, self._before)
        return "; ".join(f"deleted {starts[name]} to {offset - 1} of {name}" for name, offset in self._before.items())

    def proof(self, world: World) -> str | None:
        """Ask where the logs begin."""
        starts = world.kafka.start_offsets(self._before)
        if not self._before or any(starts.get(name, -1) < offset for name, offset in self._before.items()):
            return None
        return "; ".join(f"{name} begins at offset {start}" for name, start in starts.items())


@dataclass
class TopicConfig:
    """Settings of a topic changed. Proof: they read back as asked."""

    spec: FaultSpec
    resolved: str = ""
    _was: dict[str, str | None] = field(default_factory=dict)

    def inject(self, world: World) -> str:
        """Keep what they were, and set them."""
        topic = str(self.spec.target.topic)
        before = admin.settings(world.kafka, topic, self._wanted())
        if missing := self._wanted().keys() - before.keys():
            raise FaultError(f"{topic} has no settings {', '.join(sorted(missing))}")
        self._was = {key: value if own else None for key, (value, own) in before.items()}
        self.resolved = topic
        admin.set_settings(world.kafka, topic, self._wanted())
        return "; ".join(f"{key} of {topic} from {before[key][0]} to {value}" for key, value in self._wanted().items())

    def proof(self, world: World) -> str | None:
        """Read them back."""
        now = admin.settings(world.kafka, self.resolved, self._wanted()) if self.resolved else {}
        if not now or any(now.get(key, ("", False))[0] != value for key, value in self._wanted().items()):
            return None
        return f"{self.resolved} has {', '.join(f'{key}={value}' for key, value in self._wanted().items())}"

    def heal(self, world: World) -> str:
        """What they were."""
        if not self.resolved:
            return "nothing to heal"
        admin.set_settings(world.kafka, self.resolved, self._was)
        return f"{self.resolved} has its settings back"

    def _wanted(self) -> dict[str, str]:
        assert isinstance(self.spec, TopicConfigSpec)
        return {k: as_text(v) for k, v in self.spec.settings.items()}


def create(name: str, world: World) -> None:
    """Make a topic as the scenario describes it."""
    topic = world.scenario.topic(name)
    config = {k: as_text(v) for k, v in topic.config.items()}
    admin.create_topic(world.kafka, name, topic.partitions, topic.replication_factor, config)


def named(topic: str | None, partition: str | None, world: World) -> list[TopicPartition]:
    """The partitions that a target of a topic or a partition means now."""
    if partition is not None:
        named = TopicPartition.parse(partition)
        targets.partition(named, world)
        return [named]
    found = _partitions(str(topic), world)
    if not found:
        raise FaultError(f"{topic} has no partition that is led")
    return found


def _partitions(topic: str, world: World) -> list[TopicPartition]:
    """The partitions of a topic that have a leader."""
    metadata = world.kafka.metadata()
    states = metadata.partitions if metadata else {}
    return [name for name, state in states.items() if name.topic == topic and state.leader >= 0]
