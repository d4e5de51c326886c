"""Faults of the clocks of nodes and of clients."""

from __future__ import annotations

import time
from typing import TypeVar

from chaos.cluster.api import Start, Stop, able
from chaos.cluster.brokers.clock_reading import ClockReading
from chaos.cluster.clocks import SetClock
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.brokers import OneByOne
from chaos.faults.clock_targets import ClientClock, Clock, NodeClock, Stamp
from chaos.faults.targets import BrokerFault, node_name
from chaos.preload.clock import RIGHT, Skew
from chaos.run.events import now_us
from chaos.scenario.faults import clocks as specs
from chaos.units import format_shift

S = TypeVar("S", bound=specs.ClockFault)

READ_TIMEOUT_S = 20.0
QUEUED_S = 0.5
"""Maximum time from the call of send to the timestamp of the record, which waits for room in the buffer."""
SHOWN_S = 3
"""Decimals of a reading in seconds."""


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
        self.resolved = str(value) if selector == "member" else world.rng.choice(world.fleet.present(value))
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
        return abs(expected_s) >= specs.LEAST_S and apart_s <= QUEUED_S * (1 + abs(rate))

    def _expected_at(self, at_s: float) -> tuple[float, float]:
        """Return how far the clock should be ahead at a time, and how many seconds it gains in each second."""
        raise NotImplementedError

    def _set(self, world: World, skew: Skew) -> None:
        for clock in self._clocks:
            clock.set(skew)

    def _undo(self, world: World) -> str:
        self._set(world, RIGHT)
        return f"{self.resolved} has the right time again"


class ClockJump(ClockFault[specs.ClockJump], spec=specs.ClockJump):
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


class ClockDrift(ClockFault[specs.ClockDrift], spec=specs.ClockDrift):
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
        return (drifted_s, drifted_s) if abs(drifted_s) >= specs.LEAST_S else None

    def _expected_at(self, at_s: float) -> tuple[float, float]:
        return self.spec.gains * (at_s - self._since_s), self.spec.gains


class ClockSkew(ClockFault[specs.ClockSkew], OneByOne[specs.ClockSkew], spec=specs.ClockSkew):
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
        """Restart the nodes of which the clock is not as it should be."""
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
