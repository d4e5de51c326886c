"""Faults of clocks: nodes or clients that see another time than the machine, and so than the others and the ledger."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from pydantic import Field

from chaos.cluster.api import SetClock, Start, Stop, able
from chaos.cluster.brokers.clock_reading import ClockReading, read_clock
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import BROKER_TARGETS, Fault, FaultSpec, World
from chaos.faults.brokers import OneByOne
from chaos.faults.clients import any_present, client_problems
from chaos.faults.settings import refused
from chaos.faults.targets import BrokerFault, node_name
from chaos.kafka.partition import TopicPartition
from chaos.ledger.record import in_headers, parse
from chaos.preload.libraries import RIGHT, Skew
from chaos.run.events import now_us
from chaos.setup.clients import Processor, Subscribe
from chaos.setup.model import Setup
from chaos.setup.timestamps import APPEND_TIME
from chaos.setup.triggers import CONTROLLER_TARGETS
from chaos.units import Shift, format_shift

LEAST_S = 1.0
"""Least change of a clock that delays of a loaded machine do not look like."""

LEAST_GAIN = 0.04
"""Least drift, in seconds per second, that changes a clock by LEAST_S before the proof times out."""

CLIENT_TARGETS = frozenset({"member", "random_member"})

ANSWER_S = 3.0

LOOK_BACK = 500
"""Number of records at the end of each partition in which a producer's own are looked for."""

READ_S = 3.0

READ_TIMEOUT_S = 20.0

QUEUED_S = 0.5
"""Maximum time from the call of send to the timestamp of the record, which waits for room in the buffer."""

SHOWN_S = 3
"""Decimals of a reading in seconds."""


class ClockFaultSpec(FaultSpec):
    """A clock that differs from the machine's clock."""

    targets = BROKER_TARGETS | CONTROLLER_TARGETS
    hits_controllers = True
    needs = frozenset({"set_clock"})
    abilities = ("wrong clock",)

    @property
    def client(self) -> str | None:
        """The name of the entry of the client that has the clock, such as `billing`; None for nodes."""
        selector, value = self.target.selector
        return str(value).partition("/")[0] if selector in CLIENT_TARGETS else None

    @property
    def needed(self) -> frozenset[str]:
        """The driver capabilities that the fault needs: none for a client, which is a process of this machine."""
        return frozenset() if self.client else self.needs

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that a client exists, and that the clock of a producer can be observed."""
        yield from super().problems(setup, where)
        if self.client is None:
            return
        members = {entry.name: entry.count for entry in setup.producers}
        members |= {entry.name: entry.members for entry in (*setup.consumers, *setup.processors)}
        yield from client_problems(where, self.target, "clients", members)
        for entry in (*setup.consumers, *setup.processors):
            if entry.name == self.client and isinstance(entry, Subscribe | Processor) and entry.threads > 1:
                yield (
                    f"{where}.target: {self.client} has {entry.threads} clients in each process, which share a clock; "
                    "leave threads out"
                )
        usual = setup.cluster.config.get("log.message.timestamp.type", "")
        written = [topic for p in setup.producers if p.name == self.client for topic in p.written]
        written += [p.to for p in setup.processors if p.name == self.client]
        own = next((p for p in setup.producers if p.name == self.client and p.timestamps is not None), None)
        if own is not None:
            yield f"{where}.target: {own.name} sets its timestamps, which do not show its clock; leave one of both out"
        for topic in [t for t in setup.topics if t.name in written]:
            if str(topic.config.get("message.timestamp.type", usual)).lower() == APPEND_TIME:
                yield (
                    f"{where}.target: brokers stamp the records of {topic.name} ({APPEND_TIME}), so none shows the "
                    f"clock of {self.client}; leave message.timestamp.type out"
                )

    def furthest_s(self, run_s: float) -> tuple[float, float]:
        """Return how far the clock is behind and ahead at most, in a run of some seconds."""
        raise NotImplementedError

    def small(self, where: str, key: str, shift_s: float, least_s: float = LEAST_S) -> Iterator[str]:
        """Check that a change can be proven."""
        if abs(shift_s) < least_s:
            yield (
                f"{where}.{key}: {format_shift(shift_s)} is no longer than the delays of a loaded machine; "
                f"give {format_shift(least_s)} or more, or as much back"
            )


class ClockSkewSpec(ClockFaultSpec):
    """Restart nodes, one after another, with a clock that is wrong by a constant; healed by such a restart.

    A running process sees no step. The restart is a controlled one, and the next node waits for all replicas in sync.
    """

    effects = frozenset({"outage", "one_by_one"})
    left_out = "the promises are about brokers with the right time"
    example = "ahead=1h"
    needs = frozenset({"set_clock", "stop", "start"})
    kind: Literal["clock.skew"]
    ahead: Shift = Field(description="how far the clock is ahead, such as +5m; behind if negative, such as -5m")

    def furthest_s(self, run_s: float) -> tuple[float, float]:
        """Return how far the clock is behind and ahead at most."""
        return max(0.0, -self.ahead), max(0.0, self.ahead)

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the change can be proven."""
        yield from super().problems(setup, where)
        yield from self.small(where, "ahead", self.ahead)


