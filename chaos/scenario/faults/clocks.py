"""Faults of clocks: nodes or clients that see another time than the machine, and so than the others and the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import BROKER_TARGETS, FaultSpec
from chaos.scenario.faults.clients import client_problems
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


class ClockFault(FaultSpec):
    """A clock that differs from that of the machine."""

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
                f"{where}.{key}: {format_shift(shift_s)} cannot be told from the delays of a loaded machine; "
                f"give {format_shift(least_s)} or more, or as much back"
            )


class ClockSkew(ClockFault):
    """Restart nodes, one after another, with a clock that is wrong by a constant; healed by such a restart.

    A running process sees no step. The restart is a controlled one, and the next node waits for all replicas in sync.
    """

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


class ClockJump(ClockFault):
    """Step the clock of running nodes or of a client forward or back; healed by a step to the right time.

    That of a client needs no driver: clients are processes of this machine. It stays over restarts of the client.
    """

    example = "by=1h"
    targets = ClockFault.targets | CLIENT_TARGETS
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
    """Let the clock of running nodes or of a client run too fast or slowly; healed by a step to the right time.

    Only the wall clock drifts. The clock for durations, System.nanoTime in Java, keeps its rate. That of a client needs
    no driver.
    """

    example = "gains=10ms"
    targets = ClockFault.targets | CLIENT_TARGETS
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
