"""Faults of a broker's resources: CPU, memory, disk space."""

from __future__ import annotations

from chaos.cluster.api import ExhaustMemory, FillDisk, Throttle, able
from chaos.faults import targets
from chaos.faults.base import Fault
from chaos.faults.broker import BrokerKill
from chaos.faults.brokers import start_down
from chaos.faults.world import World
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