class Clock(Protocol):
    """A clock of a node or a client."""

    @property
    def name(self) -> str:
        """Its owner, such as `broker 2`."""

    @property
    def stamping(self) -> bool:
        """Whether it stamps records."""

    def ahead_s(self) -> float:
        """Return how many seconds it is ahead, as it was set."""

    def set(self, skew: Skew) -> None:
        """Change it."""

    def read(self) -> ClockReading | None:
        """Return what it shows, compared with the clock of the machine; None without an answer."""

    def stamp(self, since_us: int) -> Stamp | None:
        """Return what it stamped on the last record that was sent since a time; None if there is none yet."""

    def refused(self, ahead_s: float) -> bool:
        """Return whether brokers refuse records with times so far ahead, and have refused some."""


S = TypeVar("S", bound=ClockFaultSpec)


class ClockFault(BrokerFault[S]):
    """A fault of the clocks of nodes or of a client. The clock of each is read before the fault and for the proof."""

    _clocks: list[Clock]
    _before: dict[str, ClockReading]
    _since_us: int

    def _aim(self, world: World) -> None:
        if self.spec.client is None:
            super()._aim(world)
            self._clocks = [NodeClock(node, world) for node in self.brokers]
            return
        selector, value = self.spec.target.selector
        self.brokers = []
        self.resolved = str(value) if selector == "member" else any_present([value], world)
        self._clocks = [ClientClock(self.resolved, world)]

    def _inject(self, world: World) -> str:
        wrong = [clock.name for clock in self._clocks if clock.ahead_s()]
        if wrong:
            raise FaultError(
                f"another fault has changed the clock of {', '.join(wrong)}; let this one begin after its heal"
            )
        self._before = {clock.name: self._read_before(clock) for clock in self._clocks}
        self.begun = True
        done = self._change(world)
        self._since_us = now_us()
        return f"{done} (before: {_shown(self._before)})"

    def _change(self, world: World) -> str:
        """Change the clocks, and describe it."""
        raise NotImplementedError

    def _expected_s(self) -> tuple[float, float] | None:
        """Return how much the clocks should have changed by now, at least and at most; None if too little to see."""
        raise NotImplementedError

    def _read_before(self, clock: Clock) -> ClockReading:
        where = "its log" if self.spec.client is None else "an answer"
        why = f"{clock.name} shows no time in {where}, so its clock cannot be observed"
        return targets.answer(clock.read, why, READ_TIMEOUT_S)

    def _effect(self, world: World) -> str | None:
        """Compare the time that each clock shows, and stamps on records, with the clock of the machine."""
        least = self._expected_s()
        if least is None:
            return None
        now = {clock.name: reading for clock in self._clocks if (reading := clock.read()) is not None}
        most = self._expected_s() or least
        if set(now) != set(self._before):
            return None
        if not all(_changed(now[name], self._before[name], least[0], most[1]) for name in now):
            return None
        refused = [clock.name for clock in self._clocks if clock.stamping and clock.refused(most[1])]
        stamps = {
            clock.name: clock.stamp(self._since_us)
            for clock in self._clocks
            if clock.stamping and clock.name not in refused
        }
        if not all(self._fits(name, stamp) for name, stamp in stamps.items()):
            return None
        self.evidence["ahead_s"] = {name: round(reading.ahead_s, SHOWN_S) for name, reading in now.items()}
        if self.spec.client is None:
            return f"by the lines of its log, compared with the clock of the machine, {_shown(now)}"
        records = "".join(
            f", and the timestamp of {stamp.place} is {format_ahead(stamp.ahead_s)}"
            for stamp in stamps.values()
            if stamp
        ) + (", and the brokers refuse the timestamps of its records" if refused else "")
        return f"by its own answer, compared with the clock of the machine, {_shown(now)}{records}"

    def _fits(self, name: str, stamp: Stamp | None) -> bool:
        """Return whether the timestamp of a record is as wrong as the clock should have been when it was sent."""
        if stamp is None:
            return False
        expected_s, rate = self._expected_at(stamp.sent_us / 1e6)
        apart_s = abs(stamp.ahead_s - self._before[name].ahead_s - expected_s)
        return abs(expected_s) >= LEAST_S and apart_s <= QUEUED_S * (1 + abs(rate))

    def _expected_at(self, at_s: float) -> tuple[float, float]:
        """Return how far the clock should be ahead at a time, and how many seconds it gains in each second."""
        raise NotImplementedError

    def _set(self, world: World, skew: Skew) -> None:
        for clock in self._clocks:
            clock.set(skew)

    def _undo(self, world: World) -> str:
        self._set(world, RIGHT)
        return f"{self.resolved} has the right time again"


