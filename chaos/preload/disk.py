"""The disk of a process that preloads `disk.c`: its control file."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from chaos.install.cache import Progress, silent
from chaos.preload.build import Preload, compiled
from chaos.preload.control import SECOND_NS, ControlFile

CONTROL, FILES = "AFTERSHOCK_DISK", "AFTERSHOCK_DISK_FILES"
_FILE = ControlFile(struct.Struct("=qq"), struct.Struct("=QQ"))


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
    _FILE.create(path)


def set_delays(path: Path, delays: Delays) -> None:
    """Set the delays: at once, in a running process and in the next ones that use the file. Raises `OSError`."""
    _FILE.change(path, round(delays.write_s * SECOND_NS), round(delays.sync_s * SECOND_NS))


def delays(path: Path) -> Delays:
    """Return the delays that a control file sets. Raises `OSError`."""
    write_ns, sync_ns = _FILE.read(path)
    return Delays(write_ns / SECOND_NS, sync_ns / SECOND_NS)


def delayed(path: Path) -> Delayed:
    """Return how much was delayed, by the library itself. Raises `OSError`."""
    return Delayed(*_FILE.counted(path))


def preload(path: Path, files: Path, on_progress: Progress = silent) -> Preload:
    """Return what gives a process the disk of a control file, for the files in a directory. Raises as `compiled`."""
    return Preload(compiled("disk", on_progress), {CONTROL: str(path), FILES: str(files.resolve())})
