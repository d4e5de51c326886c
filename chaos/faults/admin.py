"""Faults by an administrator: of topics and their records, of groups and their offsets, and of leaders and replicas."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.base import Fault, World
from chaos.faults.deletion import create
from chaos.faults.targets import BrokerFault
from chaos.kafka import admin, broker_settings
from chaos.kafka.log_dirs import log_dirs
from chaos.kafka.metadata_merge import NO_LEADER, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.kafka.settings import as_text
from chaos.scenario.faults import admin as specs
from chaos.scenario.faults.base import FaultSpec
from chaos.wait import wait_until

S = TypeVar("S", bound=FaultSpec)

LEADERLESS_TIMEOUT_S = 20.0
LEAST_MOVE_S, WINDOW_S, FETCH_BYTES, MOVE_S = 4.0, 11.0, 2**20, 60.0
"""A throttled move: the least seconds until the proof, the seconds that the quota averages over, the most bytes of one
fetch (replica.fetch.max.bytes), and the most seconds from the heal until the move is complete."""
HIDDEN = ""
"""The rate in the answer of a broker: Kafka gives no rate a type, so brokers hide the value as they hide passwords."""
BACK_S = 20.0
"""Time in which the heal of another fault may start a broker whose settings are put back."""


class AddPartitions(Fault[specs.AddPartitions], spec=specs.AddPartitions):
    """More partitions. Proof: the metadata lists all of them, each with a leader."""

    lasting = "its partitions stay"

    def _inject(self, world: World) -> str:
        before = len(targets.led_partitions(self.resolved, world))
        admin.add_partitions(world.kafka, self.resolved, self.spec.to)
        self.begun = True
        return f"{self.resolved} goes from {before} to {self.spec.to} partitions"

    def _effect(self, world: World) -> str | None:
        count = len(targets.led_partitions(self.resolved, world))
        return f"{self.resolved} has {count} partitions, all with a leader" if count == self.spec.to else None


class CreateTopic(Fault[specs.CreateTopic], spec=specs.CreateTopic):
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


class DeleteRecords(Fault[specs.DeleteRecords], spec=specs.DeleteRecords):
    """Records deleted from the start of logs. Proof: leaders report a log start at or above the requested offset."""

    lasting = "the records stay deleted"
    _starts: dict[TopicPartition, int]
    """The requested log start by partition."""

    def _inject(self, world: World) -> str:
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


class TopicConfig(Fault[specs.TopicConfig], spec=specs.TopicConfig):
    """Changed settings of a topic. Proof: a read returns the new values."""

    _settings: dict[str, str]
    _before: dict[str, str | None]
    """The former values; None for a setting that had its default."""

    def _inject(self, world: World) -> str:
        self._settings = {key: as_text(value) for key, value in self.spec.settings.items()}
        before = admin.settings(world.kafka, self.resolved, self._settings)
        if missing := self._settings.keys() - before.keys():
            raise FaultError(f"{self.resolved} has no settings {', '.join(sorted(missing))}")
        self._before = {key: value if is_set else None for key, (value, is_set) in before.items()}
        self.begun = True
        admin.set_settings(world.kafka, self.resolved, self._settings)
        settings, topic = self._settings.items(), self.resolved
        return "; ".join(f"{key} of {topic} from {before[key][0]} to {value}" for key, value in settings)

    def _effect(self, world: World) -> str | None:
        now = admin.settings(world.kafka, self.resolved, self._settings)
        if any(now.get(key, ("", False))[0] != value for key, value in self._settings.items()):
            return None
        return f"{self.resolved} has {', '.join(f'{key}={value}' for key, value in self._settings.items())}"

    def _undo(self, world: World) -> str:
        admin.set_settings(world.kafka, self.resolved, self._before)
        return f"{self.resolved} has its former settings"


def wait_up(broker: int, world: World) -> None:
    """Wait until a broker that is down is back, as only the broker takes its own settings; else start it."""
    with contextlib.suppress(WaitTimeout):
        wait_until(lambda: world.cluster.broker_alive(broker), BACK_S, f"broker {broker} is down")
    targets.start_down([broker], world)


class BrokerConfig(BrokerFault[specs.BrokerConfig], spec=specs.BrokerConfig):
    """Settings of brokers changed while they run. Proof: each broker itself reports the new values as its own."""

    _settings: dict[str, str]
    _before: dict[int, dict[str, str | None]]
    """The former values by broker; None for a setting that was not set for the broker alone."""

    def _inject(self, world: World) -> str:
        self._settings = {key: as_text(value) for key, value in self.spec.settings.items()}
        self._before = {}
        for broker in self.brokers:
            found = broker_settings.dynamic_of_broker(world.kafka, broker, self._settings)
            if found is None:
                raise FaultError(f"broker {broker} does not answer for its settings, so none was changed")
            self._before[broker] = {key: found.get(key) for key in self._settings}
        self.begun = True
        for broker in self.brokers:
            broker_settings.set_of_broker(world.kafka, broker, self._settings)
        return f"set {self._text(self._settings)} at {self.resolved}"

    def _effect(self, world: World) -> str | None:
        if not all(self._reports(broker, self._settings, world) for broker in self.brokers):
            return None
        return f"{self.resolved} {'reports' if len(self.brokers) == 1 else 'report'} {self._text(self._settings)}"

    def _undo(self, world: World) -> str:
        for broker, former in self._before.items():
            wait_up(broker, world)
            broker_settings.set_of_broker(world.kafka, broker, former)
        for broker, former in self._before.items():
            why = f"broker {broker} does not report its former settings"
            targets.answer(partial(self._reports, broker, former, world), why)
        return f"{self.resolved} has its former settings"

    def _reports(self, broker: int, values: Mapping[str, str | None], world: World) -> bool:
        found = broker_settings.dynamic_of_broker(world.kafka, broker, values)
        return found is not None and all(_same(found.get(key), value) for key, value in values.items())

    @staticmethod
    def _text(settings: Mapping[str, str]) -> str:
        return ", ".join(f"{key}={value}" for key, value in settings.items())


def _same(found: str | None, value: str | None) -> bool:
    """Return whether a reported value is the one that was set; a broker may write a number in another form."""
    try:
        return found == value or (found is not None and value is not None and float(found) == float(value))
    except ValueError:
        return False


class GroupFault(Fault[S]):
    """A fault of the committed offsets of a group."""

    _offsets: dict[TopicPartition, int]
    """The offsets that were deleted, or that were committed."""

    def _aim(self, world: World) -> None:
        self._group = str(self.spec.target.group)
        self.resolved = f"group {self._group}"

    def _partitions(self, world: World) -> list[TopicPartition]:
        return world.observer.partitions(topics_of(self._group, world))

    def _committed(self, world: World) -> dict[TopicPartition, int]:
        offsets = world.kafka.committed(self._group, self._partitions(world))
        if offsets is None:
            raise FaultError(f"the coordinator of group {self._group} does not return its committed offsets")
        if not offsets:
            raise FaultError(f"group {self._group} has no committed offset, so nothing can be deleted")
        return offsets


class DeleteOffsets(GroupFault[specs.DeleteOffsets], spec=specs.DeleteOffsets):
    """Committed offsets deleted. Proof: the coordinator returns none of them."""

    lasting = "its offsets stay deleted"

    def _inject(self, world: World) -> str:
        offsets = self._committed(world)
        admin.delete_offsets(world.kafka, self._group, offsets)
        self._offsets, self.begun = offsets, True
        self.evidence["offsets"] = dict.fromkeys(map(str, offsets))
        return f"deleted {len(offsets)} committed offsets of {self._group}"

    def _effect(self, world: World) -> str | None:
        gone = world.kafka.committed(self._group, self._offsets) == {}
        return f"{self.resolved} has no committed offset any more" if gone else None


class ResetOffsets(GroupFault[specs.ResetOffsets], spec=specs.ResetOffsets):
    """Other offsets committed. Proof: the coordinator returns them."""

    lasting = "its offsets stay as they were reset"

    def _inject(self, world: World) -> str:
        to, names = self.spec.to, self._partitions(world)
        offsets = world.kafka.start_offsets(names) if to == "earliest" else world.kafka.end_offsets(names)
        if set(offsets) != set(names):
            raise FaultError(f"not all of {', '.join(map(str, names))} return their offsets")
        if isinstance(to, int):
            offsets = dict.fromkeys(offsets, to)
        admin.commit(world.kafka, self._group, offsets)
        self._offsets, self.begun = offsets, True
        self.evidence["offsets"] = {str(name): offset for name, offset in offsets.items()}
        return f"reset {self._group} to {', '.join(f'{name}: {offset}' for name, offset in offsets.items())}"

    def _effect(self, world: World) -> str | None:
        reset = world.kafka.committed(self._group, self._offsets) == self._offsets
        return f"{self.resolved} has the offsets that it was reset to" if reset else None


class DeleteGroup(GroupFault[specs.DeleteGroup], spec=specs.DeleteGroup):
    """A group deleted. Proof: its coordinator reports no such group, and no offset of it."""

    lasting = "it stays deleted until its members come back"

    def _inject(self, world: World) -> str:
        offsets = self._committed(world)
        admin.delete_group(self._group).apply(world.kafka)
        self._offsets, self.begun = offsets, True
        return f"deleted {self.resolved} with {len(offsets)} committed offsets"

    def _effect(self, world: World) -> str | None:
        if world.kafka.committed(self._group, self._offsets) != {}:
            return None
        state = world.kafka.group(self._group)
        return f"{self.resolved} is {state.state} and has no committed offset" if state else None


def topics_of(group: str, world: World) -> set[str]:
    """Return the topics that the consumers and processors of a group read."""
    names = [topic.name for topic in world.scenario.topics]
    return {topic for c in world.scenario.readers if c.group == group for topic in c.topics_among(names)}


class Election(Fault[S]):
    """An election of the leaders of some partitions."""

    lasting = "the leaders stay"
    _before: dict[TopicPartition, PartitionState]

    def _elect(self, partitions: dict[TopicPartition, PartitionState], world: World, unclean: bool) -> None:
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


class ElectPreferred(Election[specs.ElectPreferred], spec=specs.ElectPreferred):
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


class ElectUnclean(Election[specs.ElectUnclean], spec=specs.ElectUnclean):
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


class Reassign(Fault[specs.Reassign], spec=specs.Reassign):
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
            found = broker_settings.dynamic_of_broker(world.kafka, broker, specs.RATES)
            if found is None:
                raise FaultError(f"broker {broker} does not answer for its settings, so nothing was moved")
            if HIDDEN in found.values():
                raise FaultError(f"broker {broker} has a throttle already and hides its rate, so nothing was moved")
            self._rates[broker] = {name: found.get(name) for name in specs.RATES}
        topic, number = self._partition.topic, self._partition.number
        found_of_topic = admin.settings(world.kafka, topic, specs.THROTTLED)
        self._replicas = {
            name: value if is_set and value else None
            for name in specs.THROTTLED
            for value, is_set in [found_of_topic.get(name, ("", False))]
        }
        self.begun, self._since = True, time.monotonic()
        for broker in self._rates:
            broker_settings.set_of_broker(world.kafka, broker, dict.fromkeys(specs.RATES, str(rate)))
        lists = (",".join(f"{number}:{broker}" for broker in sorted(brokers)) for brokers in (before, self._added))
        admin.set_settings(world.kafka, topic, dict(zip(specs.THROTTLED, lists, strict=True)))

    @staticmethod
    def _allowed(rate: int, seconds: float) -> int:
        """Return how many bytes a replica may copy: a quota counts in a window, and a fetch is never cut."""
        return round(rate * (seconds + WINDOW_S)) + FETCH_BYTES

    def _size(self, broker: int, world: World) -> int | None:
        folders = log_dirs(world.kafka, broker)
        sizes = [f.sizes[self._partition] for f in folders or [] if self._partition in f.sizes]
        return sizes[0] if sizes else None

    def _moving(self, world: World, rate: int) -> str | None:
        """Describe a move that is in progress and throttled.

        The rate of a leader also counts what its replicas in sync fetch (KIP-73), so a low rate copies nothing at all.
        """
        took_s = time.monotonic() - self._since
        if took_s < LEAST_MOVE_S or not admin.added_by_reassignment(world.kafka, self._partition):
            return None
        sizes = {broker: self._size(broker, world) for broker in sorted(self._added)}
        if any(size is None or size > self._allowed(rate, took_s) for size in sizes.values()):
            return None
        for broker in self._rates:
            found = broker_settings.dynamic_of_broker(world.kafka, broker, specs.RATES) or {}
            if any(found.get(name) not in (str(rate), HIDDEN) for name in specs.RATES):
                return None
        copied = ", ".join(f"broker {broker} has {size:,} bytes" for broker, size in sizes.items())
        return f"{self.resolved} is being moved: after {took_s:.0f} s at {rate:,} bytes per second {copied}"

    def _undo(self, world: World) -> str:
        if self.spec.throttle is None:
            return super()._undo(world)
        if self.spec.cancel:
            admin.cancel_reassignment(world.kafka, self._partition)
        for broker, former in self._rates.items():
            wait_up(broker, world)
            broker_settings.set_of_broker(world.kafka, broker, former)
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
