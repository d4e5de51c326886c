"""The comparison of the clock of a worker with that of the drive.

An exchange gives the time of the drive before it asks and after it has the answer, and that of the worker in between.
If both directions take equally long, the worker is ahead by its time minus the middle of the other two. The directions
may differ, but not by more than the whole round trip: the offset is right within half of it. Of a window of exchanges,
the one with the shortest round trip is the best.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WINDOW = 10
"""Number of exchanges in a window."""


@dataclass(frozen=True)
class Offset:
    """How far a clock is ahead of that of the drive, and by how much this may be wrong, in us."""

    ahead_us: int
    uncertainty_us: int


class ClockComparison:
    """The last exchanges with a worker."""

    def __init__(self) -> None:
        self._exchanges: deque[Offset] = deque(maxlen=WINDOW)

    def add(self, asked_us: int, shown_us: int, round_trip_us: int) -> Offset:
        """Add an exchange: the time when the drive asked, the worker's, and how long it took. Returns the best one."""
        half = -(-round_trip_us // 2)
        self._exchanges.append(Offset(shown_us - asked_us - round_trip_us // 2, half + 1))
        return min(self._exchanges, key=lambda offset: offset.uncertainty_us)
