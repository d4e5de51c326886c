"""Faults of leadership: elections that are asked for, and partitions that move to other brokers."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.topics import Lasting, named
from chaos.faults.world import World
from chaos.kafka import admin
from chaos.kafka.client import NO_LEADER
from chaos.kafka.metadata_merge import PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults.admin import Reassign as ReassignSpec
from chaos.wait import wait_until

LEADERLESS_S = 20.0


@dataclass
class ElectPreferred(Lasting):
    """The preferred replica elected. Proof: it leads, in a higher leader epoch."""

    stays = "who leads stays"

    _before: dict[TopicPartition, PartitionState] = field(default_factory=dict)

    def inject(self, world: World) -> str:
        """Ask for it where another replica leads."""
        target = self.spec.target
        states = {name: targets.partition(name, world) for name in named(target.topic, target.partition, world)}
        self._before = {name: s for name, s in states.items() if s.leader != s.replicas[0]}
        self.resolved = ", ".join(map(str, self._before))
        if not self._before:
            raise FaultError(f"the preferred replica leads {', '.join(map(str, states))} already")
        admin.elect(world.kafka, self._before, unclean=False)
        return f"asked for the preferred leaders of {self.resolved}"

    def proof(self, world: World) -> str | None:
        """Look at the metadata."""
        words = []
        for name, was in self._before.items():
            now = world.observer.partition(name)
            if now is None or now.leader != was.replicas[0] or now.leader_epoch <= was.leader_epoch:
                return None
            words.append(f"{name} went from leader {was.leader} to {now.leader}, the preferred one")
        return "; ".join(words) or None


@dataclass
class ElectUnclean(Lasting):
    """A replica elected that was not in sync. Proof: what had no leader has one, in a higher leader epoch."""

    stays = "who leads stays"

    _before: dict[TopicPartition, PartitionState] = field(default_factory=dict)

    def inject(self, world: World) -> str:
        """Ask for it where nobody leads."""
        target = self.spec.target
        aim = TopicPartition.parse(target.partition) if target.partition else None

        def leaderless() -> dict[TopicPartition, PartitionState]:
            metadata = world.kafka.metadata()
            return {
                name: state
                for name, state in (metadata.partitions if metadata else {}).items()
                if state.leader == NO_LEADER and (name == aim or name.topic == target.topic)
            }

        try:
            self._before = wait_until(leaderless, LEADERLESS_S, f"{aim or target.topic} has a leader")
        except WaitTimeout as e:
            raise FaultError(f"{e}, so there is nothing to elect by force") from None
        self.resolved = ", ".join(map(str, self._before))
        admin.elect(world.kafka, self._before, unclean=True)
        return f"asked for any leader of {self.resolved}"

    def proof(self, world: World) -> str | None:
        """Look at the metadata."""
        words = []
        for name, was in self._before.items():
            now = world.observer.partition(name)
            if now is None or now.leader == NO_LEADER or now.leader_epoch <= was.leader_epoch:
                return None
            words.append(f"{name} is led by {now.leader}, which was not in the ISR {list(was.isr)}")
        return "; ".join(words) or None


@dataclass
class Reassign(Lasting):
    """A partition moved. Proof: its replicas are those that were asked for, and all of them are in sync."""

    stays = "its replicas stay where they are"

    _to: tuple[int, ...] = ()
    _partition: TopicPartition | None = None

    def inject(self, world: World) -> str:
        """Begin the move; the brokers copy what is missing while the partition is written to."""
        assert isinstance(self.spec, ReassignSpec)
        name = TopicPartition.parse(str(self.spec.target.partition))
        was = targets.partition(name, world)
        brokers = sorted(world.cluster.broker_ids)
        further = [brokers[(brokers.index(b) + 1) % len(brokers)] for b in was.replicas]
        self._to = tuple(self.spec.to or further)
        if self._to == was.replicas:
            raise FaultError(f"{name} has the replicas {list(was.replicas)} already")
        self.resolved, self._partition = str(name), name
        admin.reassign(world.kafka, name, list(self._to))
        return f"{name} moves from brokers {list(was.replicas)} to {list(self._to)}"

    def proof(self, world: World) -> str | None:
        """Look at the metadata."""
        now = world.observer.partition(self._partition) if self._partition else None
        if now is None or now.replicas != self._to or set(now.isr) != set(self._to):
            return None
        return f"{self.resolved} has the replicas {list(now.replicas)}, all in sync"
