"""Faults of topics and their records, by an administrator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import Field

from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.base import BY_ADMINISTRATOR, TOPIC, TOPIC_OR_PARTITION, Fault, FaultSpec, World
from chaos.kafka.metadata import PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.kafka.settings import as_text
from chaos.run.events import now_us
from chaos.setup.model import Setup
from chaos.wait import wait_until

CHANGE_TIMEOUT_S = 30.0

LISTED_TIMEOUT_S = 10.0


class AddPartitionsSpec(FaultSpec):
    """Add partitions to a topic; they stay."""

    effects = frozenset({"adds"})
    left_out = BY_ADMINISTRATOR
    final = True
    example = "to=6"
    targets = TOPIC
    kind: Literal["topic.add_partitions"]
    to: int = Field(gt=1, le=1000, description="number of partitions afterwards")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the number grows."""
        topic = next((t for t in setup.topics if t.name == self.target.topic), None)
        if topic and self.to <= topic.partitions:
            yield f"{where}.to: {topic.name} has {topic.partitions} partitions already"


class AddPartitions(Fault[AddPartitionsSpec], spec=AddPartitionsSpec):
    """More partitions. Proof: the metadata lists all of them, each with a leader."""

    lasting = "its partitions stay"

    def _inject(self, world: World) -> str:
        from chaos.kafka import admin

        before = len(targets.led_partitions(self.resolved, world))
        admin.add_partitions(world.kafka, self.resolved, self.spec.to)
        self.begun = True
        return f"{self.resolved} goes from {before} to {self.spec.to} partitions"

    def _effect(self, world: World) -> str | None:
        count = len(targets.led_partitions(self.resolved, world))
        return f"{self.resolved} has {count} partitions, all with a leader" if count == self.spec.to else None


