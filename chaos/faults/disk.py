"""Faults of a broker's disk on plain processes: replaced, cut short by a loss of power, and not growing any more."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.cluster.api import CutLog, Kill, LimitDisk, Start, Wipe, able
from chaos.cluster.process.log_files import Tail
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.broker import BrokerKill
from chaos.faults.world import World
from chaos.kafka.client import NO_LEADER
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.broker import DiskLimit as DiskLimitSpec
from chaos.scenario.faults.broker import LogTruncate as LogTruncateSpec


@dataclass
class BrokerWipe(BrokerKill):
    """SIGKILL, and an empty disk. Proof: its death as of any killed broker, and a disk without a replica."""

    _before: int = 0

    def inject(self, world: World) -> str:
        """Kill it, and take its disk away."""
        super().inject(world)
        return f"killed {self.resolved} and wiped its disk, which held {self._before} replicas"

    def take_down(self, world: World) -> None:
        """The disk goes while nobody writes to it."""
        disk = able(world.cluster, Wipe)
        self._before = disk.replicas_on_disk(self.broker)
        if not self._before:
            raise FaultError(f"{self.resolved} has no replica on its disk that could be lost")
        super().take_down(world)
        disk.wipe_disk(self.broker)

    def proof(self, world: World) -> str | None:
        """Dead, and empty until it is started again."""
        died = super().proof(world)
        if died is None or world.cluster.broker_alive(self.broker):
            return None
        left = able(world.cluster, Wipe).replicas_on_disk(self.broker)
        return f"{died}; of {self._before} replicas on its disk none is left" if left == 0 else None


@dataclass
class LogTruncate:
    """Power loss: SIGKILL, and the tail of the partition's log gone.

    Proof where every replica lost it: the next leader tells that the leader epoch of then ended before the offset that
    had been reached. Where one did: another broker leads the partition, and the ISR is without it (a replica that comes
    back catches up at once, so that nobody outside of it sees where its log had ended).
    """

    spec: FaultSpec
    resolved: str = ""
    _brokers: list[int] = field(default_factory=list)
    _tails: dict[int, Tail] = field(default_factory=dict)
    _partition: TopicPartition = field(init=False, repr=False)
    _whole_isr: bool = False
    _epoch: int = 0
    _end: int = 0

    def inject(self, world: World) -> str:
        """Kill the targets at once, then cut."""
        assert isinstance(self.spec, LogTruncateSpec)
        ((_, name),) = self.spec.target.given().items()
        self._partition = TopicPartition.parse(name)
        chosen = targets.brokers(self.spec.target, world)
        state = targets.partition(self._partition, world)
        self._whole_isr, self._epoch = set(chosen) >= set(state.isr), state.leader_epoch
        self.resolved = ", ".join(f"broker {b}" for b in chosen)
        disk = able(world.cluster, CutLog)
        self._end = world.kafka.end_offsets([self._partition]).get(self._partition, 0)
        for broker in chosen:
            self._brokers.append(broker)
            able(world.cluster, Kill).kill_broker(broker)
        for broker in chosen:
            self._tails[broker] = disk.cut_log(broker, self._partition, self.spec.records)
        if empty := [b for b, tail in self._tails.items() if tail.start == tail.end]:
            raise FaultError(f"nothing of {self._partition} was unflushed on broker {', '.join(map(str, empty))}")
        cut = "; ".join(f"broker {b}: offsets {t.start} to {t.end - 1}" for b, t in self._tails.items())
        return f"power loss at {self.resolved}: {self._partition} lost what was not flushed ({cut})"

    def proof(self, world: World) -> str | None:
        """What the partition's leader says now."""
        if not self._brokers or len(self._tails) < len(self._brokers):
            return None
        now = world.observer.partition(self._partition)
        if self._whole_isr:
            end = world.kafka.epoch_end(self._partition, self._epoch)
            if now is None or now.leader_epoch <= self._epoch or end is None or end >= self._end:
                return None
            was = f"leader epoch {self._epoch} ends at offset {end}, though {self._end} had been reached"
            return f"{self._partition} is in leader epoch {now.leader_epoch}, and in its log {was}"
        if now is None or now.leader in (*self._brokers, NO_LEADER) or set(self._brokers) & set(now.isr):
            return None
        words = "; ".join(f"broker {b} had {t.end - t.start} offsets cut off" for b, t in self._tails.items())
        return f"{self._partition} is led by {now.leader} with ISR {list(now.isr)}; {words}"

    def heal(self, world: World) -> str:
        """Power on: start them all at once."""
        if not self._brokers:
            return "nothing to heal"
        if down := [b for b in self._brokers if not world.cluster.broker_alive(b)]:
            able(world.cluster, Start).start_brokers(down)
        return f"{self.resolved} back with what the disk had"


@dataclass
class DiskLimit:
    """A log that cannot grow. Proof: the broker went down on an append that failed, and left the partition's ISR."""

    spec: FaultSpec
    resolved: str = ""
    _broker: int = 0
    _partition: TopicPartition = field(init=False, repr=False)

    def inject(self, world: World) -> str:
        """Limit its files to what the partition's log has now, and a little."""
        assert isinstance(self.spec, DiskLimitSpec)
        ((_, name),) = self.spec.target.given().items()
        self._partition = TopicPartition.parse(name)
        broker = targets.broker(self.spec.target, world)
        self.resolved = f"broker {broker}"
        disk = able(world.cluster, LimitDisk)
        self._broker = broker
        limit = disk.limit_disk(broker, self._partition, self.spec.free)
        return f"no file of {self.resolved} can grow beyond {limit} bytes, the log of {self._partition}"

    def proof(self, world: World) -> str | None:
        """Kafka takes a log directory that cannot be written out of service, and ends where it has no other."""
        now = world.observer.partition(self._partition) if self._broker else None
        if now is None or world.cluster.broker_alive(self._broker) or self._broker in (now.leader, *now.isr):
            return None
        words = f"{self.resolved} ended: it could not append to its log"
        return f"{words}; {self._partition} is led by {now.leader} with ISR {list(now.isr)}"

    def heal(self, world: World) -> str:
        """Lift the limit, and start the broker again if it went down."""
        if not self._broker:
            return "nothing to heal"
        able(world.cluster, LimitDisk).unlimit_disk(self._broker)
        if not world.cluster.broker_alive(self._broker):
            able(world.cluster, Start).start_broker(self._broker)
        return f"the files of {self.resolved} can grow again"
