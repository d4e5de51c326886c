"""Rules of scenarios with `fleet`: what clients on workers cannot do yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.scenario.clients import Assign
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.faults.clocks import ClockFault
from chaos.scenario.setup import Setup


def fleet_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield what does not fit clients on several workers."""
    if setup.fleet is None:
        return
    for entry in setup.entries:
        if isinstance(entry, Assign) and entry.client.session:
            yield (
                f"fleet: the clients of {entry.name} share a session cluster, which runs beside the drive; leave "
                "`fleet` or `session` out"
            )
    for i, fault in enumerate(faults):
        if isinstance(fault, ClockFault) and fault.client:
            yield (
                f"faults[{i}]: the clock of a client is changed on the machine of the drive, and with `fleet` clients "
                "run elsewhere; leave `fleet` or this fault out"
            )