class CreateTopicSpec(FaultSpec):
    """Create a topic that `topics` describes and marks `later: true`; it stays."""

    effects = frozenset({"adds"})
    left_out = BY_ADMINISTRATOR
    run_only = "the topics of a run"
    targets = TOPIC
    kind: Literal["topic.create"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the topic does not exist from the start."""
        if self.target.topic in {t.name for t in setup.topics if not t.later}:
            yield f"{where}.target.topic: {self.target.topic} exists from the start; mark it later: true in topics"


class CreateTopic(Fault[CreateTopicSpec], spec=CreateTopicSpec):
    """A topic created while clients run. Proof: the metadata lists its partitions, each with a leader."""

    lasting = "the topic stays"

    def _inject(self, world: World) -> str:
        if targets.led_partitions(self.resolved, world):
            raise FaultError(f"{self.resolved} exists already")
        create(self.resolved, world)
        self.begun = True
        return f"created {self.resolved}"

    def _effect(self, world: World) -> str | None:
        count = len(targets.led_partitions(self.resolved, world))
        expected = world.scenario.topic(self.resolved).partitions
        return f"{self.resolved} exists with {count} partitions" if count == expected else None


class DeleteTopicSpec(FaultSpec):
    """Delete a topic with all its records; healed by creating it again, empty, with another topic id."""

    effects = frozenset({"recreates"})
    left_out = BY_ADMINISTRATOR
    final = True
    targets = TOPIC
    kind: Literal["topic.delete"]
    create_again: bool = Field(
        True, examples=[True], description="false: the heal leaves it deleted; a client may create it again"
    )

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that a heal that does nothing has no moment."""
        if not self.create_again and self.heal is not None:
            yield f"{where}.heal: with create_again: false nothing is healed; leave heal out"


S = TypeVar("S", bound=FaultSpec)
States = dict[TopicPartition, PartitionState]


class Deletion(Fault[S]):
    """A fault that deletes a topic.

    evidence: `former_id` and `topic_id`, and when the requests were sent and answered (`delete_us`, `create_us`);
    `everywhere_us` is the time when every live broker listed the new id, missing if one did not.
    """

    def _delete(self, world: World) -> None:
        from chaos.kafka import admin

        self.evidence["former_id"] = topic_id(self.resolved, world)
        self.begun = True
        asked_us = now_us()
        admin.delete_topics([self.resolved]).apply(world.kafka)
        self.evidence["delete_us"] = [asked_us, now_us()]

    def _create_again(self, partitions: int | None, world: World) -> None:
        """Create the topic once no broker lists it, and wait for its leaders.

        Before it is gone, a request to create it would be refused, because the topic exists. So it would be after a
        client has made it by asking for it (`auto.create.topics.enable`): that topic is extended. Raises `FaultError`.
        """
        name, former = self.resolved, self.evidence["former_id"]

        def gone() -> bool:
            return not targets.led_partitions(name, world) or topic_id(name, world) != former

        _wait(gone, f"{name} is still listed after it was deleted")
        asked_us = now_us()
        create(name, world, partitions)
        self.evidence["create_us"] = [asked_us, now_us()]
        count = partitions or world.scenario.topic(name).partitions
        self.evidence["made"] = _complete(name, former, world, count)
        _wait(lambda: len(targets.led_partitions(name, world)) >= count, f"not all partitions of {name} have a leader")
        self.evidence["topic_id"] = now = topic_id(name, world)
        if now and _listed_everywhere(name, now, world):
            self.evidence["everywhere_us"] = now_us()


class DeleteTopic(Deletion[DeleteTopicSpec], spec=DeleteTopicSpec):
    """A topic deleted while clients run. Proof: the metadata no longer lists the topic id that it had."""

    def _inject(self, world: World) -> str:
        self._delete(world)
        return f"deleted {self.resolved}"

    def _effect(self, world: World) -> str | None:
        if world.observer.metadata is None:
            return None
        if not targets.led_partitions(self.resolved, world):
            return f"{self.resolved} is gone from the metadata"
        former, now = self.evidence["former_id"], topic_id(self.resolved, world)
        return f"{self.resolved} had the id {former} and has {now}" if former and now and former != now else None

    def _undo(self, world: World) -> str:
        if not self.spec.create_again:
            return f"{self.resolved} stays deleted" + (
                "; a client created it again" if targets.led_partitions(self.resolved, world) else ""
            )
        if "made" not in self.evidence:
            self._create_again(None, world)
        made = self.evidence["made"]
        return f"{self.resolved} exists again, {f'created by a client with {made}, and extended' if made else 'empty'}"


class RecreateTopicSpec(FaultSpec):
    """Delete a topic and create it again at once, empty and with another topic id (KIP-516); it stays."""

    effects = frozenset({"recreates"})
    left_out = BY_ADMINISTRATOR
    final = True
    targets = TOPIC
    kind: Literal["topic.recreate"]
    partitions: int | None = Field(
        None, ge=1, le=1000, description="number of partitions afterwards; the same if left out"
    )


class RecreateTopic(Deletion[RecreateTopicSpec], spec=RecreateTopicSpec):
    """A topic deleted and created again while clients run. Proof: the metadata lists it with another topic id."""

    lasting = "the new topic stays"

    def _inject(self, world: World) -> str:
        self._delete(world)
        self._create_again(self.spec.partitions, world)
        return f"deleted {self.resolved} and created it again"

    def _undo(self, world: World) -> str:
        if "create_us" not in self.evidence and not targets.led_partitions(self.resolved, world):
            self._create_again(self.spec.partitions, world)
        return super()._undo(world)

    def _effect(self, world: World) -> str | None:
        former, now = self.evidence["former_id"], topic_id(self.resolved, world)
        led = targets.led_partitions(self.resolved, world)
        expected = self.spec.partitions or world.scenario.topic(self.resolved).partitions
        if not former or not now or former == now or len(led) != expected:
            return None
        return f"{self.resolved} had the id {former} and has {now}, with {len(led)} partitions"


def create(name: str, world: World, partitions: int | None = None) -> None:
    """Create a topic as the scenario describes it, or with another number of partitions."""
    from chaos.kafka import admin

    topic = world.scenario.topic(name)
    config = {key: as_text(value) for key, value in topic.config.items()}
    admin.create_topic(world.kafka, name, partitions or topic.partitions, topic.replication_factor, config)


def _complete(name: str, former: object, world: World, count: int) -> str:
    """Let a topic that a client may have created have the partitions, replicas and settings of the scenario.

    former: the id of the topic before, which a broker may still list. Returns what the client created, such as
    `1 of 4 partitions`, empty if nobody came first. Raises `FaultError` if there are too many partitions.
    """
    from chaos.kafka import admin

    listed, topic = partial(_listed, name, former, world), world.scenario.topic(name)
    made = targets.answer(listed, f"no broker lists {name} after it was created")
    replicas = min(len(state.replicas) for state in made.values())
    if len(made) > count:
        raise FaultError(
            f"a client created {name} first, with {len(made)} partitions; set auto.create.topics.enable: false in "
            "cluster.config"
        )
    if len(made) < count:
        admin.add_partitions(world.kafka, name, count)
    if replicas < topic.replication_factor:
        _replicate(name, partial(listed, count), topic.replication_factor, world)
    if topic.config:
        admin.set_settings(world.kafka, name, {key: as_text(value) for key, value in topic.config.items()})
    counts = {"partitions": (len(made), count), "replicas": (replicas, topic.replication_factor)}
    return " and ".join(f"{n} of {wanted} {what}" for what, (n, wanted) in counts.items() if n < wanted)


def _replicate(name: str, listed: Callable[[], States | None], replicas: int, world: World) -> None:
    """Give each partition so many replicas, and wait until the live brokers among them are in sync.

    `Kafka.unhealthy` would not do: it takes a partition for healthy as long as the new replicas are not listed.
    """
    from chaos.kafka import admin

    brokers, states = world.cluster.broker_ids, targets.answer(listed, f"no broker lists all partitions of {name}")
    for partition, state in states.items():
        others = [broker for broker in brokers if broker not in state.replicas]
        admin.reassign(world.kafka, partition, [*state.replicas, *others][:replicas])

    def in_sync() -> bool:
        least = min(replicas, sum(map(world.cluster.broker_alive, brokers)))
        return all(len(state.isr) >= least for state in (listed() or states).values())

    _wait(in_sync, f"not all replicas of {name} are in sync after a client created it")


def _listed(name: str, former: object, world: World, least: int = 1) -> States | None:
    """Return the partitions of the topic after the one with the id `former`; None if there are fewer than `least`."""
    metadata = world.kafka.metadata()
    if metadata is None or (former and metadata.topic_ids.get(name) == former):
        return None
    found = {p: state for p, state in metadata.partitions.items() if p.topic == name}
    return found if len(found) >= least else None


def topic_id(name: str, world: World) -> str | None:
    """Return the id of a topic; None if it does not exist, or the brokers give none."""
    metadata = world.kafka.metadata()
    return metadata.topic_ids.get(name) if metadata else None


def _listed_everywhere(name: str, topic_id: str, world: World) -> bool:
    """Wait until every live broker lists a topic under this id; returns False if one does not in time."""
    live = [broker for broker in world.cluster.broker_ids if world.cluster.broker_alive(broker)]
    try:
        return wait_until(lambda: all(world.kafka.topic_id_at(b, name) == topic_id for b in live), LISTED_TIMEOUT_S, "")
    except WaitTimeout:
        return False


def _wait(condition: Callable[[], bool], why: str) -> None:
    try:
        wait_until(condition, CHANGE_TIMEOUT_S, why)
    except WaitTimeout as e:
        raise FaultError(str(e)) from None


class DeleteRecordsSpec(FaultSpec):
    """Move the log start of partitions forward, as retention does; the records stay deleted."""

    effects = frozenset({"deletes"})
    left_out = BY_ADMINISTRATOR
    final = True
    example = "leave=10"
    needs_records = True
    targets = TOPIC_OR_PARTITION
    one_of = ("before", "leave")
    kind: Literal["topic.delete_records"]
    before: int | None = Field(None, gt=0, description="delete the records below this offset")
    leave: int | None = Field(None, ge=0, description="or all but this many offsets at the end of each partition")


class DeleteRecords(Fault[DeleteRecordsSpec], spec=DeleteRecordsSpec):
    """Records deleted from the start of logs. Proof: leaders report a log start at or above the requested offset."""

    lasting = "the records stay deleted"
    _starts: dict[TopicPartition, int]
    """The requested log start by partition."""

    def _inject(self, world: World) -> str:
        from chaos.kafka import admin

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

    def _effect(self, world: World) -> str | None:
        starts = world.kafka.start_offsets(self._starts)
        if any(starts.get(name, -1) < offset for name, offset in self._starts.items()):
            return None
        self.evidence["log_starts"] = {str(name): offset for name, offset in self._starts.items()}
        return "; ".join(f"{name} begins at offset {start}" for name, start in starts.items())


FAULTS: dict[str, type[Fault[Any]]] = {
    "topic.add_partitions": AddPartitions,
    "topic.create": CreateTopic,
    "topic.delete": DeleteTopic,
    "topic.recreate": RecreateTopic,
    "topic.delete_records": DeleteRecords,
}
