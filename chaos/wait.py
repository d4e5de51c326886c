"""Waiting for conditions instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from chaos.errors import AftershockError, WaitTimeout

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    timeout_s: float,
    why: Callable[[], str] | str,
    every_s: float = 0.05,
    error: type[AftershockError] = WaitTimeout,
    during: Callable[[], None] = lambda: None,
) -> T:
    """Call `condition` every `every_s` seconds, and return its first truthy value. Raises `error`.

    `why` describes what is missing, and becomes the message of the error. A function is called at the timeout.
    during: called before each check; it may raise to end the wait.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        during()
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            reason = why() if callable(why) else why
            raise error(f"{reason} (waited {timeout_s:g} s)")
        time.sleep(every_s)
