"""Faults of brokers: death, and silence."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from chaos.cluster import Kill, Pause, Start, able
from chaos.errors import AftershockError, FaultError
from chaos.faults import probe, targets
from chaos.faults.world import World
from chaos.kafka import NO_LEADER
from chaos.scenario.faults import FaultSpec


@dataclass
class BrokerKill:
    """SIGKILL. Proof: a partition that the broker led has another leader or a higher leader epoch.

    A broker that led nothing proves its death by vanishing from the metadata.
    """

    spec: FaultSpec
    resolved: str = ""
    broker: int = 0
    _led: dict[str, int] = field(default_factory=dict)

    def inject(self, world: World) -> str:
        """Kill the target; what it led, with the epochs then, is kept for the proof."""
        self.broker = targets.broker(self.spec.target, world)
        self.resolved = f"broker {self.broker}"
        self._led = _led_by(self.broker, world)
        self.take_down(world)
        return f"killed {self.resolved}, the leader of {_some(list(self._led)) or 'no partition'}"

    def take_down(self, world: World) -> None:
        """How it dies."""
        able(world.cluster, Kill).kill_broker(self.broker)

    def proof(self, world: World) -> str | None:
        """Wait for the target's own partition where it names one, else for any that the broker led."""
        named = self.spec.target.leader_of
        for partition in [named] if named else list(self._led):
            before, now = self._led.get(partition), world.observer.partition(partition)
            if before is None or now is None or now.leader == NO_LEADER or now.leader_epoch <= before:
                continue
            epochs = f"leader epoch {before} to {now.leader_epoch}"
            return f"{partition} went from leader {self.broker} to {now.leader}, {epochs}"
        metadata = world.observer.metadata
        if not self._led and metadata and self.broker not in metadata.brokers:
            return f"{self.resolved} is gone from the metadata"
        return None

    def heal(self, world: World) -> str:
        """Start the broker again on its old disk."""
        if not self.broker:
            return "nothing to heal"
        if not world.cluster.broker_alive(self.broker):
            able(world.cluster, Start).start_broker(self.broker)
        return f"broker {self.broker} is back"


@dataclass
class CoordinatorKill(BrokerKill):
    """SIGKILL the group's coordinator. Proof: FindCoordinator names another broker, or the same one after a refusal."""

    _refused: bool = False

    def inject(self, world: World) -> str:
        """Kill the coordinator."""
        super().inject(world)
        return f"killed {self.resolved}, the coordinator of group {self.spec.target.coordinator_of}"

    def proof(self, world: World) -> str | None:
        """Ask for the coordinator, as a client would."""
        group = str(self.spec.target.coordinator_of)
        coordinator = world.kafka.coordinator(group)
        if coordinator is None:
            self._refused = True
            return None
        if coordinator != self.broker:
            return f"the coordinator of {group} went from broker {self.broker} to {coordinator}"
        return f"broker {self.broker} refused and coordinates {group} again" if self._refused else None


@dataclass
class BrokerPause:
    """SIGSTOP. Proof: brokers that answered before accept a connection and leave a request unanswered."""

    spec: FaultSpec
    resolved: str = ""
    _brokers: list[int] = field(default_factory=list)
    _answered: dict[int, float] = field(default_factory=dict)

    def inject(self, world: World) -> str:
        """Ask each target once, then stop it."""
        chosen = targets.brokers(self.spec.target, world)
        self.resolved = ", ".join(f"broker {b}" for b in chosen)
        self._answered = {b: probe.answered(b, world) for b in chosen}
        for broker in chosen:
            self._brokers.append(broker)
            able(world.cluster, Pause).pause_broker(broker)
        return f"stopped {self.resolved}"

    def proof(self, world: World) -> str | None:
        """Every target leaves a request unanswered; all are asked at once, for the silence may be short."""
        if not self._brokers:
            return None
        with ThreadPoolExecutor(len(self._brokers)) as pool:
            if not all(pool.map(lambda b: probe.is_silent(b, world.cluster, world.access), self._brokers)):
                return None
        before = max(self._answered.values()) * 1000
        return (
            f"{self.resolved} left a request unanswered for {probe.SILENCE_S:g} s (before: answered in {before:.0f} ms)"
        )

    def heal(self, world: World) -> str:
        """Continue whatever was stopped."""
        for broker in self._brokers:
            with contextlib.suppress(AftershockError):  # killed meanwhile by another fault: its heal starts it
                able(world.cluster, Pause).resume_broker(broker)
        return f"{self.resolved} goes on" if self._brokers else "nothing to heal"


def _led_by(broker: int, world: World) -> dict[str, int]:
    """The partitions of the scenario's topics that a broker leads now, with their leader epochs."""
    metadata = world.kafka.metadata()
    topics = {t.name for t in world.scenario.topics}
    if metadata is None:
        raise FaultError("no broker answers, so it is not known what the target leads")
    return {
        name: state.leader_epoch
        for name, state in sorted(metadata.partitions.items())
        if state.leader == broker and name.rpartition("/")[0] in topics
    }


def _some(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
