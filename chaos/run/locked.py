"""A folder that one process at a time works in."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.errors import UsageError


@contextmanager
def locked(lock: Path, refusal: str) -> Iterator[None]:
    """Hold a file of a folder. Raises `UsageError` with the refusal if another process does."""
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(refusal) from None
        yield
