"""Faults of a broker's resources: CPU, memory, disk space, and the records on its disk."""

from __future__ import annotations

from pathlib import PurePath

from chaos.cluster.api import CutLog, ExhaustMemory, FillDisk, Kill, LogTail, Stop, Throttle, Wipe, able
from chaos.cluster.disks import LimitDisk
from chaos.cluster.settings import data_folders
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.brokers import BrokerKill, is_gone
from chaos.faults.targets import BrokerFault, start_down
from chaos.kafka.log_dirs import log_dirs
from chaos.kafka.metadata_merge import NO_LEADER
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import resources as specs
from chaos.scenario.model import Scenario
from chaos.wait import wait_until

FIRST_RECORD_S = 15.0
"""Time for a partition to get its first record: a producer without keys fills one partition after another."""

MIN_WAIT_S = 0.5
"""Minimum additional time that a throttled broker must have waited for the CPU."""


class BrokerThrottle(BrokerFault[specs.BrokerThrottle], spec=specs.BrokerThrottle):
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


class BrokerOom(BrokerKill, spec=specs.BrokerOom):
    """Exhaust the memory of a broker. Proof: the kernel reports that it killed the broker for lack of memory."""

    def _take_down(self, world: World) -> None:
        able(world.cluster, ExhaustMemory).exhaust_memory(self.broker)

    def _effect(self, world: World) -> str | None:
        """Ask the container engine, which has the exit reason from the kernel."""
        killed = able(world.cluster, ExhaustMemory).killed_for_memory(self.broker)
        return f"the kernel killed {self.resolved} for lack of memory" if killed else None


class DiskFill(BrokerFault[specs.DiskFill], spec=specs.DiskFill):
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


class BrokerWipe(BrokerKill, spec=specs.BrokerWipe):
    """SIGKILL and an empty disk. Proof: as for any killed broker, and a disk without a replica.

    The broker may have led only partitions that have no other replica, such as those of `__consumer_offsets`. Then the
    proof is a disk without a replica, and that the other brokers no longer list the broker.
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


_FLUSHES = ("flush.messages", "flush.ms")
_BROKER_FLUSHES = ("log.flush.interval.messages", "log.flush.interval.ms")


def _flushes(scenario: Scenario, topic: str) -> str:
    """Return a setting with which the brokers flush a topic before the system does; empty if there is none."""
    found = [name for name in _FLUSHES if name in scenario.topic(topic).config]
    found += [name for name in _BROKER_FLUSHES if name in scenario.cluster.config]
    return next(iter(found), "")


class LogTruncate(BrokerFault[specs.LogTruncate], spec=specs.LogTruncate):
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


class DiskLimit(BrokerFault[specs.DiskLimit], spec=specs.DiskLimit):
    """A log that cannot grow. Proof: the broker ended at a failed append, and left the partition's ISR.

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
