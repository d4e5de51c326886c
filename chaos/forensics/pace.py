"""The rate at which records are fetched: a pause after each answer keeps the bytes below it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from chaos.kafka.offsets_log import FETCH_BYTES

RATE = 10_000_000
"""Bytes a second if nothing else is asked for."""


@dataclass
class Pace:
    """A limit of bytes a second. seconds: spent with requests and pauses. An idle time does not count as saved."""

    rate: int = RATE
    bytes: int = 0
    seconds: float = 0.0
    clock: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)

    @property
    def size(self) -> int:
        """Bytes to ask for at once: a second of the rate at most, so that no answer is a burst."""
        return min(FETCH_BYTES, self.rate)

    @contextmanager
    def taking(self) -> Iterator[Callable[[int], None]]:
        """Time one request, and pause behind it. The value takes the number of bytes in the answer."""
        began, size = self.clock(), 0

        def took(fetched: int) -> None:
            nonlocal size
            size = fetched

        try:
            yield took
        finally:
            self.bytes += size
            self.sleep(max(0.0, began + size / self.rate - self.clock()))
            self.seconds += self.clock() - began
