"""Waiting on conditions, never on the clock alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from chaos.errors import WaitTimeout

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float, why: Callable[[], str] | str, every_s: float = 0.05) -> T:
    """Return the first truthy value of `condition`.

    `why` says, at the moment of the time-out, what was still missing: it becomes the message of `WaitTimeout`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            reason = why() if callable(why) else why
            raise WaitTimeout(f"{reason} (waited {timeout_s:g} s)")
        time.sleep(every_s)
