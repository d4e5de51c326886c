"""What is asked of a tap: where it stands, how long it records, and in which folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import UsageError
from chaos.kafka.security import Security
from chaos.relay.roles import Payloads
from chaos.run.directory import Run, new_run_id
from chaos.run.locked import locked
from chaos.run.tap import path_of, tapped

LOCK = "tap.lock"


@dataclass(frozen=True)
class Order:
    """What is asked of a tap. security: of its own connections to the cluster. limit: bytes of the capture.
    authority: the folder of the authority with which a tap ends TLS; below its own folder if left out. options: the
    words of the command line that ask for the same again."""

    bootstrap: str
    security: Security
    listen: str
    port: int
    advertise: str
    payloads: Payloads
    limit: int | None = None
    for_s: float | None = None
    tls: bool = False
    authority: Path | None = None
    options: Sequence[str] = ()


def place(runs_dir: Path, into: Path | None, resume: Path | None) -> tuple[Run, bool]:
    """Return the run of a tap, and whether it goes on with one that was interrupted.

    into: a folder for it; an interrupted tap there goes on, and beside one that ended a new one gets a number.
    Raises `UsageError`.
    """
    if into and resume:
        raise UsageError("--into and --resume name two folders; give one of them")
    if resume:
        run = Run.open(resume)
        if tapped(run) is None:
            raise UsageError(f"{resume} is no folder of a tap: it has no {path_of(run).name}")
        return run, True
    if into is None:
        return Run.create(runs_dir, new_run_id("tap")), False
    number, at = 1, into.absolute()
    while path_of(Run(at)).exists() and Run(at).result.exists():
        number += 1
        at = into.absolute().with_name(f"{into.name}-{number}")
    if path_of(Run(at)).exists():
        return Run.open(at), True
    if (at / LOCK).exists():  # one that was killed before it began
        shutil.rmtree(at)
    return Run.create(at.parent, at.name), False


def held(run: Run) -> AbstractContextManager[None]:
    """Hold the folder of a tap. Raises `UsageError` if another process does."""
    return locked(run.path / LOCK, f"another process taps into {run.path}; end it first, or name another folder")
