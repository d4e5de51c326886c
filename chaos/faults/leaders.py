"""Faults of leadership: elections, and the reassignment of partitions to other brokers."""

from __future__ import annotations

from typing import TypeVar

from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.base import Fault, World
from chaos.kafka import admin
from chaos.kafka.metadata_merge import NO_LEADER, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import leaders as specs
from chaos.scenario.faults.base import FaultSpec
from chaos.wait import wait_until

S = TypeVar("S", bound=FaultSpec)

LEADERLESS_TIMEOUT_S = 20.0


class Election(Fault[S]):
    """An election of the leaders of some partitions."""

    lasting = "the leaders stay"

    def __init__(self, spec: S) -> None:
        super().__init__(spec)
        self._before: dict[TopicPartition, PartitionState] = {}

    def elect(self, partitions: dict[TopicPartition, PartitionState], world: World, unclean: bool) -> None:
        """Request the election."""
        self.resolved, self._before, self.begun = ", ".join(map(str, partitions)), partitions, True
        admin.elect(world.kafka, partitions, unclean=unclean)

    def effect(self, world: World) -> str | None:
        """Look for a new leader of every partition in a higher leader epoch."""
        changes = []
        for name, before in self._before.items():
            now = world.observer.partition(name)
            if now is None or now.leader == NO_LEADER or now.leader_epoch <= before.leader_epoch:
                return None
            if (change := self.describe_change(name, before, now)) is None:
                return None
            changes.append(change)
        return "; ".join(changes)

    def describe_change(self, name: TopicPartition, before: PartitionState, now: PartitionState) -> str | None:
        """Describe a new leader; return None if it is not the expected one."""
        raise NotImplementedError


class ElectPreferred(Election[specs.ElectPreferred], spec=specs.ElectPreferred):
    """Election of the preferred replica. Proof: it is the leader, in a higher leader epoch."""

    def inject(self, world: World) -> str:
        """Request it for the partitions that another replica leads."""
        states = {name: targets.partition(name, world) for name in targets.partitions(self.spec.target, world)}
        partitions = {name: state for name, state in states.items() if state.leader != state.replicas[0]}
        if not partitions:
            raise FaultError(f"the preferred replica leads {', '.join(map(str, states))} already")
        self.elect(partitions, world, unclean=False)
        return f"requested the preferred leaders of {self.resolved}"

    def describe_change(self, name: TopicPartition, before: PartitionState, now: PartitionState) -> str | None:
        """Return the change to the preferred leader."""
        if now.leader != before.replicas[0]:
            return None
        return f"{name} went from leader {before.leader} to {now.leader}, the preferred one"


class ElectUnclean(Election[specs.ElectUnclean], spec=specs.ElectUnclean):
    """Election of a replica outside the ISR. Proof: a partition without a leader has one, in a higher leader epoch."""

    def inject(self, world: World) -> str:
        """Request it for the partitions without a leader."""
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
            partitions = wait_until(leaderless, LEADERLESS_TIMEOUT_S, f"{aim or target.topic} has a leader")
        except WaitTimeout as e:
            raise FaultError(f"{e}, so there is nothing to elect by force") from None
        self.elect(partitions, world, unclean=True)
        return f"requested any leader of {self.resolved}"

    def describe_change(self, name: TopicPartition, before: PartitionState, now: PartitionState) -> str | None:
        """Return the new leader."""
        return f"{name} is led by {now.leader}, which was not in the ISR {list(before.isr)}"


class Reassign(Fault[specs.Reassign], spec=specs.Reassign):
    """A reassigned partition. Proof: it has the requested replicas, and all of them are in sync."""

    lasting = "its replicas stay where they are"

    def __init__(self, spec: specs.Reassign) -> None:
        super().__init__(spec)
        self._partition = TopicPartition.parse(str(spec.target.partition))
        self._to: tuple[int, ...] = ()

    def inject(self, world: World) -> str:
        """Start the reassignment; the brokers copy the data while clients write to the partition."""
        before = targets.partition(self._partition, world).replicas
        brokers = sorted(world.cluster.broker_ids)
        next_brokers = [brokers[(brokers.index(broker) + 1) % len(brokers)] for broker in before]
        self._to = tuple(self.spec.to or next_brokers)
        if self._to == before:
            raise FaultError(f"{self._partition} has the replicas {list(before)} already")
        self.resolved, self.begun = str(self._partition), True
        admin.reassign(world.kafka, self._partition, list(self._to))
        return f"{self.resolved} moves from brokers {list(before)} to {list(self._to)}"

    def effect(self, world: World) -> str | None:
        """Read the replicas and the ISR."""
        now = world.observer.partition(self._partition)
        if now is None or now.replicas != self._to or set(now.isr) != set(self._to):
            return None
        return f"{self.resolved} has the replicas {list(now.replicas)}, all in sync"
