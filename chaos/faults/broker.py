"""Faults of brokers: death, an orderly end, and silence."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from chaos.cluster.api import Kill, Pause, Start, Stop, able
from chaos.errors import AftershockError, FaultError, WaitTimeout
from chaos.faults import probe, targets
from chaos.faults.world import World
from chaos.kafka.client import NO_LEADER
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.broker import BrokerPause as BrokerPauseSpec
from chaos.scenario.faults.broker import Cycle
from chaos.wait import wait_until

HANDED_OVER_S = 2.0
"""How soon after its exit the metadata shows what a stopped broker had handed over: far less than a session lasts."""
WAITED_SHARE, WAITED_AT_LEAST_S = 0.3, 0.1
"""How long a request to a broker that pauses in turns must have waited: a part of the pause, and no mere hiccup."""


@dataclass
class BrokerKill:
    """SIGKILL. Proof: a partition that the broker led has another leader or a higher leader epoch.

    Brokers that led nothing, or that are several, prove their death by vanishing from the metadata.
    """

    spec: FaultSpec
    resolved: str = ""
    brokers: list[int] = field(default_factory=list)
    _led: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def broker(self) -> int:
        """The broker that was hit, or the first of them; 0 before the injection."""
        return self.brokers[0] if self.brokers else 0

    def inject(self, world: World) -> str:
        """Kill the target; what it led, with the epochs then, is kept for the proof."""
        self.brokers = targets.brokers(self.spec.target, world)
        self.resolved = ", ".join(f"broker {b}" for b in self.brokers)
        self._led = {name: epoch for b in self.brokers for name, epoch in led_by(b, world).items()}
        self.take_down(world)
        return f"killed {self.resolved}, the leader of {_some(list(self._led)) or 'no partition'}"

    def take_down(self, world: World) -> None:
        """How it dies."""
        for broker in self.brokers:
            able(world.cluster, Kill).kill_broker(broker)

    def proof(self, world: World) -> str | None:
        """Wait for the target's own partition where it names one, else for any that the broker led."""
        if not self.brokers:
            return None
        named = self.spec.target.leader_of
        for partition in [TopicPartition.parse(named)] if named else list(self._led):
            before, now = self._led.get(partition), world.observer.partition(partition)
            if before is None or now is None or now.leader == NO_LEADER or now.leader_epoch <= before:
                continue
            epochs = f"leader epoch {before} to {now.leader_epoch}"
            return f"{partition} went from leader {self.broker} to {now.leader}, {epochs}"
        metadata = world.observer.metadata
        if not self._led and metadata and not set(self.brokers) & set(metadata.brokers):
            return f"{self.resolved} {'is' if len(self.brokers) == 1 else 'are'} gone from the metadata"
        return None

    def heal(self, world: World) -> str:
        """Start the brokers again on their old disks; all at once, for alone they may be no quorum."""
        if not self.brokers:
            return "nothing to heal"
        if down := [b for b in self.brokers if not world.cluster.broker_alive(b)]:
            able(world.cluster, Start).start_brokers(down)
        return f"{self.resolved} {'is' if len(self.brokers) == 1 else 'are'} back"


@dataclass
class BrokerStop(BrokerKill):
    """SIGTERM: controlled shutdown. Proof: what it led had other leaders when it was gone, with no session run out."""

    def inject(self, world: World) -> str:
        """Stop the target."""
        super().inject(world)
        return f"stopped {self.resolved}, the leader of {_some(list(self._led)) or 'no partition'}"

    def take_down(self, world: World) -> None:
        """In order."""
        for broker in self.brokers:
            stop_in_order(broker, world)


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
class ControllerKill(BrokerKill):
    """SIGKILL the active controller. Proof: another broker is the active controller, or the epoch is higher."""

    _epoch: int = 0

    def inject(self, world: World) -> str:
        """Kill the controller."""
        _, self._epoch = targets.controller(world)
        super().inject(world)
        return f"killed {self.resolved}, the active controller in epoch {self._epoch}"

    def proof(self, world: World) -> str | None:
        """Ask the quorum."""
        found = world.kafka.controller() if self.brokers else None
        if found is None or (found[0] == self.broker and found[1] <= self._epoch):
            return None
        epochs = f", epoch {self._epoch} to {found[1]}" if found[1] else ""
        return f"the active controller went from {self.broker} to {found[0]}{epochs}"


