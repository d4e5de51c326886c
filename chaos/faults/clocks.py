"""Faults of the clocks of nodes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeVar

from chaos.cluster.api import Start, Stop, able
from chaos.cluster.brokers.clock_reading import ClockReading, read_clock
from chaos.cluster.clocks import SetClock
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.brokers import OneByOne
from chaos.faults.targets import BrokerFault, node_name
from chaos.preload.clock import RIGHT, Skew
from chaos.scenario.faults import clocks as specs
from chaos.units import format_shift

S = TypeVar("S", bound=specs.ClockFault)

READ_TIMEOUT_S = 20.0
SHOWN_S = 3
"""Decimals of a reading in seconds."""


class ClockFault(BrokerFault[S]):
    """A fault of the clocks of nodes. The clock of each is read before the fault and for the proof."""

    _before: dict[int, ClockReading]

    def _inject(self, world: World) -> str:
        wrong = [node for node in self.brokers if able(world.cluster, SetClock).clock_ahead_s(node)]
        if wrong:
            names = ", ".join(node_name(node, world) for node in wrong)
            raise FaultError(f"another fault has changed the clock of {names}; let this one begin after its heal")
        self._before = {node: self._read_before(node, world) for node in self.brokers}
        self.begun = True
        done = self._change(world)
        return f"{done} (before: {_shown(self._before, world)})"

    def _change(self, world: World) -> str:
        """Change the clocks, and describe it."""
        raise NotImplementedError

    def _expected_s(self) -> tuple[float, float] | None:
        """Return how much the clocks should have changed by now, at least and at most; None if too little to see."""
        raise NotImplementedError

    def _read_before(self, node: int, world: World) -> ClockReading:
        why = f"{node_name(node, world)} shows no time in its log, so its clock cannot be observed"
        return targets.answer(lambda: _read(node, world), why, READ_TIMEOUT_S)

    def _effect(self, world: World) -> str | None:
        """Compare the time that each node writes into its log with the clock of the machine."""
        least = self._expected_s()
        if least is None:
            return None
        now = {node: reading for node in self.brokers if (reading := _read(node, world)) is not None}
        most = self._expected_s() or least
        if set(now) != set(self.brokers):
            return None
        if not all(_changed(now[node], self._before[node], least[0], most[1]) for node in self.brokers):
            return None
        self.evidence["ahead_s"] = {node_name(n, world): round(r.ahead_s, SHOWN_S) for n, r in now.items()}
        return f"by the lines of its log, compared with the clock of the machine, {_shown(now, world)}"

    def _set(self, world: World, skew: Skew) -> None:
        for node in self.brokers:
            able(world.cluster, SetClock).set_clock(node, skew)

    def _undo(self, world: World) -> str:
        self._set(world, RIGHT)
        return f"{self.resolved} has the right time again"


class ClockJump(ClockFault[specs.ClockJump], spec=specs.ClockJump):
    """A step of the clock. Proof: the times that the node writes into its log, compared with the machine's clock."""

    def _change(self, world: World) -> str:
        self._set(world, Skew(self.spec.by))
        return f"stepped the clock of {self.resolved} by {format_shift(self.spec.by)}"

    def _expected_s(self) -> tuple[float, float]:
        return self.spec.by, self.spec.by


class ClockDrift(ClockFault[specs.ClockDrift], spec=specs.ClockDrift):
    """A clock with another rate. Proof: the times that the node writes into its log move away from the machine's."""

    _since_s: float

    def _change(self, world: World) -> str:
        self._since_s = time.time()
        self._set(world, Skew(drift=self.spec.gains))
        return f"the clock of {self.resolved} gains {format_shift(self.spec.gains)} in each second"

    def _expected_s(self) -> tuple[float, float] | None:
        drifted_s = self.spec.gains * (time.time() - self._since_s)
        return (drifted_s, drifted_s) if abs(drifted_s) >= specs.LEAST_S else None


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


def _read(node: int, world: World) -> ClockReading | None:
    state = world.cluster.state.node(node)
    if state.log is None:
        raise FaultError(f"{node_name(node, world)} has no log on this machine, so its clock cannot be observed")
    return read_clock(*world.cluster.address(node), Path(world.cluster.run.path) / state.log)


def _changed(now: ClockReading, before: ClockReading, least_s: float, most_s: float) -> bool:
    """Return whether a clock has changed, by an amount between both limits, as far as the readings show."""
    low, high = sorted((least_s, most_s))
    apart = now.low_s > before.high_s or now.high_s < before.low_s
    return apart and now.low_s - before.high_s <= high and now.high_s - before.low_s >= low


def _shown(readings: dict[int, ClockReading], world: World) -> str:
    parts = (f"{node_name(n, world)} is {format_ahead(r.ahead_s)}" for n, r in readings.items())
    return ", ".join(parts)


def format_ahead(ahead_s: float) -> str:
    """Return how far a clock is ahead or behind, in seconds."""
    return f"{abs(ahead_s):.{SHOWN_S}f} s {'ahead' if ahead_s >= 0 else 'behind'}"
