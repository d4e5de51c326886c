"""Faults of the CPU, the memory, the disk and the records of a node.

The faults of disks come first: they need no container.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, Literal

from pydantic import Field

from chaos.cluster.api import (
    CutLog,
    ExhaustMemory,
    FillDisk,
    Kill,
    LimitDisk,
    LogTail,
    SlowDisk,
    Stop,
    Throttle,
    Wipe,
    able,
)
from chaos.cluster.settings import FIRST_CONTROLLER, data_folders
from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.base import BROKER_TARGETS, Experiment, Fault, FaultSpec, World
from chaos.faults.brokers import BrokerKill
from chaos.faults.targets import BrokerFault, is_gone, is_only, node_name, start_down
from chaos.kafka.metadata import NO_LEADER
from chaos.kafka.partition import TopicPartition
from chaos.preload.libraries import FAST, Delayed, Delays
from chaos.preload.meter import Meter, Reading
from chaos.setup.model import Setup
from chaos.setup.triggers import CONTROLLER_TARGETS
from chaos.units import Duration, Size, format_duration
from chaos.wait import wait_until

LEAST_DELAY_S, MOST_DELAY_S = 0.02, 5.0
"""Least delay of a disk that a loaded machine does not look like, and the longest that can be proven in time."""

FIRST_RECORD_S = 15.0
"""Time for a partition to get its first record: a producer without keys fills one partition after another."""

MIN_WAIT_S = 0.5
"""Minimum additional time that a throttled broker must have waited for the CPU."""

_FLUSHES = ("flush.messages", "flush.ms")

_BROKER_FLUSHES = ("log.flush.interval.messages", "log.flush.interval.ms")

LEAST_SHARE, ENDED_SHARE = 0.8, 0.5
"""Share of a delay by which the times of a node must have risen, as proof, and above which the delay has not ended."""

LEAST_MEASURED, SERIES = 3, 3
"""Minimum number of measurements for a mean, and number of means before the fault; the least mean counts."""

NORMAL_TIMEOUT_S, FRESH_TIMEOUT_S, ENDED_TIMEOUT_S = 20.0, 5.0, 30.0

ANSWER_S = 5.0
"""Time for the answer to a request that writes, in addition to the delays of the disk."""

FLUSHED_FILES = 4
"""Maximum number of files in a flush: a segment of a log and its indexes."""


class BrokerWipeSpec(FaultSpec):
    """SIGKILL a broker and replace its disk with an empty, formatted one; healed by a start."""

    effects = frozenset({"outage", "crash", "wipes", "connections"})
    final = True
    needs = frozenset({"kill", "start", "wipe"})
    kind: Literal["broker.wipe"]


class BrokerWipe(BrokerKill, spec=BrokerWipeSpec):
    """SIGKILL and an empty disk. Proof: as for any killed broker, and a disk without a replica.

    The broker may have led only partitions that have no other replica, such as partitions of `__consumer_offsets`. Then
    the proof is a disk without a replica, and that the other brokers no longer list the broker.
    """

    _replicas = 0

    def _inject(self, world: World) -> str:
        super()._inject(world)
        return f"killed {self.resolved} and wiped its disk, which held {self._replicas} replicas"

    def _take_down(self, world: World) -> None:
        """Kill the broker first, so that nothing writes to the disk during the wipe."""
        disk = able(world.cluster, Wipe)
        self._replicas = disk.replicas_on_disk(self.broker)
        if not self._replicas:
            raise FaultError(f"{self.resolved} has no replica on its disk that could be lost")
        super()._take_down(world)
        disk.wipe_disk(self.broker)

    def _effect(self, world: World) -> str | None:
        killed = super()._effect(world)
        if killed is None and is_gone(self.broker, world):
            killed = f"{self.resolved} is gone from the metadata"
        if killed is None or world.cluster.broker_alive(self.broker):
            return None
        left = able(world.cluster, Wipe).replicas_on_disk(self.broker)
        return f"{killed}; of {self._replicas} replicas on its disk none is left" if left == 0 else None


def _flushes(scenario: Experiment, topic: str) -> str:
    """Return a setting with which the brokers flush a topic before the system does; empty if there is none."""
    found = [name for name in _FLUSHES if name in scenario.topic(topic).config]
    found += [name for name in _BROKER_FLUSHES if name in scenario.cluster.config]
    return next(iter(found), "")


class LogTruncateSpec(FaultSpec):
    """Power loss: SIGKILL a broker and remove the unflushed end of the partition's log; healed by a start.

    It removes whole batches and never goes below the recovery point: flushed records survive. It does not work with
    flush.messages and flush.ms, as brokers write the recovery point once in a minute only.
    """

    effects = frozenset({"outage", "crash", "power", "connections"})
    final = True
    targets = frozenset({"leader_of", "follower_of", "isr_of"})
    needs = frozenset({"kill", "start", "cut_log"})
    needs_records = True
    proven_when_back = frozenset({"isr_of"})
    kind: Literal["log.truncate"]
    records: int | None = Field(None, gt=0, description="minimum number of records to remove; all if left out")


class LogTruncate(BrokerFault[LogTruncateSpec], spec=LogTruncateSpec):
    """Power loss: SIGKILL, and the unflushed end of the partition's log removed.

    Proof if the whole ISR lost it: the next leader reports that the former leader epoch ended before the offset that
    had been reached. Proof if other replicas have it: another broker leads the partition, and the ISR does not contain
    the replica. (A replica that comes back catches up at once, so other brokers never see where its log ended.)
    """

    _partition: TopicPartition
    _tails: dict[int, LogTail]
    _whole_isr: bool
    _epoch: int
    _end: int

    def _inject(self, world: World) -> str:
        self._partition = TopicPartition.parse(self.spec.target.selector[1])
        if setting := _flushes(world.scenario, self._partition.topic):
            raise FaultError(
                f"{setting} lets brokers flush records, and the disk does not show which: they write the recovery "
                "point once in a minute (log.flush.offset.checkpoint.interval.ms); leave the setting out"
            )
        state = targets.partition(self._partition, world)
        self._whole_isr, self._epoch = set(self.brokers) >= set(state.isr), state.leader_epoch
        disk = able(world.cluster, CutLog)
        wait_until(
            lambda: world.kafka.end_offsets([self._partition]).get(self._partition, 0) > 0,
            FIRST_RECORD_S,
            f"{self._partition} has no record that could be lost",
        )
        self._end = world.kafka.end_offsets([self._partition]).get(self._partition, 0)
        self._tails, self.begun = {}, True
        for broker in self.brokers:
            able(world.cluster, Kill).kill_broker(broker)
        self._tails = {broker: disk.cut_log(broker, self._partition, self.spec.records) for broker in self.brokers}
        if empty := [broker for broker, tail in self._tails.items() if tail.start == tail.end]:
            raise FaultError(f"nothing of {self._partition} was unflushed on broker {', '.join(map(str, empty))}")
        cut = "; ".join(f"broker {b}: offsets {tail.start} to {tail.end - 1}" for b, tail in self._tails.items())
        return f"power loss at {self.resolved}: {self._partition} lost its unflushed records ({cut})"

    def _effect(self, world: World) -> str | None:
        now = world.observer.partition(self._partition)
        if now is None:
            return None
        led_by_others = now.leader not in (*self.brokers, NO_LEADER) and not set(self.brokers) & set(now.isr)
        if self._whole_isr and not led_by_others:
            end = world.kafka.epoch_end(self._partition, self._epoch)
            if now.leader_epoch <= self._epoch or end is None or end >= self._end:
                return None
            former = f"leader epoch {self._epoch} ends at offset {end}, though {self._end} had been reached"
            return f"{self._partition} is in leader epoch {now.leader_epoch}, and in its log {former}"
        if not led_by_others:
            return None
        cuts = "; ".join(f"broker {b} lost {tail.end - tail.start} offsets" for b, tail in self._tails.items())
        return f"{self._partition} is led by {now.leader} with ISR {list(now.isr)}; {cuts}"

    def _undo(self, world: World) -> str:
        start_down(self.brokers, world)
        return f"{self.resolved} back with the records on disk"


class DiskLimitSpec(FaultSpec):
    """Limit the files of a broker to the size of a partition's log; healed by lifting it and, if down, a start.

    A broker with several data folders (log.dirs in cluster.config) loses only the folder with the log, and lives on
    without the replicas there (KIP-112); healed by the folder and a restart.
    """

    effects = frozenset({"outage", "crash", "connections"})
    targets = frozenset({"leader_of", "follower_of"})
    needs = frozenset({"limit_disk", "start"})
    kind: Literal["disk.limit"]
    free: Size = Field(0, description="bytes by which the log may still grow")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that a folder that is lost has no room."""
        yield from super().problems(setup, where)
        if self.free and data_folders(setup.cluster.config):
            yield f"{where}.free: with several data folders the folder is lost as a whole; leave free out"

    @property
    def needed(self) -> frozenset[str]:
        """A broker that lives on without a folder is stopped to get it back."""
        return self.needs | {"stop"}