@dataclass
class BrokerPause:
    """SIGSTOP. Proof: brokers that answered before accept a connection and leave a request unanswered.

    One that pauses in turns answers in between: there the proof is a request that waited for a good part of a pause.
    """

    spec: FaultSpec
    resolved: str = ""
    _brokers: list[int] = field(default_factory=list)
    _answered: dict[int, float] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _turns: threading.Thread | None = None

    def inject(self, world: World) -> str:
        """Ask each target once, then stop it."""
        assert isinstance(self.spec, BrokerPauseSpec)
        chosen = targets.brokers(self.spec.target, world)
        self.resolved = ", ".join(f"broker {b}" for b in chosen)
        self._answered = {b: probe.answered(b, world) for b in chosen}
        for broker in chosen:
            self._brokers.append(broker)
            able(world.cluster, Pause).pause_broker(broker)
        if self.spec.cycle is None:
            return f"stopped {self.resolved}"
        self._turns = threading.Thread(target=self._take_turns, args=(world, self.spec.cycle), daemon=True)
        self._turns.start()
        cycle = self.spec.cycle
        return f"stopped {self.resolved} for {cycle.paused:g} s, then again after every {cycle.running:g} s"

    def _take_turns(self, world: World, cycle: Cycle) -> None:
        """Until it is over; a broker that was killed meanwhile by another fault is left alone."""
        can = able(world.cluster, Pause)
        while not self._over.wait(cycle.paused):
            self._each(can.resume_broker)
            if self._over.wait(cycle.running):
                return
            self._each(can.pause_broker)

    def _each(self, act: Callable[[int], None]) -> None:
        for broker in self._brokers:
            with contextlib.suppress(AftershockError):
                act(broker)

    def proof(self, world: World) -> str | None:
        """Every target leaves a request unanswered; all are asked at once, for the silence may be short."""
        assert isinstance(self.spec, BrokerPauseSpec)
        if not self._brokers:
            return None
        if self.spec.cycle is not None:
            return self._waited(world, self.spec.cycle)
        with ThreadPoolExecutor(len(self._brokers)) as pool:
            if not all(pool.map(lambda b: probe.is_silent(b, world.cluster, world.access), self._brokers)):
                return None
        before = max(self._answered.values()) * 1000
        return (
            f"{self.resolved} left a request unanswered for {probe.SILENCE_S:g} s (before: answered in {before:.0f} ms)"
        )

    def _waited(self, world: World, cycle: Cycle) -> str | None:
        least = max(WAITED_AT_LEAST_S, WAITED_SHARE * cycle.paused)
        took = {b: probe.waited_s(b, cycle.paused + 5.0, world) for b in self._brokers}
        if any(seconds is None or seconds < max(least, self._answered[b]) for b, seconds in took.items()):
            return None
        waited = max(seconds for seconds in took.values() if seconds is not None)
        before = max(self._answered.values()) * 1000
        return f"a request to {self.resolved} waited {waited:.1f} s (before: answered in {before:.0f} ms)"

    def heal(self, world: World) -> str:
        """Continue whatever was stopped."""
        self._over.set()
        if self._turns is not None:
            self._turns.join()
        # one that was killed meanwhile by another fault: its heal starts it
        self._each(able(world.cluster, Pause).resume_broker)
        return f"{self.resolved} goes on" if self._brokers else "nothing to heal"


def led_by(broker: int, world: World) -> dict[TopicPartition, int]:
    """The partitions of the scenario's topics that a broker leads now, with their leader epochs."""
    metadata = world.kafka.metadata()
    topics = {t.name for t in world.scenario.topics}
    if metadata is None:
        raise FaultError("no broker answers, so it is not known what the target leads")
    return {
        name: state.leader_epoch
        for name, state in sorted(metadata.partitions.items())
        if state.leader == broker and name.topic in topics
    }


def stop_in_order(broker: int, world: World) -> list[TopicPartition]:
    """Stop a broker, and see that what it led has other leaders by then; returns that.

    Raises `FaultError` where it has not: the broker was not let go in order, and its session has to run out.
    """
    led = led_by(broker, world)
    able(world.cluster, Stop).stop_broker(broker)

    def kept() -> list[TopicPartition]:
        metadata = world.kafka.metadata()
        states = metadata.partitions if metadata else {}
        return [name for name, epoch in led.items() if name not in states or states[name].leader_epoch <= epoch]

    try:
        wait_until(lambda: not kept(), HANDED_OVER_S, lambda: _some(kept()))
    except WaitTimeout as e:
        raise FaultError(f"broker {broker} ended, but still leads {e}: that was no controlled shutdown") from None
    return sorted(led)


def _some(names: Sequence[TopicPartition], most: int = 4) -> str:
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
