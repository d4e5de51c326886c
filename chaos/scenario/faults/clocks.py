"""Faults of clocks: nodes that see another time than the machine, and so than the other nodes and the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import BROKER_TARGETS, FaultSpec
from chaos.scenario.setup import Setup
from chaos.scenario.triggers import CONTROLLER_TARGETS
from chaos.units import Shift, format_shift

LEAST_S = 1.0
"""Least change of a clock that delays of a loaded machine do not look like."""
LEAST_GAIN = 0.04
"""Least drift, in seconds per second, that changes a clock by LEAST_S before the proof times out."""


class ClockFault(FaultSpec):
    """A clock that differs from that of the machine."""

    targets = BROKER_TARGETS | CONTROLLER_TARGETS
    hits_controllers = True
    needs = frozenset({"set_clock"})

    def furthest_s(self, run_s: float) -> tuple[float, float]:
        """Return how far the clock is behind and ahead at most, in a run of some seconds."""
        raise NotImplementedError

    def small(self, where: str, key: str, shift_s: float, least_s: float = LEAST_S) -> Iterator[str]:
        """Check that a change can be proven."""
        if abs(shift_s) < least_s:
            yield (
                f"{where}.{key}: {format_shift(shift_s)} cannot be told from the delays of a loaded machine; "
                f"give {format_shift(least_s)} or more, or as much back"
            )


class ClockSkew(ClockFault):
    """Restart nodes, one after another, with a clock that is wrong by a constant; healed by such a restart.

    A running process sees no step. The restart is a controlled one, and the next node waits for all replicas in sync.
    """

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


class ClockJump(ClockFault):
    """Step the clock of running nodes forward or back; healed by a step to the right time."""

    kind: Literal["clock.jump"]
    by: Shift = Field(description="the step, such as +2h; back if negative, such as -2h")

    def furthest_s(self, run_s: float) -> tuple[float, float]:
        """Return how far the clock is behind and ahead at most."""
        return max(0.0, -self.by), max(0.0, self.by)

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the change can be proven."""
        yield from super().problems(setup, where)
        yield from self.small(where, "by", self.by)


class ClockDrift(ClockFault):
    """Let the clock of running nodes run too fast or too slowly; healed by a step to the right time and rate.

    Only the wall clock drifts. The clock for durations, System.nanoTime in Java, keeps its rate.
    """

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
