"""The comparison of the clock of a worker with that of the drive.

An exchange gives the time of the drive before it asks and after it has the answer, and that of the worker in between.
If both directions take equally long, the worker is ahead by its time minus the middle of the other two. The directions
may differ, but not by more than the whole round trip: the offset is right within half of it. An earlier exchange loses
`CLOCK_RATE` of its age, by which clocks may have moved apart since. Of a window of exchanges, the best one counts. If a
later one contradicts it, a clock was set, and the earlier ones are dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from chaos.units import CLOCK_RATE

WINDOW = 50
"""Number of exchanges in a window; the drive makes five in a second."""


@dataclass(frozen=True)
class Offset:
    """How far a clock is ahead of that of the drive, and by how much this may be wrong, in us."""

    ahead_us: int
    uncertainty_us: int

    def after(self, us: int) -> Offset:
        """Return the offset as it is known some time later."""
        return Offset(self.ahead_us, self.uncertainty_us + round(us * CLOCK_RATE))

    def contradicts(self, other: Offset) -> bool:
        """Return whether both cannot be right."""
        return abs(self.ahead_us - other.ahead_us) > self.uncertainty_us + other.uncertainty_us


class ClockComparison:
    """The last exchanges with a worker."""

    def __init__(self) -> None:
        self._exchanges: deque[tuple[int, Offset]] = deque(maxlen=WINDOW)

    def add(self, asked_us: int, shown_us: int, round_trip_us: int) -> Offset:
        """Add an exchange: the time when the drive asked, the worker's, and how long it took. Returns the best one."""
        now = Offset(shown_us - asked_us - round_trip_us // 2, -(-round_trip_us // 2) + 1)
        if any(now.contradicts(offset.after(abs(asked_us - at_us))) for at_us, offset in self._exchanges):
            self._exchanges.clear()
        self._exchanges.append((asked_us, now))
        known = [offset.after(abs(asked_us - at_us)) for at_us, offset in self._exchanges]
        return min(known, key=lambda offset: offset.uncertainty_us)
