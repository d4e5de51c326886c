"""Faults of broker processes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import Field

from chaos.cluster.api import Kill, Pause, Start, Stop, able
from chaos.errors import AftershockError
from chaos.faults import targets
from chaos.faults.base import BROKER_TARGETS, ONE_BROKER, Fault, FaultSpec, World
from chaos.faults.targets import BrokerFault, abbreviate, is_gone, led_by, start_down, stop_controlled
from chaos.kafka.metadata import NO_LEADER
from chaos.kafka.partition import TopicPartition
from chaos.run.events import now_us
from chaos.setup.triggers import Strict
from chaos.units import Duration

MIN_WAIT_SHARE, MIN_WAIT_S = 0.3, 0.1
"""Minimum wait of a request to a broker with alternate pauses: a share of the pause, and in seconds."""

IN_SYNC_TIMEOUT_S = 60.0


class BrokerKillSpec(FaultSpec):
    """SIGKILL a broker, all followers of a partition, or a rack; healed by a start with the old disks."""

    effects = frozenset({"outage", "crash", "connections"})
    targets = ONE_BROKER | {"followers_of", "rack"}
    needs = frozenset({"kill", "start"})
    proven_when_back = frozenset({"followers_of", "rack"})
    kind: Literal["broker.kill"]


class BrokerKill(BrokerFault[FaultSpec], spec=BrokerKillSpec):
    """SIGKILL. Proof: a partition that the broker led has another leader or a higher leader epoch.

    A partition without a replica elsewhere has no leader then, in a higher leader epoch.
    If the target led no partition, the proof is that it is no longer in the metadata. If no other broker is there, no
    partition moves: then the proof is that no broker answers.
    """

    damage = "killed"
    _led: dict[TopicPartition, tuple[int, int]]
    """The partitions that the targets led, with the leader and the leader epoch."""

    def _inject(self, world: World) -> str:
        """Kill the targets. Keep the partitions that they led for the proof."""
        led = {broker: led_by(broker, world) for broker in self.brokers}
        self._led = {name: (broker, epoch) for broker in led for name, epoch in led[broker].items()}
        self.begun = True
        self._take_down(world)
        return f"{self.damage} {self.resolved}, {self._describe_role()}"

    def _take_down(self, world: World) -> None:
        """Kill the target brokers."""
        for broker in self.brokers:
            able(world.cluster, Kill).kill_broker(broker)

    def _describe_role(self) -> str:
        """Return the role that the target had."""
        return f"the leader of {abbreviate(list(self._led)) or 'no partition'}"

    def _effect(self, world: World) -> str | None:
        """Look at the partition that the target names, or else at all that the brokers led."""
        if silence := self._silence(world):
            return silence
        named = self.spec.target.leader_of
        for partition in [TopicPartition.parse(named)] if named else list(self._led):
            leader, epoch = self._led.get(partition, (NO_LEADER, NO_LEADER))
            now = world.observer.partition(partition)
            if leader == NO_LEADER or now is None or now.leader_epoch <= epoch:
                continue
            if now.leader == NO_LEADER and not set(now.replicas) <= set(self.brokers):
                continue  # another replica may lead, and what comes after the proof may need that
            after = "none" if now.leader == NO_LEADER else now.leader
            return f"{partition} went from leader {leader} to {after}, leader epoch {epoch} to {now.leader_epoch}"
        metadata = world.observer.metadata
        if not self._led and metadata and not set(self.brokers) & set(metadata.brokers):
            return f"{self.resolved} {self._verb()} gone from the metadata"
        return None

    def _silence(self, world: World) -> str | None:
        """Return what shows that the last brokers are down; None if others are there, or if one answers."""
        seen = world.observer.metadata
        others = set(seen.brokers) - set(self.brokers) if seen and seen.brokers else None
        if others is None or others or world.kafka.metadata() is not None:
            return None
        return f"no broker answers, and there was none but {self.resolved}"

    def _undo(self, world: World) -> str:
        start_down(self.brokers, world)
        return f"{self.resolved} {self._verb()} back"

    def _verb(self) -> str:
        return "is" if len(self.brokers) == 1 else "are"


class Cycle(Strict):
    """Alternate pauses and run times."""

    paused: Duration = Field(gt=0, description="length of each pause")
    running: Duration = Field(gt=0, description="time between two pauses")


class PauseSpec(FaultSpec):
    """A pause of nodes, or many short ones."""

    needs = frozenset({"pause"})
    cycle: Cycle | None = Field(None, description="repeat short pauses until healed; one long pause if left out")


class BrokerPauseSpec(PauseSpec):
    """SIGSTOP a broker: connections stay open, requests get no answer; healed by SIGCONT."""

    effects = frozenset({"outage", "late", "connections"})
    targets = BROKER_TARGETS
    kind: Literal["broker.pause"]


class BrokerPause(BrokerFault[PauseSpec], spec=BrokerPauseSpec):
    """SIGSTOP. Proof: brokers that answered before accept a connection and leave a request unanswered.

    With alternate pauses, the broker answers in between: the proof is a request that waited for much of a pause.
    """

    _answer_s: dict[int, float]
    _ended: threading.Event
    _thread: threading.Thread | None = None

    def _inject(self, world: World) -> str:
        self._answer_s = {broker: targets.answered(broker, world) for broker in self.brokers}
        self._ended, self.begun = threading.Event(), True
        for broker in self.brokers:
            able(world.cluster, Pause).pause_broker(broker)
        cycle = self.spec.cycle
        if cycle is None:
            return f"stopped {self.resolved}"
        self._thread = threading.Thread(target=self._alternate, args=(world, cycle), daemon=True)
        self._thread.start()
        return f"stopped {self.resolved} for {cycle.paused:g} s, then again after every {cycle.running:g} s"

    def _alternate(self, world: World, cycle: Cycle) -> None:
        cluster = able(world.cluster, Pause)
        while not self._ended.wait(cycle.paused):
            self._for_each(cluster.resume_broker)
            if self._ended.wait(cycle.running):
                return
            self._for_each(cluster.pause_broker)

    def _for_each(self, act: Callable[[int], None]) -> None:
        """Act on each target. Ignore a broker that another fault has killed: the heal of that fault starts it."""
        for broker in self.brokers:
            with contextlib.suppress(AftershockError):
                act(broker)

    def _effect(self, world: World) -> str | None:
        """Send a request to all targets at once: the silence may be short."""
        before = f"(before: answered in {max(self._answer_s.values()) * 1000:.0f} ms)"
        if self.spec.cycle is not None:
            return self._delay(world, self.spec.cycle, before)
        if not targets.all_silent(self.brokers, world):
            return None
        return f"{self.resolved} left a request unanswered for {targets.SILENCE_S:g} s {before}"

    def _delay(self, world: World, cycle: Cycle, before: str) -> str | None:
        limit = max(MIN_WAIT_S, MIN_WAIT_SHARE * cycle.paused)
        waits = [
            (targets.waited_s(broker, cycle.paused + 5.0, world) or 0.0, max(limit, answer_s))
            for broker, answer_s in self._answer_s.items()
        ]
        if any(wait_s < limit_s for wait_s, limit_s in waits):
            return None
        return f"a request to {self.resolved} waited {max(waits)[0]:.1f} s {before}"

    def _undo(self, world: World) -> str:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._for_each(able(world.cluster, Pause).resume_broker)
        return f"{self.resolved} runs again"


class CoordinatorKillSpec(FaultSpec):
    """SIGKILL the broker that coordinates a group, or keeps the state of a share group; healed by a start."""

    effects = frozenset({"outage", "crash", "connections"})
    targets = frozenset({"coordinator_of", "coordinator_of_app", "share_coordinator_of"})
    needs = frozenset({"kill", "start"})
    kind: Literal["coordinator.kill"]


class CoordinatorKill(BrokerKill, spec=CoordinatorKillSpec):
    """SIGKILL the group's coordinator. Proof: FindCoordinator names another broker, or the same one after a refusal."""

    _refused = False

    _group: str = ""

    def _aim(self, world: World) -> None:
        super()._aim(world)
        self._group = targets.group_of(self.spec.target, world)

    def _describe_role(self) -> str:
        shared = self.spec.target.selector[0] == "share_coordinator_of"
        return f"the {'share coordinator' if shared else 'coordinator'} of group {self._group}"

    def _effect(self, world: World) -> str | None:
        """Ask for the coordinator, as a client would."""
        if silence := self._silence(world):
            return silence
        group = self._group
        shared = self.spec.target.selector[0] == "share_coordinator_of"
        coordinator = targets.share_coordinator_of(group, world) if shared else world.kafka.coordinator(group)
        if coordinator is None:
            self._refused = True
            return None
        if coordinator != self.broker:
            return f"{self._describe_role()} went from broker {self.broker} to {coordinator}"
        return f"broker {self.broker} refused and coordinates {group} again" if self._refused else None


