"""Elections of leaders and moves of replicas, by an administrator."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, TypeVar

from pydantic import Field

from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.base import BROKERS, BY_ADMINISTRATOR, TOPIC_OR_PARTITION, Fault, FaultSpec, World
from chaos.faults.settings import HIDDEN, wait_up
from chaos.kafka.metadata import NO_LEADER, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.setup.model import Setup
from chaos.units import Size
from chaos.wait import wait_until

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""The settings of a throttle: rates of brokers, and the replicas of a topic that they concern (KIP-73)."""

LEADERLESS_TIMEOUT_S = 20.0

LEAST_MOVE_S, WINDOW_S, FETCH_BYTES, MOVE_S = 4.0, 11.0, 2**20, 60.0
"""A throttled move: the least seconds until the proof, the seconds that the quota averages over, the most bytes of one
fetch (replica.fetch.max.bytes), and the most seconds from the heal until the move is complete."""


class ElectPreferredSpec(FaultSpec):
    """Elect the preferred replica, the first in the replica list; it stays the leader."""

    effects = frozenset({"elections", "connections"})
    left_out = BY_ADMINISTRATOR
    premise = "a leader that is not the preferred one"
    targets = TOPIC_OR_PARTITION
    kind: Literal["election.preferred"]


S = TypeVar("S", bound=FaultSpec)


class Election(Fault[S]):
    """An election of the leaders of some partitions."""

    lasting = "the leaders stay"
    _before: dict[TopicPartition, PartitionState]

    def _elect(self, partitions: dict[TopicPartition, PartitionState], world: World, unclean: bool) -> None:
        from chaos.kafka import admin

        self.resolved, self._before, self.begun = ", ".join(map(str, partitions)), partitions, True
        admin.elect(world.kafka, partitions, unclean=unclean)

    def _effect(self, world: World) -> str | None:
        """Look for a new leader of every partition in a higher leader epoch."""
        changes = []
        for name, before in self._before.items():
            now = world.observer.partition(name)
            if now is None or now.leader == NO_LEADER or now.leader_epoch <= before.leader_epoch:
                return None
            changes.append(self._describe_change(name, before, now))
        return "; ".join(changes) if all(changes) else None

    @abstractmethod
    def _describe_change(self, name: TopicPartition, before: PartitionState, now: PartitionState) -> str:
        """Describe a new leader; return an empty text if it is not the expected one."""


class ElectPreferred(Election[ElectPreferredSpec], spec=ElectPreferredSpec):
    """Election of the preferred replica. Proof: it is the leader, in a higher leader epoch."""

    def _inject(self, world: World) -> str:
        states = {name: targets.partition(name, world) for name in targets.partitions(self.spec.target, world)}
        partitions = {name: state for name, state in states.items() if state.leader != state.replicas[0]}
        if not partitions:
            raise FaultError(f"the preferred replica leads {', '.join(map(str, states))} already")
        self._elect(partitions, world, unclean=False)
        return f"requested the preferred leaders of {self.resolved}"

    def _describe_change(self, name: TopicPartition, before: PartitionState, now: PartitionState) -> str:
        preferred = now.leader == before.replicas[0]
        return f"{name} went from leader {before.leader} to {now.leader}, the preferred one" if preferred else ""


class ElectUncleanSpec(FaultSpec):
    """Elect a replica outside the ISR if no other is available: records that it lacks are lost; it stays the leader."""

    effects = frozenset({"elections", "unclean", "connections"})
    left_out = BY_ADMINISTRATOR
    final = True
    premise = "a partition without a leader"
    targets = TOPIC_OR_PARTITION
    kind: Literal["election.unclean"]


class ElectUnclean(Election[ElectUncleanSpec], spec=ElectUncleanSpec):
    """Election of a replica outside the ISR. Proof: a partition without a leader has one, in a higher leader epoch."""

    def _inject(self, world: World) -> str:
        def leaderless() -> dict[TopicPartition, PartitionState]:
            metadata = world.kafka.metadata()
            states = metadata.partitions if metadata else {}
            hit = {name: state for name, state in states.items() if self.resolved in (str(name), name.topic)}
            return {name: state for name, state in hit.items() if state.leader == NO_LEADER}

        try:
            partitions = wait_until(leaderless, LEADERLESS_TIMEOUT_S, f"{self.resolved} has a leader")
        except WaitTimeout as e:
            raise FaultError(f"{e}, so there is nothing to elect by force") from None
        self._elect(partitions, world, unclean=True)
        return f"requested any leader of {self.resolved}"

    def _describe_change(self, name: TopicPartition, before: PartitionState, now: PartitionState) -> str:
        return f"{name} is led by {now.leader}, which was not in the ISR {list(before.isr)}"


