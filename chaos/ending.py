"""The end of what goes on until somebody ends it: a signal, or a time that is over."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Ending:
    """Whether something is asked to end: by a signal, or because its time is over."""

    def __init__(self, for_s: float | None = None) -> None:
        self._asked = threading.Event()
        self._until = time.monotonic() + for_s if for_s else None

    def ask(self) -> None:
        """Ask for the end."""
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether the end is asked for."""
        return self._asked.is_set() or (self._until is not None and time.monotonic() > self._until)

    def wait(self, seconds: float) -> bool:
        """Wait, at most until the end is asked for; return whether it is."""
        self._asked.wait(seconds)
        return self.asked


@contextmanager
def handled(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM call a handler meanwhile."""
    former: dict[int, Any] = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)


@contextmanager
def by_signals(ending: Ending, on_first: Callable[[], None]) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM ask for the end, and the second one interrupt the command."""

    def ask(number: int, frame: object) -> None:
        if ending.asked:
            raise KeyboardInterrupt
        ending.ask()
        on_first()

    with handled(ask):
        yield