class BrokerStopSpec(FaultSpec):
    """Shut a broker down in a controlled way: it hands over its leaderships first; healed by a start."""

    effects = frozenset({"outage", "connections"})
    targets = ONE_BROKER | {"followers_of"}
    needs = frozenset({"stop", "start"})
    kind: Literal["broker.stop"]


class BrokerStop(BrokerKill, spec=BrokerStopSpec):
    """Controlled shutdown. Proof: the broker's partitions had other leaders at its exit, before its session expired."""

    damage = "stopped"

    def _take_down(self, world: World) -> None:
        for broker in self.brokers:
            stop_controlled(broker, world)


class RollingRestartSpec(FaultSpec):
    """Restart the brokers one by one, each after all replicas are in sync; healed by a start of brokers that are down.

    Dedicated controllers are restarted before them, one by one, the active one last.
    """

    effects = frozenset({"outage", "one_by_one", "connections"})
    targets = frozenset({"all_brokers"})
    needs = frozenset({"stop", "start"})
    kind: Literal["cluster.rolling_restart"]


S = TypeVar("S", bound=FaultSpec)


class OneByOne(Fault[S]):
    """A restart of brokers one after another, each after all replicas are in sync."""

    def _wait_in_sync(self, when: str, world: World) -> None:
        def why() -> str:
            return f"{when}: {'; '.join(self._out_of_sync(world)[:4])}"

        targets.answer(lambda: not self._out_of_sync(world), why, IN_SYNC_TIMEOUT_S)

    def _out_of_sync(self, world: World) -> list[str]:
        """Return the problems of all partitions, internal topics included: coordinators move with them."""
        metadata = world.kafka.metadata()
        return world.kafka.unhealthy(metadata.partitions) if metadata else ["no broker answers"]


