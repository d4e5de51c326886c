"""The clock of a process that preloads `clock.c`: its control file."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from chaos.install.cache import Progress, silent
from chaos.preload.build import Preload, compiled

CONTROL = "AFTERSHOCK_CLOCK"
_VERSION = struct.Struct("=Q")
_SETTING = struct.Struct("=qqd")
SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Skew:
    """How wrong a clock is: seconds ahead of the machine's clock now, and seconds gained in each second from now on."""

    ahead_s: float = 0.0
    drift: float = 0.0


RIGHT = Skew()


def create(path: Path) -> None:
    """Create the control file of a clock that is right. An existing file keeps what it says."""
    if not path.exists():
        path.write_bytes(bytes(_VERSION.size + 2 * _SETTING.size))


def set_skew(path: Path, skew: Skew) -> None:
    """Set a clock: at once, in a running process and in the next ones that use the file. Raises `OSError`."""
    file = os.open(path, os.O_RDWR)
    try:
        version = _VERSION.unpack(os.pread(file, _VERSION.size, 0))[0] + 1
        setting = _SETTING.pack(round(skew.ahead_s * SECOND_NS), time.time_ns(), skew.drift)
        os.pwrite(file, setting, _VERSION.size + (version & 1) * _SETTING.size)
        os.pwrite(file, _VERSION.pack(version), 0)
    finally:
        os.close(file)


def ahead_s(path: Path) -> float:
    """Return how many seconds a clock is ahead of the machine's clock now, by its control file. Raises `OSError`."""
    data = path.read_bytes()
    place = _VERSION.size + (_VERSION.unpack_from(data)[0] & 1) * _SETTING.size
    offset_ns, since_ns, drift = _SETTING.unpack_from(data, place)
    return float(offset_ns + (time.time_ns() - since_ns) * drift) / SECOND_NS


def preload(path: Path, on_progress: Progress = silent) -> Preload:
    """Return what gives a process the clock of a control file. Raises as `compiled`."""
    return Preload(compiled("clock", on_progress), {CONTROL: str(path)})