class ClockSkew(ClockFault[ClockSkewSpec], OneByOne[ClockSkewSpec], spec=ClockSkewSpec):
    """A clock that is wrong from the start of the node on.

    Proof: the times that the node writes into its log after its restart, compared with the machine's clock.
    """

    def _inject(self, world: World) -> str:
        self._wait_in_sync("before the restart", world)
        return super()._inject(world)

    def _change(self, world: World) -> str:
        self._restart_all(world, Skew(self.spec.ahead))
        return f"restarted {self.resolved} with a clock that is {format_shift(self.spec.ahead)} ahead"

    def _expected_s(self) -> tuple[float, float]:
        return self.spec.ahead, self.spec.ahead

    def _undo(self, world: World) -> str:
        self._restart_all(world, RIGHT)
        return f"{self.resolved} has the right time again, after a restart"

    def _restart_all(self, world: World, skew: Skew) -> None:
        """Restart the nodes with a clock that is not as it should be."""
        for node in self.brokers:
            alive, ahead_s = world.cluster.broker_alive(node), able(world.cluster, SetClock).clock_ahead_s(node)
            if alive and ahead_s == skew.ahead_s:
                continue
            if alive:  # another fault may have ended it
                able(world.cluster, Stop).stop_broker(node)
            able(world.cluster, SetClock).set_clock(node, skew)
            able(world.cluster, Start).start_broker(node)
            self._wait_in_sync(f"after the restart of {node_name(node, world)}", world)


def _changed(now: ClockReading, before: ClockReading, least_s: float, most_s: float) -> bool:
    """Return whether a clock has changed, by an amount between both limits, as far as the readings show."""
    low, high = sorted((least_s, most_s))
    apart = now.low_s > before.high_s or now.high_s < before.low_s
    return apart and now.low_s - before.high_s <= high and now.high_s - before.low_s >= low


def _shown(readings: dict[str, ClockReading]) -> str:
    parts = (f"{name} is {format_ahead(r.ahead_s)}" for name, r in readings.items())
    return ", ".join(parts)


def format_ahead(ahead_s: float) -> str:
    """Return how far a clock is ahead or behind, in seconds."""
    return f"{abs(ahead_s):.{SHOWN_S}f} s {'ahead' if ahead_s >= 0 else 'behind'}"


