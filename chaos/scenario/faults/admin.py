"""Faults by an administrator, which every driver can do: of topics, of groups, and of leaders and replicas."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pydantic import Field

from chaos.kafka.settings import Config, Scalar, topic_defaults
from chaos.scenario.faults.base import BROKER_TARGETS, BROKERS, FaultSpec
from chaos.settings import dynamic_problem
from chaos.setup.model import Setup, Topic, unknown
from chaos.units import Size

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""The settings of a throttle: rates of brokers, and the replicas of a topic that they concern (KIP-73)."""
TOPIC, GROUP = frozenset({"topic"}), frozenset({"group"})
TOPIC_OR_PARTITION = frozenset({"topic", "partition"})


class AddPartitions(FaultSpec):
    """Add partitions to a topic; they stay."""

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


class CreateTopic(FaultSpec):
    """Create a topic that `topics` describes and marks `later: true`; it stays."""

    run_only = "the topics of a run"
    targets = TOPIC
    kind: Literal["topic.create"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the topic does not exist from the start."""
        if self.target.topic in {t.name for t in setup.topics if not t.later}:
            yield f"{where}.target.topic: {self.target.topic} exists from the start; mark it later: true in topics"


class DeleteTopic(FaultSpec):
    """Delete a topic with all its records; healed by creating it again, empty, with another topic id."""

    final = True
    targets = TOPIC
    kind: Literal["topic.delete"]
    create_again: bool = Field(True, description="false: the heal leaves it deleted; a client may create it again")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that a heal that does nothing has no moment."""
        if not self.create_again and self.heal is not None:
            yield f"{where}.heal: with create_again: false nothing is healed; leave heal out"


class RecreateTopic(FaultSpec):
    """Delete a topic and create it again at once, empty and with another topic id (KIP-516); it stays."""

    final = True
    targets = TOPIC
    kind: Literal["topic.recreate"]
    partitions: int | None = Field(
        None, ge=1, le=1000, description="number of partitions afterwards; the same if left out"
    )


class DeleteRecords(FaultSpec):
    """Move the log start of partitions forward, as retention does; the records stay deleted."""

    final = True
    example = "leave=100"
    targets = TOPIC_OR_PARTITION
    one_of = ("before", "leave")
    kind: Literal["topic.delete_records"]
    before: int | None = Field(None, gt=0, description="delete the records below this offset")
    leave: int | None = Field(None, ge=0, description="or all but this many offsets at the end of each partition")


class TopicConfig(FaultSpec):
    """Change settings of a topic; healed by their former values."""

    example = "settings.max.message.bytes=1000"
    targets = TOPIC
    kind: Literal["topic.config"]
    settings: dict[str, Scalar] = Field(min_length=1, description="by their Kafka names")

    @property
    def changed(self) -> frozenset[tuple[str, str]]:
        """The settings, of the topic."""
        return frozenset((f"topic {self.target.topic}", name) for name in self.settings)


class BrokerConfig(FaultSpec):
    """Change settings of brokers while they run (KIP-226); healed by their former values, or by none if none was set.

    A broker keeps such a setting over a restart. One that is down at the heal is started, unless another fault does so
    in time: only the broker itself takes the former value.
    """

    example = "settings.max.connections=100"
    targets = BROKER_TARGETS
    kind: Literal["broker.config"]
    settings: dict[str, Scalar] = Field(min_length=1, description="by their Kafka names, such as max.connections: 20")

    @property
    def changed(self) -> frozenset[tuple[str, str]]:
        """The settings, of one broker or of some."""
        owner = BROKERS if self.target.broker is None else f"broker {self.target.broker}"
        return frozenset((owner, name) for name in self.settings)

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that brokers of the release take each setting while they run."""
        release = None if setup.attached else setup.cluster.kafka
        for name in self.settings:
            if problem := dynamic_problem(name, release):
                yield f"{where}.settings.{name}: {problem}"


class DeleteOffsets(FaultSpec):
    """Delete the committed offsets of a group that is not subscribed to any topic; they stay deleted."""

    final = True
    targets = GROUP
    kind: Literal["group.delete_offsets"]


class ResetOffsets(FaultSpec):
    """Commit other offsets for a group without members, as kafka-consumer-groups --reset-offsets does; they stay."""

    final = True
    example = "to=earliest"
    targets = GROUP
    kind: Literal["group.reset_offsets"]
    to: Literal["earliest", "latest"] | int = Field(description="earliest, latest, or an offset")


class ResetShareOffsets(FaultSpec):
    """Set the start offsets of a share group without members, as kafka-share-groups --reset-offsets does; they stay."""

    run_only = "the share groups of a run"
    targets = GROUP
    kind: Literal["share.reset_offsets"]
    to: Literal["earliest", "latest"] = Field(description="the start or the end of each partition")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a share group."""
        yield from unknown(f"{where}.target.group", str(self.target.group), "share groups", setup.share_groups)


class DeleteGroup(FaultSpec):
    """Delete a group without members, with all its offsets; it stays deleted until its members come back."""

    final = True
    targets = GROUP
    kind: Literal["group.delete"]


class ElectPreferred(FaultSpec):
    """Elect the preferred replica, the first in the replica list; it stays the leader."""

    targets = TOPIC_OR_PARTITION
    kind: Literal["election.preferred"]


class ElectUnclean(FaultSpec):
    """Elect a replica outside the ISR if no other is available: records that it lacks are lost; it stays the leader."""

    final = True
    targets = TOPIC_OR_PARTITION
    kind: Literal["election.unclean"]


class Reassign(FaultSpec):
    """Move a partition to other brokers while clients write to it; it stays there.

    With a throttle (KIP-73), the move lasts until the heal removes the throttle, so that other faults can happen in it.
    """

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
        """Check the broker ids, and that a move which is cancelled lasts."""
        yield from setup.broker_problems(f"{where}.to", self.to or [])
        if self.cancel and self.throttle is None:
            yield f"{where}.cancel: a move without a throttle is soon complete; give throttle, such as 100KiB"


def overlap_problems(faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield two faults that may change one setting at a time: the heal of one would bring back the other's value."""
    for first, second in itertools.combinations(faults, 2):
        shared = {
            name for one, name in first.changed for other, own in second.changed if name == own and _meet(one, other)
        }
        if shared and not _waits(first, second, faults) and not _waits(second, first, faults):
            yield (
                f"faults: {first.name} and {second.name} both change {min(shared)}, perhaps at one time, and then the "
                f"heal of one brings back the value of the other; let one wait: when: {{after: {first.name}.healed}}"
            )


def _meet(one: str, other: str) -> bool:
    """Return whether two owners of settings may be the same."""
    brokers = one.startswith("broker") and other.startswith("broker")
    return one == other or (brokers and BROKERS in (one, other))


def _waits(fault: FaultSpec, other: FaultSpec, faults: Sequence[FaultSpec]) -> bool:
    """Return whether a fault begins only after the heal of another one, directly or through others."""
    by_name, seen = {f.name: f for f in faults}, set[str]()
    current: FaultSpec | None = fault
    while current is not None and current.name not in seen and (after := current.when.awaited):
        if after.fault == other.name and after.phase == "healed":
            return True
        seen.add(current.name)
        current = by_name.get(after.fault)
    return False


def states_of(topic: Topic, faults: Iterable[FaultSpec]) -> list[tuple[Config, FaultSpec | None]]:
    """Return the settings of a topic at the start, and then with each fault that changes them, with that fault.

    A topic without a value of its own has that of its brokers.
    """
    states: list[tuple[Config, FaultSpec | None]] = [(topic.config, None)]
    for fault in faults:
        if isinstance(fault, TopicConfig) and fault.target.topic == topic.name:
            states.append((topic.config | fault.settings, fault))
        elif isinstance(fault, BrokerConfig) and (defaults := topic_defaults(fault.settings)):
            states.append((defaults | topic.config, fault))
    return states
