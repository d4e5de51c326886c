"""Faults of a broker's resources: CPU, memory, disk space, and the records on its disk."""

from __future__ import annotations

from chaos.cluster.api import CutLog, ExhaustMemory, FillDisk, Kill, LimitDisk, LogTail, Throttle, Wipe, able
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import Fault, World
from chaos.faults.broker import BrokerKill
from chaos.faults.brokers import start_down
from chaos.kafka.metadata_merge import NO_LEADER
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import resources as specs

MIN_WAIT_S = 0.5
"""Minimum additional time that a throttled broker must have waited for the CPU."""


class BrokerThrottle(Fault[specs.BrokerThrottle], spec=specs.BrokerThrottle):
    """Limit a broker to a part of a CPU. Proof: the kernel counts the time that the broker waited for the CPU."""

    _broker = 0
    _waited_s = 0.0

    def inject(self, world: World) -> str:
        """Lower the CPU limit."""
        self._broker = targets.broker(self.spec.target, world)
        self.resolved, cluster = f"broker {self._broker}", able(world.cluster, Throttle)
        self._waited_s = cluster.throttled_s(self._broker)
        self.begun = True
        cluster.throttle_broker(self._broker, self.spec.cpus)
        return f"limited {self.resolved} to {self.spec.cpus:g} of a CPU"

    def effect(self, world: World) -> str | None:
        """Read the waiting time since the injection."""
        waited_s = able(world.cluster, Throttle).throttled_s(self._broker) - self._waited_s
        return f"{self.resolved} waited {waited_s:.1f} s for the CPU" if waited_s >= MIN_WAIT_S else None

    def undo(self, world: World) -> str:
        """Restore the former limit."""
        able(world.cluster, Throttle).unthrottle_broker(self._broker)
        return f"{self.resolved} has its CPU back"


class BrokerOom(BrokerKill, spec=specs.BrokerOom):
    """Exhaust the memory of a broker. Proof: the kernel reports that it killed the broker for lack of memory."""

    def take_down(self, world: World) -> None:
        """Use up the memory of the broker."""
        able(world.cluster, ExhaustMemory).exhaust_memory(self.broker)

    def effect(self, world: World) -> str | None:
        """Ask the container engine, which has the exit reason from the kernel."""
        killed = able(world.cluster, ExhaustMemory).killed_for_memory(self.broker)
        return f"the kernel killed {self.resolved} for lack of memory" if killed else None


class DiskFill(Fault[specs.DiskFill], spec=specs.DiskFill):
    """Fill a broker's disk. Proof: the broker ended at a failed append."""

    _broker = 0

    def inject(self, world: World) -> str:
        """Fill the disk up to `free` bytes."""
        self._broker = targets.broker(self.spec.target, world)
        self.resolved, cluster = f"broker {self._broker}", able(world.cluster, FillDisk)
        self.begun = True
        cluster.fill_disk(self._broker, self.spec.free)
        return f"filled the disk of {self.resolved}; {cluster.disk_room(self._broker)} bytes are free"

    def effect(self, world: World) -> str | None:
        """Check that the broker ended: Kafka exits when its last log directory has a write error."""
        if world.cluster.broker_alive(self._broker):
            return None
        return f"{self.resolved} ended: it could not append to its log"

    def undo(self, world: World) -> str:
        """Free the disk, and start the broker if it is down."""
        able(world.cluster, FillDisk).free_disk(self._broker)
        start_down([self._broker], world)
        return f"{self.resolved} has space again"


class BrokerWipe(BrokerKill, spec=specs.BrokerWipe):
    """SIGKILL and an empty disk. Proof: as for any killed broker, and a disk without a replica."""

    _replicas = 0

    def inject(self, world: World) -> str:
        """Kill the broker and wipe its disk."""
        super().inject(world)
        return f"killed {self.resolved} and wiped its disk, which held {self._replicas} replicas"

    def take_down(self, world: World) -> None:
        """Kill the broker first, so that nothing writes to the disk during the wipe."""
        disk = able(world.cluster, Wipe)
        self._replicas = disk.replicas_on_disk(self.broker)
        if not self._replicas:
            raise FaultError(f"{self.resolved} has no replica on its disk that could be lost")
        super().take_down(world)
        disk.wipe_disk(self.broker)

    def effect(self, world: World) -> str | None:
        """Check that the broker is down and its disk is empty."""
        killed = super().effect(world)
        if killed is None or world.cluster.broker_alive(self.broker):
            return None
        left = able(world.cluster, Wipe).replicas_on_disk(self.broker)
        return f"{killed}; of {self._replicas} replicas on its disk none is left" if left == 0 else None