class ClockJumpSpec(ClockFaultSpec):
    """Step the clock of running nodes or of a client forward or back; healed by a step to the right time.

    The clock of a client needs no driver: clients are processes of this machine. The step stays over restarts of the
    client.
    """

    effects = frozenset({"outage", "ends"})
    left_out = "the promises are about brokers with the right time"
    example = "by=1h"
    targets = ClockFaultSpec.targets | CLIENT_TARGETS
    kind: Literal["clock.jump"]
    by: Shift = Field(description="the step, such as +2h; back if negative, such as -2h")

    def furthest_s(self, run_s: float) -> tuple[float, float]:
        """Return how far the clock is behind and ahead at most."""
        return max(0.0, -self.by), max(0.0, self.by)

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the change can be proven."""
        yield from super().problems(setup, where)
        yield from self.small(where, "by", self.by)


class ClockJump(ClockFault[ClockJumpSpec], spec=ClockJumpSpec):
    """A step of the clock. Proof: the times that the node writes into its log, compared with the machine's clock.

    Of a client: the time that it answers, and the timestamps of records that it writes.
    """

    def _change(self, world: World) -> str:
        self._set(world, Skew(self.spec.by))
        return f"stepped the clock of {self.resolved} by {format_shift(self.spec.by)}"

    def _expected_s(self) -> tuple[float, float]:
        return self.spec.by, self.spec.by

    def _expected_at(self, at_s: float) -> tuple[float, float]:
        return self.spec.by, 0.0


class ClockDriftSpec(ClockFaultSpec):
    """Let the clock of running nodes or of a client run too fast or slowly; healed by a step to the right time.

    Only the wall clock drifts. The clock for durations, System.nanoTime in Java, keeps its rate. The clock of a client
    needs no driver.
    """

    effects = frozenset({"outage", "ends"})
    left_out = "the promises are about brokers with the right time"
    example = "gains=100ms"
    targets = ClockFaultSpec.targets | CLIENT_TARGETS
    kind: Literal["clock.drift"]
    gains: Shift = Field(description="time that the clock gains in each second, such as +100ms; loses if negative")

    def furthest_s(self, run_s: float) -> tuple[float, float]:
        """Return how far the clock is behind and ahead at most, if it drifts during the whole run."""
        return max(0.0, -self.gains * run_s), max(0.0, self.gains * run_s)

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the change can be proven in time, and that the clock does not run backwards."""
        yield from super().problems(setup, where)
        yield from self.small(where, "gains", self.gains, LEAST_GAIN)
        if self.gains <= -1:
            yield f"{where}.gains: a clock that loses a second in each second stands still; lose less than 1s"
        if self.gains > 60:
            yield f"{where}.gains: more than a minute in each second is a jump; use clock.jump"


class ClockDrift(ClockFault[ClockDriftSpec], spec=ClockDriftSpec):
    """A clock with another rate. Proof: the times that the node writes into its log move away from the machine's.

    Of a client: the time that it answers, and the timestamps of records that it writes, move away.
    """

    _since_s: float

    def _change(self, world: World) -> str:
        self._since_s = time.time()
        self._set(world, Skew(drift=self.spec.gains))
        return f"the clock of {self.resolved} gains {format_shift(self.spec.gains)} in each second"

    def _expected_s(self) -> tuple[float, float] | None:
        drifted_s, _ = self._expected_at(time.time())
        return (drifted_s, drifted_s) if abs(drifted_s) >= LEAST_S else None

    def _expected_at(self, at_s: float) -> tuple[float, float]:
        return self.spec.gains * (at_s - self._since_s), self.spec.gains


@dataclass(frozen=True, order=True)
class Stamp:
    """The timestamp of a record, compared with the time in its value, the machine's time at the call."""

    sent_us: int
    ahead_s: float
    place: str


@dataclass(frozen=True)
class NodeClock:
    """The clock of a broker or a controller, as it shows in its log."""

    node: int
    world: World

    @property
    def stamping(self) -> bool:
        """Return false: records of the run have the times of clients."""
        return False

    @property
    def name(self) -> str:
        """The role and the id of the node."""
        return node_name(self.node, self.world)

    def ahead_s(self) -> float:
        """Return how many seconds it is ahead, as it was set."""
        return able(self.world.cluster, SetClock).clock_ahead_s(self.node)

    def set(self, skew: Skew) -> None:
        """Change it."""
        able(self.world.cluster, SetClock).set_clock(self.node, skew)

    def read(self) -> ClockReading | None:
        """Let the node refuse a request, and return the time that it logs."""
        state = self.world.cluster.state.node(self.node)
        if state.log is None:
            raise FaultError(f"{self.name} has no log on this machine, so its clock cannot be observed")
        address = self.world.cluster.address(self.node)
        return read_clock(*address, Path(self.world.cluster.run.path) / state.log)

    def stamp(self, since_us: int) -> Stamp | None:
        """Return None: records of the run have the times of clients."""
        return None

    def refused(self, ahead_s: float) -> bool:
        """Return false: records of the run have the times of clients."""
        return False


