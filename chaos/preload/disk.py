"""The disk of a process that preloads `disk.c`: its control file."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from chaos.install.cache import Progress, silent
from chaos.preload.build import Preload, compiled

CONTROL, FILES = "AFTERSHOCK_DISK", "AFTERSHOCK_DISK_FILES"
_VERSION = struct.Struct("=Q")
_DELAYS = struct.Struct("=qq")
_DONE = struct.Struct("=QQ")
_DONE_AT = _VERSION.size + 2 * _DELAYS.size
SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Delays:
    """How many seconds longer each write takes, and each request to bring data to the device (fsync and its like)."""

    write_s: float = 0.0
    sync_s: float = 0.0


FAST = Delays()


@dataclass(frozen=True)
class Delayed:
    """How many writes and how many syncs were delayed since the control file was made."""

    writes: int
    syncs: int


def create(path: Path) -> None:
    """Create the control file of a disk that is as fast as that of the machine. An existing file keeps what it says."""
    if not path.exists():
        path.write_bytes(bytes(_DONE_AT + _DONE.size))


def set_delays(path: Path, delays: Delays) -> None:
    """Set the delays: at once, in a running process and in the next ones that use the file. Raises `OSError`."""
    file = os.open(path, os.O_RDWR)
    try:
        version = _VERSION.unpack(os.pread(file, _VERSION.size, 0))[0] + 1
        delays_ns = _DELAYS.pack(round(delays.write_s * SECOND_NS), round(delays.sync_s * SECOND_NS))
        os.pwrite(file, delays_ns, _VERSION.size + (version & 1) * _DELAYS.size)
        os.pwrite(file, _VERSION.pack(version), 0)
    finally:
        os.close(file)


def delays(path: Path) -> Delays:
    """Return the delays that a control file sets. Raises `OSError`."""
    data = path.read_bytes()
    place = _VERSION.size + (_VERSION.unpack_from(data)[0] & 1) * _DELAYS.size
    write_ns, sync_ns = _DELAYS.unpack_from(data, place)
    return Delays(write_ns / SECOND_NS, sync_ns / SECOND_NS)


def delayed(path: Path) -> Delayed:
    """Return how much was delayed, by the library itself. Raises `OSError`."""
    return Delayed(*_DONE.unpack_from(path.read_bytes(), _DONE_AT))


def preload(path: Path, files: Path, on_progress: Progress = silent) -> Preload:
    """Return what gives a process the disk of a control file, for the files in a directory. Raises as `compiled`."""
    return Preload(compiled("disk", on_progress), {CONTROL: str(path), FILES: str(files.resolve())})
