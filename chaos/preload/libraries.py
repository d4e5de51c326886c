"""Libraries that a process preloads: their compilation, the environment that loads them, and their control files.

A control file has a version, two places for a setting, and space for what the library counts. The version says which
place is valid. A change is written to the other place first, so that a process that maps the file never reads half of a
setting.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.errors import MachineError, ResolveError
from chaos.install.cache import Progress, cache_dir, cached, run_tool, silent

COMPILERS = ("cc", "gcc", "clang")
COMPILE_S = 120
PRELOAD = "LD_PRELOAD"
_FLAGS = ("-shared", "-fPIC", "-O2")
_LIBRARIES = ("-ldl", "-lpthread")
_SOURCES = Path(__file__).parent


@dataclass(frozen=True)
class Preload:
    """A library that a process loads before all others, and the environment variables that the library reads."""

    library: Path
    variables: dict[str, str] = field(default_factory=dict)


def compiled(name: str, on_progress: Progress = silent) -> Path:
    """Return the shared object of `<name>.c`. It is compiled once, and loaded once as a check.

    Raises `MachineError` without Linux or a C compiler, `ResolveError` if it does not compile or load.
    """
    if sys.platform != "linux":
        raise MachineError(f"the {name} of single processes can be changed on Linux only; run the scenario there")
    if any(character in str(cache_dir()) for character in " :\t\n"):
        raise MachineError(
            f"a library in {cache_dir()} cannot be preloaded, because LD_PRELOAD separates paths by spaces and colons; "
            "set AFTERSHOCK_CACHE to a directory without them"
        )
    source = _SOURCES / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes() + " ".join(_FLAGS).encode()).hexdigest()[:12]
    folder = f"preload/{name}-{digest}-{os.uname().machine}"
    waiting = f"another run compiles {source.name}; waiting for it"
    return cached(folder, lambda target: _compile(source, target, on_progress), waiting, on_progress) / f"{name}.so"


def environment(*preloads: Preload) -> dict[str, str]:
    """Return the environment variables of a process that loads libraries before its own."""
    if not preloads:
        return {}
    before = os.environ.get(PRELOAD)
    libraries = [*(str(preload.library) for preload in preloads), *([before] if before else [])]
    variables = {key: value for preload in preloads for key, value in preload.variables.items()}
    return {**variables, PRELOAD: ":".join(libraries)}


def _compile(source: Path, target: Path, on_progress: Progress) -> None:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise MachineError(
            f"there is no C compiler ({', '.join(COMPILERS)}) on PATH to compile {source.name}; install one, "
            "such as the packages gcc and libc6-dev of Debian"
        )
    on_progress(f"compiling {source.name}, once")
    library = target / f"{source.stem}.so"
    late = f"{compiler} did not end within {COMPILE_S} s; try again"
    done = run_tool([compiler, *_FLAGS, "-o", str(library), str(source), *_LIBRARIES], {}, COMPILE_S, late)
    if done.returncode:
        raise ResolveError(
            f"{source} does not compile with {compiler}: {_error(done.stderr)}; install the headers of the C library, "
            "such as the package libc6-dev of Debian"
        )
    # the loader ignores a library that it cannot load, and says so
    done = run_tool([sys.executable, "-c", ""], {PRELOAD: str(library)}, COMPILE_S, late)
    if done.returncode or PRELOAD in done.stderr:
        raise ResolveError(f"{library} was compiled, but cannot be loaded: {_error(done.stderr)}")


def _error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return ([line for line in lines if "error" in line.lower()] or lines or ["no output"])[0][:300]


SECOND_NS = 1_000_000_000
_VERSION = struct.Struct("=Q")
_NOTHING = struct.Struct("=")


@dataclass(frozen=True)
class ControlFile:
    """The form of a control file. counts: what the library counts, behind the setting; none if left out."""

    setting: struct.Struct
    counts: struct.Struct = _NOTHING

    def create(self, path: Path) -> None:
        """Create a file in which everything is 0. An existing file keeps what it says."""
        if not path.exists():
            path.write_bytes(bytes(self._counts_at + self.counts.size))

    def change(self, path: Path, *values: float) -> None:
        """Change the setting: at once, in a running process and in the next ones. Raises `OSError`."""
        file = os.open(path, os.O_RDWR)
        try:
            version = _VERSION.unpack(os.pread(file, _VERSION.size, 0))[0] + 1
            os.pwrite(file, self.setting.pack(*values), self._setting_at(version))
            os.pwrite(file, _VERSION.pack(version), 0)
        finally:
            os.close(file)

    def read(self, path: Path) -> tuple[Any, ...]:
        """Return the values of the setting. Raises `OSError`."""
        data = path.read_bytes()
        return self.setting.unpack_from(data, self._setting_at(_VERSION.unpack_from(data)[0]))

    def counted(self, path: Path) -> tuple[Any, ...]:
        """Return what the library counted. Raises `OSError`."""
        return self.counts.unpack_from(path.read_bytes(), self._counts_at)

    def _setting_at(self, version: int) -> int:
        return _VERSION.size + (version & 1) * self.setting.size

    @property
    def _counts_at(self) -> int:
        return _VERSION.size + 2 * self.setting.size


CLOCK_CONTROL = "AFTERSHOCK_CLOCK"
_CLOCK_FILE = ControlFile(struct.Struct("=qqd"))


@dataclass(frozen=True)
class Skew:
    """How wrong a clock is: seconds ahead of the machine's clock now, and seconds gained in each second from now on."""

    ahead_s: float = 0.0
    drift: float = 0.0