class DiskLimit(BrokerFault[DiskLimitSpec], spec=DiskLimitSpec):
    """A log that cannot grow. Proof: the broker ended at a failed append, and left the partition's ISR.

    Of the only broker, it is enough that it ended: no other one takes it out of the ISR.

    Proof with several data folders: the broker itself reports that the folder failed, and left the partition's ISR. It
    ends with the last folder.
    """

    _partition: TopicPartition
    _folder = ""
    """The name of the folder that was lost; empty if the broker has one folder."""
    _restarted = False

    def _inject(self, world: World) -> str:
        self._partition = TopicPartition.parse(self.spec.target.selector[1])
        disk = able(world.cluster, LimitDisk)
        if data_folders(world.scenario.cluster.config):
            self.begun = True
            self._folder = disk.fail_folder(self.broker, self._partition)
            return f"took the data folder {self._folder} away from {self.resolved}, which has {self._partition} in it"
        self.begun = True
        limit = disk.limit_disk(self.broker, self._partition, self.spec.free)
        return f"no file of {self.resolved} can grow beyond {limit} bytes, the log of {self._partition}"

    def _effect(self, world: World) -> str | None:
        """Check that the broker ended: Kafka exits when its last log directory has a write error."""
        from chaos.kafka.client import log_dirs

        if is_only(self.broker, world) and not world.cluster.broker_alive(self.broker):
            return f"{self.resolved} ended: it could not append to its log; it is the only one"
        now = world.observer.partition(self._partition)
        if now is None or self.broker in (now.leader, *now.isr):
            return None
        state = f"{self._partition} is led by {now.leader} with ISR {list(now.isr)}"
        if not world.cluster.broker_alive(self.broker):
            return f"{self.resolved} ended: it could not append to its log; {state}"
        found = (log_dirs(world.kafka, self.broker) or []) if self._folder else []
        error = next((f.error for f in found if PurePath(f.path).name == self._folder), "")
        return f"{self.resolved} lives on without its folder {self._folder} ({error}); {state}" if error else None

    def _undo(self, world: World) -> str:
        disk = able(world.cluster, LimitDisk)
        if data_folders(world.scenario.cluster.config):
            disk.mend_folders(self.broker)
            if not self._restarted and world.cluster.broker_alive(self.broker):
                able(world.cluster, Stop).stop_broker(self.broker)
            self._restarted = True
            start_down([self.broker], world)
            return f"{self.resolved} started with all its folders"
        disk.unlimit_disk(self.broker)
        start_down([self.broker], world)
        return f"the files of {self.resolved} can grow again"


