"""Faults of what a broker lives on: CPU, memory, disk."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.cluster.api import ExhaustMemory, FillDisk, Start, Throttle, able
from chaos.faults import targets
from chaos.faults.broker import BrokerKill
from chaos.faults.world import World
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.resources import BrokerThrottle as BrokerThrottleSpec
from chaos.scenario.faults.resources import DiskFill as DiskFillSpec

WAITED_S = 0.5
"""How much longer a throttled broker must have waited for the CPU to count as slow."""


@dataclass
class BrokerThrottle:
    """Leave a broker a part of a CPU. Proof: the kernel counts the time that it had to wait."""

    spec: FaultSpec
    resolved: str = ""
    _broker: int = 0
    _waited_s: float = 0.0

    def inject(self, world: World) -> str:
        """Lower its limit."""
        assert isinstance(self.spec, BrokerThrottleSpec)
        broker = targets.broker(self.spec.target, world)
        self.resolved, cluster = f"broker {broker}", able(world.cluster, Throttle)
        self._waited_s = cluster.throttled_s(broker)
        self._broker = broker
        cluster.throttle_broker(broker, self.spec.cpus)
        return f"left {self.resolved} {self.spec.cpus:g} of a CPU"

    def proof(self, world: World) -> str | None:
        """It waits."""
        if not self._broker:
            return None
        waited = able(world.cluster, Throttle).throttled_s(self._broker) - self._waited_s
        return f"{self.resolved} waited {waited:.1f} s for the CPU" if waited >= WAITED_S else None

    def heal(self, world: World) -> str:
        """Give it back what it had."""
        if not self._broker:
            return "nothing to heal"
        able(world.cluster, Throttle).unthrottle_broker(self._broker)
        return f"{self.resolved} has its CPU back"


@dataclass
class BrokerOom(BrokerKill):
    """Let a broker run out of memory. Proof: the kernel says that it killed it for that."""

    def take_down(self, world: World) -> None:
        """Use up its memory."""
        able(world.cluster, ExhaustMemory).exhaust_memory(self.broker)

    def proof(self, world: World) -> str | None:
        """Ask the engine, which has it from the kernel."""
        if not self.broker or not able(world.cluster, ExhaustMemory).killed_for_memory(self.broker):
            return None
        return f"the kernel killed {self.resolved} for want of memory"


@dataclass
class DiskFill:
    """Fill a broker's disk. Proof: the broker went down on an append that failed."""

    spec: FaultSpec
    resolved: str = ""
    _broker: int = 0

    def inject(self, world: World) -> str:
        """Leave it no room, or a little."""
        assert isinstance(self.spec, DiskFillSpec)
        broker = targets.broker(self.spec.target, world)
        self.resolved, cluster = f"broker {broker}", able(world.cluster, FillDisk)
        self._broker = broker
        cluster.fill_disk(broker, self.spec.free)
        return f"filled the disk of {self.resolved}; {cluster.disk_room(broker)} bytes are free"

    def proof(self, world: World) -> str | None:
        """Kafka takes a log directory that cannot be written out of service, and ends where it has no other."""
        if not self._broker or world.cluster.broker_alive(self._broker):
            return None
        return f"{self.resolved} ended: it could not append to its log"

    def heal(self, world: World) -> str:
        """Make room, and start it again if it went down."""
        if not self._broker:
            return "nothing to heal"
        able(world.cluster, FillDisk).free_disk(self._broker)
        if not world.cluster.broker_alive(self._broker):
            able(world.cluster, Start).start_broker(self._broker)
        return f"{self.resolved} has room again"