@dataclass(frozen=True)
class ClientClock:
    """The clock of a client: what the client answers, and what it stamps on the records that it writes."""

    client: str
    world: World

    @property
    def name(self) -> str:
        """The name of the client."""
        return self.client

    @property
    def _topics(self) -> list[str]:
        entry, scenario = self.client.rpartition("/")[0], self.world.scenario
        written = [topic for p in scenario.producers if p.name == entry for topic in p.written]
        return written + [p.to for p in scenario.processors if p.name == entry]

    @property
    def stamping(self) -> bool:
        """Whether the client writes records that say when they were sent: unmarked ones have nothing but an id."""
        entry = self.client.rpartition("/")[0]
        return bool(self._topics) and not any(p.unmarked for p in self.world.scenario.producers if p.name == entry)

    def ahead_s(self) -> float:
        """Return how many seconds it is ahead, as it was set."""
        return self.world.fleet.clock_ahead_s(self.client)

    def set(self, skew: Skew) -> None:
        """Change it."""
        self.world.fleet.set_clock(self.client, skew)

    def read(self) -> ClockReading | None:
        """Ask the client what its clock shows."""
        state = self.world.fleet.state(self.client)
        sent_s = time.time()
        shown_us = state.shown_us(ANSWER_S) if state.alive else None
        if shown_us is None:
            return None
        return ClockReading(shown_us / 1e6 - time.time(), shown_us / 1e6 - sent_s)

    def stamp(self, since_us: int) -> Stamp | None:
        """Read the ends of the logs that the client writes to, and return its last record with a time."""
        return max((stamp for stamp in self._records() if stamp.sent_us >= since_us), default=None)

    def refused(self, ahead_s: float) -> bool:
        """Return whether brokers refuse records with times so far ahead, and have refused some."""
        scenario, state = self.world.scenario, self.world.fleet.state(self.client)
        outside = all(refused(scenario, scenario.faults, topic, ahead_s) for topic in self._topics)
        return outside and state.count("failed") + state.count("unknown") > 0

    def _records(self) -> Iterator[Stamp]:
        """Yield the timestamps of the last records of the client."""
        import confluent_kafka as kafka

        metadata = self.world.kafka.metadata()
        names = [p for p in (metadata.partitions if metadata else {}) if p.topic in self._topics]
        ends = self.world.kafka.end_offsets(names)
        access = self.world.access
        settings = {
            "bootstrap.servers": self.world.cluster.bootstrap,
            "group.id": "aftershock-clock",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",  # a transaction may be open
            **(access.librdkafka() if access else {}),
        }
        with closing(kafka.Consumer(settings)) as reader:
            starts = {p: max(0, end - LOOK_BACK) for p, end in ends.items()}
            reader.assign([kafka.TopicPartition(p.topic, p.number, start) for p, start in starts.items()])
            deadline, left = time.monotonic() + READ_S, {p for p, end in ends.items() if end}
            while left and time.monotonic() < deadline:
                for message in reader.consume(LOOK_BACK, 0.5):
                    if message.error():
                        continue
                    partition = TopicPartition(message.topic(), message.partition())
                    if message.offset() + 1 >= ends[partition]:
                        left.discard(partition)
                    identity = parse(in_headers(message.headers()) or message.value())
                    if identity is not None and identity.producer == self.client:
                        ahead_s = message.timestamp()[1] / 1e3 - identity.sent_us / 1e6
                        yield Stamp(identity.sent_us, ahead_s, f"{partition} offset {message.offset()}")


FAULTS: dict[str, type[Fault[Any]]] = {
    "clock.skew": ClockSkew,
    "clock.jump": ClockJump,
    "clock.drift": ClockDrift,
}
