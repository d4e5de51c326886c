"""The clock of a process that preloads `clock.c`: its control file."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from pathlib import Path

from chaos.install.cache import Progress, silent
from chaos.preload.build import Preload, compiled
from chaos.preload.control import SECOND_NS, ControlFile

CONTROL = "AFTERSHOCK_CLOCK"
_FILE = ControlFile(struct.Struct("=qqd"))


@dataclass(frozen=True)
class Skew:
    """How wrong a clock is: seconds ahead of the machine's clock now, and seconds gained in each second from now on."""

    ahead_s: float = 0.0
    drift: float = 0.0


RIGHT = Skew()


def create(path: Path) -> None:
    """Create the control file of a clock that is right. An existing file keeps what it says."""
    _FILE.create(path)


def set_skew(path: Path, skew: Skew) -> None:
    """Set a clock: at once, in a running process and in the next ones that use the file. Raises `OSError`."""
    _FILE.change(path, round(skew.ahead_s * SECOND_NS), time.time_ns(), skew.drift)


def ahead_s(path: Path) -> float:
    """Return how many seconds a clock is ahead of the machine's clock now, by its control file. Raises `OSError`."""
    offset_ns, since_ns, drift = _FILE.read(path)
    return float(offset_ns + (time.time_ns() - since_ns) * drift) / SECOND_NS


def preload(path: Path, on_progress: Progress = silent) -> Preload:
    """Return what gives a process the clock of a control file. Raises as `compiled`."""
    return Preload(compiled("clock", on_progress), {CONTROL: str(path)})