RIGHT = Skew()


def create_clock(path: Path) -> None:
    """Create the control file of a clock that is right. An existing file keeps what it says."""
    _CLOCK_FILE.create(path)


def set_skew(path: Path, skew: Skew) -> None:
    """Set a clock: at once, in a running process and in the next ones that use the file. Raises `OSError`."""
    _CLOCK_FILE.change(path, round(skew.ahead_s * SECOND_NS), time.time_ns(), skew.drift)


def ahead_s(path: Path) -> float:
    """Return how many seconds a clock is ahead of the machine's clock now, by its control file. Raises `OSError`."""
    offset_ns, since_ns, drift = _CLOCK_FILE.read(path)
    return float(offset_ns + (time.time_ns() - since_ns) * drift) / SECOND_NS


def preload_clock(path: Path) -> Preload:
    """Return what gives a process the clock of a control file. Raises as `compiled`."""
    return Preload(compiled("clock"), {CLOCK_CONTROL: str(path)})


DISK_CONTROL, FILES = "AFTERSHOCK_DISK", "AFTERSHOCK_DISK_FILES"
_DISK_FILE = ControlFile(struct.Struct("=qq"), struct.Struct("=QQ"))


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


def create_disk(path: Path) -> None:
    """Create the control file of a disk as fast as the disk of the machine. An existing file keeps what it says."""
    _DISK_FILE.create(path)


def set_delays(path: Path, delays: Delays) -> None:
    """Set the delays: at once, in a running process and in the next ones that use the file. Raises `OSError`."""
    _DISK_FILE.change(path, round(delays.write_s * SECOND_NS), round(delays.sync_s * SECOND_NS))


def delays(path: Path) -> Delays:
    """Return the delays that a control file sets. Raises `OSError`."""
    write_ns, sync_ns = _DISK_FILE.read(path)
    return Delays(write_ns / SECOND_NS, sync_ns / SECOND_NS)


def delayed(path: Path) -> Delayed:
    """Return how much was delayed, by the library itself. Raises `OSError`."""
    return Delayed(*_DISK_FILE.counted(path))


def preload_disk(path: Path, files: Path) -> Preload:
    """Return what gives a process the disk of a control file, for the files in a directory. Raises as `compiled`."""
    return Preload(compiled("disk"), {DISK_CONTROL: str(path), FILES: str(files.resolve())})