class RollingRestart(OneByOne[RollingRestartSpec], spec=RollingRestartSpec):
    """Stop each broker, start it, wait for full ISRs, then continue with the next one. Controllers come first.

    Proof: every broker handed over its leaderships, left the metadata, and is listed and in sync again. With dedicated
    controllers, the active one gave up its role, too: the epoch is higher.
    """

    _epochs: tuple[int, int]
    """The epoch of the active controller before and after the restart of dedicated controllers."""

    _stopped: list[int]
    _handed_over: dict[int, int]
    """Number of partitions that each restarted broker handed over."""

    def _inject(self, world: World) -> str:
        """Restart all brokers. Raises `FaultError` if one does not hand over, or replicas do not get in sync."""
        self.resolved = f"brokers {', '.join(map(str, world.cluster.broker_ids))}"
        self._wait_in_sync("before the restart", world)
        self._stopped, self._handed_over, self.begun = [], {}, True
        self.evidence["steps"] = steps = list[dict[str, object]]()
        if world.cluster.controller_ids:
            self.resolved = f"controllers {', '.join(map(str, world.cluster.controller_ids))}, {self.resolved}"
            self._epochs = self._restart_controllers(world)
        for broker in world.cluster.broker_ids:
            self._stopped.append(broker)
            partitions = stop_controlled(broker, world)
            steps.append({"node": f"broker {broker}", "down_us": now_us()})
            gone = partial(is_gone, broker, world)
            targets.answer(gone, f"broker {broker} is still listed", IN_SYNC_TIMEOUT_S)
            able(world.cluster, Start).start_broker(broker)
            self._wait_in_sync(f"after the restart of broker {broker}", world)
            self._handed_over[broker] = len(partitions)
        return f"restarted {self.resolved} one after another"

    def _restart_controllers(self, world: World) -> tuple[int, int]:
        """Restart the controllers, the active one last, and return the epoch before and after."""
        active, before = targets.controller(world)
        for node in sorted(world.cluster.controller_ids, key=lambda node: (node == active, node)):
            self._stopped.append(node)
            able(world.cluster, Stop).stop_broker(node)
            able(world.cluster, Start).start_broker(node)
            _, after = targets.controller(world)
        return before, after

    def _effect(self, world: World) -> str | None:
        metadata, all_brokers = world.observer.metadata, set(world.cluster.broker_ids)
        if world.cluster.controller_ids and self._epochs[0] >= self._epochs[1]:
            return None
        if metadata is None or not set(metadata.brokers) >= all_brokers:
            return None
        if set(self._handed_over) != all_brokers or self._out_of_sync(world):
            return None
        shares = ", ".join(f"broker {broker} handed over {count}" for broker, count in self._handed_over.items())
        proof = f"each broker left the metadata after its handover and came back in sync; {shares} partitions"
        epochs = " to ".join(map(str, self._epochs)) if world.cluster.controller_ids else ""
        return f"{proof}; the epoch of the active controller went from {epochs}" if epochs else proof

    def _undo(self, world: World) -> str:
        """Start the broker that a failed restart left down."""
        start_down(self._stopped, world)
        return f"{self.resolved} are up"


FAULTS: dict[str, type[Fault[Any]]] = {
    "broker.kill": BrokerKill,
    "broker.pause": BrokerPause,
    "coordinator.kill": CoordinatorKill,
    "broker.stop": BrokerStop,
    "cluster.rolling_restart": RollingRestart,
}
