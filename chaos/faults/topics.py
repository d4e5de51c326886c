"""Faults of topics: add partitions, create, delete, delete records, change settings."""

from __future__ import annotations

from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import Fault, World
from chaos.kafka import admin
from chaos.kafka.partition import TopicPartition
from chaos.kafka.settings import as_text
from chaos.scenario.faults import topics as specs


class AddPartitions(Fault[specs.AddPartitions], spec=specs.AddPartitions):
    """More partitions. Proof: the metadata lists all of them, each with a leader."""

    lasting = "its partitions stay"

    def inject(self, world: World) -> str:
        """Add the partitions."""
        self.resolved = str(self.spec.target.topic)
        before = len(targets.led_partitions(self.resolved, world))
        admin.add_partitions(world.kafka, self.resolved, self.spec.to)
        self.begun = True
        return f"{self.resolved} goes from {before} to {self.spec.to} partitions"

    def effect(self, world: World) -> str | None:
        """Count the partitions with a leader."""
        count = len(targets.led_partitions(self.resolved, world))
        return f"{self.resolved} has {count} partitions, all with a leader" if count == self.spec.to else None


class CreateTopic(Fault[specs.CreateTopic], spec=specs.CreateTopic):
    """A topic created while clients run. Proof: the metadata lists its partitions, each with a leader."""

    lasting = "the topic stays"

    def inject(self, world: World) -> str:
        """Create the topic as the scenario describes it."""
        topic = str(self.spec.target.topic)
        if targets.led_partitions(topic, world):
            raise FaultError(f"{topic} exists already")
        create(topic, world)
        self.resolved, self.begun = topic, True
        return f"created {topic}"

    def effect(self, world: World) -> str | None:
        """Count the partitions with a leader."""
        count = len(targets.led_partitions(self.resolved, world))
        expected = world.scenario.topic(self.resolved).partitions
        return f"{self.resolved} exists with {count} partitions" if count == expected else None


class DeleteTopic(Fault[specs.DeleteTopic], spec=specs.DeleteTopic):
    """A topic deleted while clients run. Proof: the metadata no longer lists it."""

    def inject(self, world: World) -> str:
        """Delete the topic."""
        self.resolved, self.begun = str(self.spec.target.topic), True
        admin.delete_topics([self.resolved]).apply(world.kafka)
        return f"deleted {self.resolved}"

    def effect(self, world: World) -> str | None:
        """Check that the metadata has no partition of it."""
        if world.observer.metadata is None or targets.led_partitions(self.resolved, world):
            return None
        return f"{self.resolved} is gone from the metadata"

    def undo(self, world: World) -> str:
        """Create the topic again, empty."""
        if not targets.led_partitions(self.resolved, world):
            create(self.resolved, world)
        return f"{self.resolved} exists again, empty"


class DeleteRecords(Fault[specs.DeleteRecords], spec=specs.DeleteRecords):
    """Records deleted from the start of logs. Proof: leaders report a log start at or above the requested offset."""

    lasting = "the records stay deleted"

    def __init__(self, spec: specs.DeleteRecords) -> None:
        super().__init__(spec)
        self._starts: dict[TopicPartition, int] = {}
        """The requested log start by partition."""

    def inject(self, world: World) -> str:
        """Read start and end of each log, then delete the records."""
        names = targets.partitions(self.spec.target, world)
        ends, starts = world.kafka.end_offsets(names), world.kafka.start_offsets(names)
        self.resolved = ", ".join(map(str, names))
        if set(ends) != set(names) or set(starts) != set(names):
            raise FaultError(f"not all of {self.resolved} report where their logs start and end")
        requested = {
            name: min(end, self.spec.before) if self.spec.before is not None else end - (self.spec.leave or 0)
            for name, end in ends.items()
        }
        self._starts = {name: offset for name, offset in requested.items() if offset > starts[name]}
        if not self._starts:
            raise FaultError(f"{self.resolved} have no record below the offset to delete to")
        self.begun = True
        admin.delete_records(world.kafka, self._starts)
        return "; ".join(f"deleted {starts[name]} to {offset - 1} of {name}" for name, offset in self._starts.items())

    def effect(self, world: World) -> str | None:
        """Read the log starts."""
        starts = world.kafka.start_offsets(self._starts)
        if any(starts.get(name, -1) < offset for name, offset in self._starts.items()):
            return None
        return "; ".join(f"{name} begins at offset {start}" for name, start in starts.items())


class TopicConfig(Fault[specs.TopicConfig], spec=specs.TopicConfig):
    """Changed settings of a topic. Proof: a read returns the new values."""

    def __init__(self, spec: specs.TopicConfig) -> None:
        super().__init__(spec)
        self._settings = {key: as_text(value) for key, value in spec.settings.items()}
        self._before: dict[str, str | None] = {}
        """The former values; None for a setting that had its default."""

    def inject(self, world: World) -> str:
        """Read the former values, and set the new ones."""
        self.resolved = str(self.spec.target.topic)
        before = admin.settings(world.kafka, self.resolved, self._settings)
        if missing := self._settings.keys() - before.keys():
            raise FaultError(f"{self.resolved} has no settings {', '.join(sorted(missing))}")
        self._before = {key: value if is_set else None for key, (value, is_set) in before.items()}
        self.begun = True
        admin.set_settings(world.kafka, self.resolved, self._settings)
        changes = (
            f"{key} of {self.resolved} from {before[key][0]} to {value}" for key, value in self._settings.items()
        )
        return "; ".join(changes)

    def effect(self, world: World) -> str | None:
        """Read the settings."""
        now = admin.settings(world.kafka, self.resolved, self._settings)
        if any(now.get(key, ("", False))[0] != value for key, value in self._settings.items()):
            return None
        return f"{self.resolved} has {', '.join(f'{key}={value}' for key, value in self._settings.items())}"

    def undo(self, world: World) -> str:
        """Restore the former values."""
        admin.set_settings(world.kafka, self.resolved, self._before)
        return f"{self.resolved} has its former settings"


def create(name: str, world: World) -> None:
    """Create a topic as the scenario describes it."""
    topic = world.scenario.topic(name)
    config = {key: as_text(value) for key, value in topic.config.items()}
    admin.create_topic(world.kafka, name, topic.partitions, topic.replication_factor, config)
