"""Faults of one client process."""

from __future__ import annotations

from typing import TypeVar

from chaos.faults.base import NOTHING_TO_HEAL, Fault, World
from chaos.fleet.roster import ClientState
from chaos.scenario.faults import clients as specs

C = TypeVar("C", bound=specs.ClientFault)


class ClientFault(Fault[C]):
    """A fault of one client process."""

    _restarted = False

    def _aim(self, world: World) -> None:
        selector, value = self.spec.target.selector
        if selector == "member":
            self.resolved = str(value)
            return
        entries = world.scenario.groups[value] if selector == "random_member_of" else [value]
        self.resolved = world.rng.choice([client for entry in entries for client in world.fleet.present(entry)])

    def _restart(self, world: World) -> str:
        """Start the next incarnation, once, if the client is gone."""
        if self._restarted or world.fleet.state(self.resolved).alive:
            return NOTHING_TO_HEAL
        world.fleet.restart(self.resolved)
        self._restarted = True
        return f"{self.resolved} started again"


def fenced(earlier: ClientState, who: str, *marks: str) -> str | None:
    """Return the error with which the earlier of two processes ended, if it contains a mark of a fenced client."""
    if earlier.alive:
        return None
    error = next((e for e in earlier.errors if any(mark in e.upper() for mark in marks)), None)
    return f"incarnation {earlier.incarnation} of {who} was fenced: {error}" if error else None