class ReassignSpec(FaultSpec):
    """Move a partition to other brokers while clients write to it; it stays there.

    With a throttle (KIP-73), the move lasts until the heal removes the throttle, so that other faults can happen in it.
    """

    effects = frozenset({"elections", "reassigns", "connections"})
    targets = frozenset({"partition"})
    kind: Literal["partition.reassign"]
    to: list[int] | None = Field(
        None,
        min_length=1,
        description="the replicas, the preferred leader first; if left out: each replica moves to the next broker",
    )
    throttle: Size | None = Field(
        None, gt=0, description="bytes per second that each new replica copies, until the heal"
    )
    cancel: bool = Field(False, description="with a throttle: the heal cancels the move, and the replicas stay")

    @property
    def changed(self) -> frozenset[tuple[str, str]]:
        """The rates of the brokers, and which replicas of the topic they concern."""
        if self.throttle is None:
            return frozenset()
        topic = f"topic {str(self.target.partition).rpartition('/')[0]}"
        return frozenset({*((BROKERS, rate) for rate in RATES), *((topic, name) for name in THROTTLED)})

    @property
    def hits_brokers(self) -> bool:
        """A throttle is a setting of brokers."""
        return self.throttle is not None

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check the broker ids, that there is another broker, and that a move which is cancelled lasts."""
        if setup.cluster.brokers == 1 and not setup.attached:
            yield f"{where}: {self.kind} needs another broker to move to; write cluster.brokers: 2 or more"
        yield from setup.broker_problems(f"{where}.to", self.to or [])
        if self.cancel and self.throttle is None:
            yield f"{where}.cancel: a move without a throttle is soon complete; give throttle, such as 100KiB"


class Reassign(Fault[ReassignSpec], spec=ReassignSpec):
    """A reassigned partition. Proof: it has the requested replicas, and all of them are in sync.

    Proof with a throttle: the cluster lists the move, the brokers report a rate, and the new replicas have grown by
    no more than it allows. The heal waits until the move is complete, or cancelled.
    """

    lasting = "its replicas stay where they are"
    _partition: TopicPartition
    _to: tuple[int, ...]
    _added: frozenset[int]
    """The brokers that get a replica."""
    _since: float
    """When the move began, by `time.monotonic()`."""
    _rates: dict[int, dict[str, str | None]]
    """The former rates by broker; None for one that was not set."""
    _replicas: dict[str, str | None]
    """The former settings of the topic."""

    def _inject(self, world: World) -> str:
        """Start the reassignment; the brokers copy the data while clients write to the partition."""
        from chaos.kafka import admin

        self._partition = TopicPartition.parse(self.resolved)
        before = targets.partition(self._partition, world).replicas
        brokers = sorted(world.cluster.broker_ids)
        next_brokers = [brokers[(brokers.index(broker) + 1) % len(brokers)] for broker in before]
        self._to = tuple(self.spec.to or next_brokers)
        if self._to == before:
            raise FaultError(f"{self._partition} has the replicas {list(before)} already")
        self._added, throttled = frozenset(self._to) - set(before), ""
        if self.spec.throttle is not None:
            self._throttle(world, before, self.spec.throttle)
            throttled = f", at {self.spec.throttle:,} bytes per second"
        self.begun, self._since = True, time.monotonic()
        admin.reassign(world.kafka, self._partition, list(self._to))
        return f"{self.resolved} moves from brokers {list(before)} to {list(self._to)}{throttled}"

    def _throttle(self, world: World, before: tuple[int, ...], rate: int) -> None:
        """Set the rate at all brokers of the partition, and the replicas that it concerns."""
        from chaos.kafka import admin

        if not self._added:
            raise FaultError(f"{self._partition} gets no replica on another broker, so nothing is copied")
        size = self._size(targets.partition(self._partition, world).leader, world)
        if size is None or size <= self._allowed(rate, LEAST_MOVE_S):
            least = self._allowed(rate, LEAST_MOVE_S)
            raise FaultError(
                f"{self._partition} has {size or 0:,} bytes, which move too soon to be observed with {rate:,} bytes "
                f"per second; let the fault begin at {least:,} bytes or more, or give a smaller throttle"
            )
        self._rates = {}
        for broker in sorted({*before, *self._to}):
            found = admin.dynamic_of_broker(world.kafka, broker, RATES)
            if found is None:
                raise FaultError(f"broker {broker} does not answer for its settings, so nothing was moved")
            if HIDDEN in found.values():
                raise FaultError(f"broker {broker} has a throttle already and hides its rate, so nothing was moved")
            self._rates[broker] = {name: found.get(name) for name in RATES}
        topic, number = self._partition.topic, self._partition.number
        found_of_topic = admin.settings(world.kafka, topic, THROTTLED)
        self._replicas = {
            name: value if is_set and value else None
            for name in THROTTLED
            for value, is_set in [found_of_topic.get(name, ("", False))]
        }
        self.begun, self._since = True, time.monotonic()
        for broker in self._rates:
            admin.set_of_broker(world.kafka, broker, dict.fromkeys(RATES, str(rate)))
        lists = (",".join(f"{number}:{broker}" for broker in sorted(brokers)) for brokers in (before, self._added))
        admin.set_settings(world.kafka, topic, dict(zip(THROTTLED, lists, strict=True)))

    @staticmethod
    def _allowed(rate: int, seconds: float) -> int:
        """Return how many bytes a replica may copy: a quota counts in a window, and a fetch is never cut."""
        return round(rate * (seconds + WINDOW_S)) + FETCH_BYTES

    def _size(self, broker: int, world: World) -> int | None:
        from chaos.kafka.client import log_dirs

        folders = log_dirs(world.kafka, broker)
        sizes = [f.sizes[self._partition] for f in folders or [] if self._partition in f.sizes]
        return sizes[0] if sizes else None

    def _moving(self, world: World, rate: int) -> str | None:
        """Describe a move that is in progress and throttled.

        The rate of a leader also counts what its replicas in sync fetch (KIP-73), so a low rate copies nothing at all.
        """
        from chaos.kafka import admin

        took_s = time.monotonic() - self._since
        if took_s < LEAST_MOVE_S or not admin.added_by_reassignment(world.kafka, self._partition):
            return None
        sizes = {broker: self._size(broker, world) for broker in sorted(self._added)}
        if any(size is None or size > self._allowed(rate, took_s) for size in sizes.values()):
            return None
        for broker in self._rates:
            found = admin.dynamic_of_broker(world.kafka, broker, RATES) or {}
            if any(found.get(name) not in (str(rate), HIDDEN) for name in RATES):
                return None
        copied = ", ".join(f"broker {broker} has {size:,} bytes" for broker, size in sizes.items())
        return f"{self.resolved} is being moved: after {took_s:.0f} s at {rate:,} bytes per second {copied}"

    def _undo(self, world: World) -> str:
        from chaos.kafka import admin

        if self.spec.throttle is None:
            return super()._undo(world)
        if self.spec.cancel:
            admin.cancel_reassignment(world.kafka, self._partition)
        for broker, former in self._rates.items():
            wait_up(broker, world)
            admin.set_of_broker(world.kafka, broker, former)
        admin.set_settings(world.kafka, self._partition.topic, self._replicas)
        why = f"{self._partition} is still being moved"
        targets.answer(lambda: admin.added_by_reassignment(world.kafka, self._partition) == frozenset(), why, MOVE_S)
        done = "is not moved" if self.spec.cancel else f"is moved to {list(self._to)}"
        return f"{self.resolved} {done}, and its brokers have their former rates"

    def _effect(self, world: World) -> str | None:
        if self.spec.throttle is not None:
            return self._moving(world, self.spec.throttle)
        now = world.observer.partition(self._partition)
        if now is None or now.replicas != self._to or set(now.isr) != set(self._to):
            return None
        return f"{self.resolved} has the replicas {list(now.replicas)}, all in sync"


FAULTS: dict[str, type[Fault[Any]]] = {
    "election.preferred": ElectPreferred,
    "election.unclean": ElectUnclean,
    "partition.reassign": Reassign,
}
