"""An event loop in a thread, for programs that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, TimeoutError
from typing import Any, TypeVar

T = TypeVar("T")

CHECK_S = 0.01


class EventLoop:
    """An event loop that runs until the process ends."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="event loop", daemon=True).start()

    def start(self, request: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, and return its future."""
        return asyncio.run_coroutine_threadsafe(request, self._loop)

    def call(self, request: Coroutine[Any, Any, T], meanwhile: Callable[[], object] | None = None) -> T:
        """Run a coroutine, and return its result. meanwhile: called now and then until it is there."""
        future = self.start(request)
        while meanwhile is not None and not future.done():
            meanwhile()
            try:
                return future.result(CHECK_S)
            except TimeoutError:
                if future.done():  # the coroutine raised it
                    raise
        return future.result()