class DiskSlowSpec(FaultSpec):
    """Let the writes of nodes to their data take longer, or their flushes; healed by the former speed.

    The thread that writes or flushes waits before the file changes. Each write counts, whatever its size. Reads, and
    indexes that are mapped into memory, are as fast as ever.
    """

    effects = frozenset({"outage", "late", "connections"})
    left_out = "changes times; leader-gray is its like"
    targets = BROKER_TARGETS | CONTROLLER_TARGETS
    hits_controllers = True
    needs = frozenset({"slow_disk"})
    example = "fsync=200ms"
    kind: Literal["disk.slow"]
    write: Duration | None = Field(None, description="additional time of each write, such as 50ms")
    fsync: Duration | None = Field(None, description="additional time of each fsync and msync, such as 200ms")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the delays can be proven."""
        yield from super().problems(setup, where)
        given = {key: value for key, value in (("write", self.write), ("fsync", self.fsync)) if value is not None}
        if not given:
            yield f"{where}: a slow disk delays something; give write, fsync, or both, such as write: 50ms"
        for key, value in given.items():
            if value < LEAST_DELAY_S:
                yield (
                    f"{where}.{key}: {format_duration(value)} is no longer than the delays of a loaded machine; "
                    f"give {format_duration(LEAST_DELAY_S)} or more"
                )
            if value > MOST_DELAY_S:
                yield (
                    f"{where}.{key}: a disk that takes {format_duration(value)} hangs, and cannot be observed in time; "
                    f"give {format_duration(MOST_DELAY_S)} or less, or use broker.pause"
                )
        if given and self.fsync is None and self.target.picks_controllers and setup.cluster.controllers:
            yield (
                f"{where}.write: a dedicated controller reports how long it flushes its log, not how long it writes; "
                "give fsync too"
            )


@dataclass(frozen=True)
class Began:
    """What a node had measured, and what of its writes was delayed, directly before the injection."""

    reading: Reading
    delayed: Delayed


class DiskSlow(BrokerFault[DiskSlowSpec], spec=DiskSlowSpec):
    """Writes and flushes that take longer. Proof: the times that the node itself reports since the injection.

    Its metrics are the times for Produce requests (LocalTimeMs), spent on the append, and for flushes of segments
    (LogFlushRateAndTimeMs). Their means have to exceed those before the fault by most of the delays. So that there is
    something to measure, the fault writes single records to a topic with its only replica at the broker. A dedicated
    controller flushes its log anyway. The heal waits until the times have fallen.
    """

    _normal: dict[int, Reading]
    """What each node measured before the fault."""
    _start: dict[int, Began]
    _refusal: str | None = None
    """The last answer to a write of the fault; None if that is written."""
    _after = ""
    """The times of the nodes after the heal, once they have fallen."""

    @property
    def _delays(self) -> Delays:
        return Delays(self.spec.write or 0.0, self.spec.fsync or 0.0)

    def _inject(self, world: World) -> str:
        disks = able(world.cluster, SlowDisk)
        if slow := [node_name(node, world) for node in self.brokers if disks.disk_delays(node) != FAST]:
            raise FaultError(
                f"another fault has slowed the disk of {', '.join(slow)}; let this one begin after its heal"
            )
        self._normal = {node: self._measure_before(node, world) for node in self.brokers}
        self._start = {node: Began(_answered(node, world), disks.delayed_writes(node)) for node in self.brokers}
        self.begun = True
        for node in self.brokers:
            disks.slow_disk(node, self._delays)
        delays = [f"each {key} takes {format_duration(value)} more" for key, value in self._given()]
        before = "; ".join(f"{node_name(node, world)} took {_shown(self._normal[node])}" for node in self.brokers)
        return f"slowed the disk of {self.resolved}: {', '.join(delays)} (before: {before})"

    def _given(self) -> list[tuple[str, float]]:
        return [(key, value) for key, value in (("write", self.spec.write), ("fsync", self.spec.fsync)) if value]

    def _measure_before(self, node: int, world: World) -> Reading:
        """Return the times of a node before the fault. Raises `FaultError` if it reports none."""
        from chaos.kafka.raw_producer import create_probe

        silent = f"{node_name(node, world)} reports no times of requests and flushes, so its disk cannot be observed"

        def why() -> str:
            return f"{silent}; it answers a write with: {self._refusal}" if self._refusal else silent

        if _takes_records(node):
            create_probe(world.kafka, _topic(node), node)
        found = []
        for _ in range(SERIES if _takes_records(node) else 1):  # the first requests to a new topic take longer
            first = _answered(node, world)
            found.append(targets.answer(partial(self._measure, node, first, world), why, NORMAL_TIMEOUT_S))
        return min(found, key=lambda reading: sum(meter.mean_s for meter, _ in self._meters(node, reading)))

    def _measure(self, node: int, since: Reading, world: World) -> Reading | None:
        """Let a node write, and return what it has measured since a reading; None if that is too little for a mean."""
        from chaos.kafka.raw_producer import probe

        if _takes_records(node):
            delays = self._delays
            timeout_s = ANSWER_S + delays.write_s + FLUSHED_FILES * delays.sync_s
            self._refusal = probe(world.kafka, _topic(node), node, timeout_s)
        reading = _fresh(node, world)
        if reading is None:
            return None
        measured = reading.since(since)
        return measured if all(meter.count >= LEAST_MEASURED for meter, _ in self._meters(node, measured)) else None

    def _meters(self, node: int, reading: Reading) -> list[tuple[Meter, float]]:
        """Return each meter of a node that a delay raises, with this delay in seconds."""
        found = [(reading.flush, self.spec.fsync or 0.0)]
        if _takes_records(node):
            found.append((reading.produce, self.spec.write or 0.0))
        return [(meter, delay_s) for meter, delay_s in found if delay_s]

    def _risen(self, node: int, measured: Reading) -> list[float]:
        """Return by which share of each delay the times of a node exceed those before the fault."""
        both = zip(self._meters(node, self._normal[node]), self._meters(node, measured), strict=True)
        return [(now.mean_s - before.mean_s) / delay_s for (before, _), (now, delay_s) in both]

    def _effect(self, world: World) -> str | None:
        """Let each node write, and compare its times since the injection with those before it."""
        texts = []
        for node in self.brokers:
            start = self._start[node]
            measured = self._measure(node, start.reading, world)
            now = able(world.cluster, SlowDisk).delayed_writes(node)
            writes, syncs = now.writes - start.delayed.writes, now.syncs - start.delayed.syncs
            if measured is None or (self.spec.write and not writes) or (self.spec.fsync and not syncs):
                return None
            if min(self._risen(node, measured)) < LEAST_SHARE:
                return None
            texts.append(f"{node_name(node, world)} took {_shown(measured)} ({writes} writes, {syncs} fsyncs delayed)")
        return f"by their own metrics, {'; '.join(texts)}"

    def _undo(self, world: World) -> str:
        from chaos.kafka.raw_producer import remove_probe

        for node in self.brokers:
            able(world.cluster, SlowDisk).slow_disk(node, FAST)
        if not self._after:
            self._after = "; ".join(self._ended(node, world) for node in self.brokers)
            for node in filter(_takes_records, self.brokers):
                remove_probe(world.kafka, _topic(node))
        return f"the disk of {self.resolved} is as fast as before: {self._after}"

    def _ended(self, node: int, world: World) -> str:
        """Wait until the times of a node have fallen, and describe them. Raises `FaultError` if they stay."""
        name, last = node_name(node, world), Reading(0, 0)

        def fast() -> bool:
            nonlocal last
            since = _fresh(node, world)
            if since is None:
                return not world.cluster.broker_alive(node)
            with contextlib.suppress(WaitTimeout):
                last = wait_until(lambda: self._measure(node, since, world), FRESH_TIMEOUT_S, "", every_s=0.05) or last
                return max(self._risen(node, last)) < ENDED_SHARE
            return False

        try:
            wait_until(fast, ENDED_TIMEOUT_S, "", every_s=0.1)
        except WaitTimeout:
            if last.process:
                raise FaultError(
                    f"the disk of {name} is not slowed any more, but it still took {_shown(last)}"
                ) from None
        return f"{name} took {_shown(last)}" if last.process else f"{name} reports no times now"


def _topic(node: int) -> str:
    """Return the name of the topic to which the fault lets a broker write."""
    return f"aftershock-disk-{node}"


def _takes_records(node: int) -> bool:
    """Return whether a node is a broker, and no dedicated controller."""
    return node < FIRST_CONTROLLER


def _fresh(node: int, world: World) -> Reading | None:
    """Return times that a node has read after this call; None if it reports none, such as one that is down."""
    disks = able(world.cluster, SlowDisk)
    before = disks.meter(node)

    def later() -> Reading | None:
        now = disks.meter(node)  # the next one may have been read before this call, in part
        started = before is None or now is None or now.process != before.process
        return now if started or (now and before and now.number >= before.number + 2) else None

    try:
        return wait_until(later, FRESH_TIMEOUT_S, "", every_s=0.05)
    except WaitTimeout:
        return None


def _answered(node: int, world: World) -> Reading:
    """Return the times of a node before the fault. Raises `FaultError` if it reports none."""
    reading = _fresh(node, world)
    if reading is None:
        raise FaultError(f"{node_name(node, world)} reports no times of its requests, so its disk cannot be observed")
    return reading


def _shown(reading: Reading) -> str:
    """Return the mean times of a reading."""
    meters = (("request to write", reading.produce), ("flush", reading.flush))
    parts = [f"{1000 * m.mean_s:.1f} ms for a {name} (mean of {m.count})" for name, m in meters if m.count]
    return " and ".join(parts) or "no time"


class BrokerThrottleSpec(FaultSpec):
    """Limit a broker to a part of a CPU; healed by its former limit."""

    effects = frozenset({"outage", "late", "connections"})
    left_out = "only containers have a limited CPU"
    example = "cpus=0.1"
    needs = frozenset({"throttle"})
    kind: Literal["broker.throttle"]
    cpus: float = Field(gt=0, description="CPUs that are left, such as 0.05")


class BrokerThrottle(BrokerFault[BrokerThrottleSpec], spec=BrokerThrottleSpec):
    """Limit a broker to a part of a CPU. Proof: the kernel counts the time that the broker waited for the CPU."""

    _waited_s: float

    def _inject(self, world: World) -> str:
        cluster = able(world.cluster, Throttle)
        self._waited_s = cluster.throttled_s(self.broker)
        self.begun = True
        cluster.throttle_broker(self.broker, self.spec.cpus)
        return f"limited {self.resolved} to {self.spec.cpus:g} of a CPU"

    def _effect(self, world: World) -> str | None:
        waited_s = able(world.cluster, Throttle).throttled_s(self.broker) - self._waited_s
        return f"{self.resolved} waited {waited_s:.1f} s for the CPU" if waited_s >= MIN_WAIT_S else None

    def _undo(self, world: World) -> str:
        able(world.cluster, Throttle).unthrottle_broker(self.broker)
        return f"{self.resolved} has its CPU back"


class BrokerOomSpec(FaultSpec):
    """Use up a broker's memory until the kernel kills it (set cluster.memory); healed by a start."""

    effects = frozenset({"outage", "crash", "connections"})
    left_out = "only containers have a limited memory"
    needs = frozenset({"exhaust_memory", "start"})
    limit = ("memory", "the memory that is used up")
    kind: Literal["broker.oom"]