class LogTruncate(Fault[specs.LogTruncate], spec=specs.LogTruncate):
    """Power loss: SIGKILL, and the unflushed end of the partition's log removed.

    Proof if every replica lost it: the next leader reports that the former leader epoch ended before the offset that
    had been reached. Proof if one replica lost it: another broker leads the partition, and the ISR does not contain the
    replica. (A replica that comes back catches up at once, so other brokers never see where its log ended.)
    """

    def __init__(self, spec: specs.LogTruncate) -> None:
        super().__init__(spec)
        self._partition = TopicPartition.parse(spec.target.selector[1])
        self._brokers: list[int] = []
        self._tails: dict[int, LogTail] = {}
        self._whole_isr = False
        self._epoch = 0
        self._end = 0

    def inject(self, world: World) -> str:
        """Kill all targets, then cut their logs."""
        self._brokers = targets.brokers(self.spec.target, world)
        self.resolved = targets.broker_names(self._brokers)
        state = targets.partition(self._partition, world)
        self._whole_isr, self._epoch = set(self._brokers) >= set(state.isr), state.leader_epoch
        disk = able(world.cluster, CutLog)
        self._end = world.kafka.end_offsets([self._partition]).get(self._partition, 0)
        self.begun = True
        for broker in self._brokers:
            able(world.cluster, Kill).kill_broker(broker)
        self._tails = {broker: disk.cut_log(broker, self._partition, self.spec.records) for broker in self._brokers}
        if empty := [broker for broker, tail in self._tails.items() if tail.start == tail.end]:
            raise FaultError(f"nothing of {self._partition} was unflushed on broker {', '.join(map(str, empty))}")
        cut = "; ".join(f"broker {b}: offsets {tail.start} to {tail.end - 1}" for b, tail in self._tails.items())
        return f"power loss at {self.resolved}: {self._partition} lost its unflushed records ({cut})"

    def effect(self, world: World) -> str | None:
        """Ask the partition's leader for its log."""
        now = world.observer.partition(self._partition)
        if now is None:
            return None
        if self._whole_isr:
            end = world.kafka.epoch_end(self._partition, self._epoch)
            if now.leader_epoch <= self._epoch or end is None or end >= self._end:
                return None
            former = f"leader epoch {self._epoch} ends at offset {end}, though {self._end} had been reached"
            return f"{self._partition} is in leader epoch {now.leader_epoch}, and in its log {former}"
        if now.leader in (*self._brokers, NO_LEADER) or set(self._brokers) & set(now.isr):
            return None
        cuts = "; ".join(f"broker {b} lost {tail.end - tail.start} offsets" for b, tail in self._tails.items())
        return f"{self._partition} is led by {now.leader} with ISR {list(now.isr)}; {cuts}"

    def undo(self, world: World) -> str:
        """Start all targets."""
        start_down(self._brokers, world)
        return f"{self.resolved} back with the records on disk"


class DiskLimit(Fault[specs.DiskLimit], spec=specs.DiskLimit):
    """A log that cannot grow. Proof: the broker ended at a failed append, and left the partition's ISR."""

    def __init__(self, spec: specs.DiskLimit) -> None:
        super().__init__(spec)
        self._partition = TopicPartition.parse(spec.target.selector[1])
        self._broker = 0

    def inject(self, world: World) -> str:
        """Limit the files of the broker to the size of the partition's log plus `free`."""
        self._broker = targets.broker(self.spec.target, world)
        self.resolved = f"broker {self._broker}"
        disk = able(world.cluster, LimitDisk)
        self.begun = True
        limit = disk.limit_disk(self._broker, self._partition, self.spec.free)
        return f"no file of {self.resolved} can grow beyond {limit} bytes, the log of {self._partition}"

    def effect(self, world: World) -> str | None:
        """Check that the broker ended: Kafka exits when its last log directory has a write error."""
        now = world.observer.partition(self._partition)
        if now is None or world.cluster.broker_alive(self._broker) or self._broker in (now.leader, *now.isr):
            return None
        state = f"{self._partition} is led by {now.leader} with ISR {list(now.isr)}"
        return f"{self.resolved} ended: it could not append to its log; {state}"

    def undo(self, world: World) -> str:
        """Lift the limit, and start the broker if it is down."""
        able(world.cluster, LimitDisk).unlimit_disk(self._broker)
        start_down([self._broker], world)
        return f"the files of {self.resolved} can grow again"
