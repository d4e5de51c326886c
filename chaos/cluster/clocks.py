"""The capability to change the clocks of nodes; `chaos.cluster.api` has the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from chaos.preload.clock import Skew


@runtime_checkable
class SetClock(Protocol):
    """A clock of a node that differs from that of the machine."""

    def set_clock(self, node: int, skew: Skew) -> None:
        """Change the clock of a node, running or not. It stays until it is set again, also over restarts."""

    def clock_ahead_s(self, node: int) -> float:
        """Return how many seconds the clock of a node is ahead now, as it was set; 0 if it is right."""