class BrokerOom(BrokerKill, spec=BrokerOomSpec):
    """Exhaust the memory of a broker. Proof: the kernel reports that it killed the broker for lack of memory."""

    def _take_down(self, world: World) -> None:
        able(world.cluster, ExhaustMemory).exhaust_memory(self.broker)

    def _effect(self, world: World) -> str | None:
        """Ask the container engine, which has the exit reason from the kernel."""
        killed = able(world.cluster, ExhaustMemory).killed_for_memory(self.broker)
        return f"the kernel killed {self.resolved} for lack of memory" if killed else None


class DiskFillSpec(FaultSpec):
    """Fill a broker's disk (set cluster.disk); healed by freeing space, and by a start if the broker went down."""

    effects = frozenset({"outage", "crash", "connections"})
    left_out = "only containers have a limited disk; leader-disk-full is its like"
    needs = frozenset({"fill_disk", "start"})
    limit = ("disk", "the size of the disk that is filled")
    kind: Literal["disk.fill"]
    free: Size = Field(0, description="bytes that are left")


class DiskFill(BrokerFault[DiskFillSpec], spec=DiskFillSpec):
    """Fill a broker's disk. Proof: the broker ended at a failed append."""

    def _inject(self, world: World) -> str:
        cluster, self.begun = able(world.cluster, FillDisk), True
        cluster.fill_disk(self.broker, self.spec.free)
        return f"filled the disk of {self.resolved}; {cluster.disk_room(self.broker)} bytes are free"

    def _effect(self, world: World) -> str | None:
        """Check that the broker ended: Kafka exits when its last log directory has a write error."""
        if world.cluster.broker_alive(self.broker):
            return None
        return f"{self.resolved} ended: it could not append to its log"

    def _undo(self, world: World) -> str:
        able(world.cluster, FillDisk).free_disk(self.broker)
        start_down([self.broker], world)
        return f"{self.resolved} has space again"


FAULTS: dict[str, type[Fault[Any]]] = {
    "broker.wipe": BrokerWipe,
    "log.truncate": LogTruncate,
    "disk.limit": DiskLimit,
    "disk.slow": DiskSlow,
    "broker.throttle": BrokerThrottle,
    "broker.oom": BrokerOom,
    "disk.fill": DiskFill,
}
