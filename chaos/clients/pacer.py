"""The rate at which a producer sends."""

from __future__ import annotations

import time

TICK_S = 0.01
CATCH_UP_S = 0.25
"""Missed time that is caught up after a stall; the rest counts as time without load."""


class Pacer:
    """The number of records to send now at a steady rate."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._start = self._next_tick = time.monotonic()
        self._sent = 0

    def due(self) -> int:
        """Return the number of records to send now; 0 before the next tick."""
        now = time.monotonic()
        if now < self._next_tick:
            return 0
        self._next_tick = now + TICK_S
        due = int((now - self._start) * self._rate) - self._sent
        limit = max(1, int(self._rate * CATCH_UP_S))
        if due > limit:
            self._start += (due - limit) / self._rate
            due = limit
        return due

    def sent(self, count: int) -> None:
        """Count records that were sent."""
        self._sent += count
