"""Slow disks of single processes: control file, what a process waits for, and the meter of a JVM."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.preload import libraries, meter
from chaos.preload.libraries import FAST, Delayed, Delays, Skew
from chaos.preload.meter import Meter, Reading

pytestmark = pytest.mark.slow

DELAY_S = 0.3
FAST_S = 0.25
"""Maximum time of an operation that is not delayed, on a loaded machine; it takes microseconds."""
LATE_S = 5.0

ACT = """
import ctypes, mmap, os, socket, sys, time
folder = sys.argv[1]
file = os.open(folder + "/data/log", os.O_RDWR | os.O_CREAT)
other = os.open(folder + "/data-of-another", os.O_RDWR | os.O_CREAT)
directory = os.open(folder + "/data", os.O_RDONLY)
os.ftruncate(file, 4096)
mapped, anonymous = mmap.mmap(file, 4096), mmap.mmap(-1, 4096)
left, right = socket.socketpair()
libc = ctypes.CDLL(None, use_errno=True)
class Part(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]
acts = {
    "write": lambda: os.write(file, b"x"),
    "writev": lambda: os.writev(file, [b"x", b"y"]),
    "pwrite": lambda: os.pwrite(file, b"x", 0),
    "pwritev": lambda: libc.pwritev(file, ctypes.byref(Part(b"x", 1)), 1, ctypes.c_long(0)),
    "pwritev64": lambda: libc.pwritev64(file, ctypes.byref(Part(b"x", 1)), 1, ctypes.c_long(0)),
    "posix_fallocate64": lambda: libc.posix_fallocate64(file, ctypes.c_long(0), ctypes.c_long(8192)),
    "fsync": lambda: os.fsync(file),
    "fdatasync": lambda: os.fdatasync(file),
    "msync": lambda: mapped.flush(),
    "fsync of the directory": lambda: os.fsync(directory),
    "write elsewhere": lambda: os.write(other, b"x"),
    "fsync elsewhere": lambda: os.fsync(other),
    "msync of memory": lambda: anonymous.flush(),
    "write to a socket": lambda: os.write(left.fileno(), b"x"),
    "read": lambda: len(os.pread(file, 1, 0)),
    "clock": lambda: None,
    "failed write": lambda: libc.write(directory, b"x", 1) == -1 and ctypes.get_errno(),
}
print("ready", flush=True)
for line in sys.stdin:
    began = time.monotonic()
    found = acts[line.strip()]()
    print(time.monotonic() - began, time.time(), int(found or 0), flush=True)
"""
WRITES = ("write", "writev", "pwrite", "pwritev", "pwritev64", "posix_fallocate64")
SYNCS = ("fsync", "fdatasync", "msync", "fsync of the directory")
OTHERS = ("write elsewhere", "fsync elsewhere", "msync of memory", "write to a socket", "read")


@pytest.fixture
def control(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    path = tmp_path / "a disk"
    libraries.create_disk(path)
    return path


class Writer:
    """A process that writes when asked."""

    def __init__(self, control: Path, *more: libraries.Preload) -> None:
        folder = control.parent
        self._process = subprocess.Popen(
            [sys.executable, "-c", ACT, str(folder)],
            env=libraries.environment(libraries.preload_disk(control, folder / "data"), *more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    def begin(self, act: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(act + "\n")
        self._process.stdin.flush()

    def end(self) -> tuple[float, float, int]:
        """Return how long the act took, when it ended by the clock of the process, and its result."""
        assert self._process.stdout
        took, at, result = self._process.stdout.readline().split()
        return float(took), float(at), int(result)

    def took_s(self, act: str) -> float:
        self.begin(act)
        return self.end()[0]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def writer(control: Path) -> Iterator[Writer]:
    process = Writer(control)
    yield process
    process.close()


@pytest.mark.parametrize(("acts", "delays"), [(WRITES, Delays(write_s=DELAY_S)), (SYNCS, Delays(sync_s=DELAY_S))])
def test_what_writes_or_syncs_a_file_of_the_disk_takes_longer_until_the_heal(
    control: Path, writer: Writer, acts: tuple[str, ...], delays: Delays
) -> None:
    libraries.set_delays(control, delays)
    for act in acts:
        assert DELAY_S <= writer.took_s(act) <= LATE_S, act
    for act in {*WRITES, *SYNCS} - {*acts}:
        assert writer.took_s(act) < FAST_S, act
    counted = libraries.delayed(control)
    assert counted == (Delayed(len(acts), 0) if delays.write_s else Delayed(0, len(acts)))
    libraries.set_delays(control, FAST)
    for act in acts:
        assert writer.took_s(act) < FAST_S, act
    assert libraries.delayed(control) == counted


def test_nothing_else_of_the_process_is_delayed(control: Path, writer: Writer) -> None:
    libraries.set_delays(control, Delays(DELAY_S, DELAY_S))
    for act in OTHERS:
        assert writer.took_s(act) < FAST_S, act
    assert libraries.delayed(control) == Delayed(0, 0)


def test_a_heal_ends_a_wait_that_has_begun(control: Path, writer: Writer) -> None:
    libraries.set_delays(control, Delays(write_s=600))
    writer.begin("write")
    while libraries.delayed(control).writes == 0:
        time.sleep(0.01)
    libraries.set_delays(control, FAST)
    assert writer.end()[0] < 60


def test_the_error_of_a_failed_write_is_the_one_of_the_system(control: Path, writer: Writer) -> None:
    libraries.set_delays(control, Delays(write_s=0.05))
    writer.begin("failed write")
    assert writer.end()[2] == 9  # EBADF: a directory that is open for reading


def test_a_process_that_starts_later_has_the_slow_disk_too(control: Path) -> None:
    libraries.set_delays(control, Delays(write_s=DELAY_S))
    later = Writer(control)
    assert later.took_s("write") >= DELAY_S
    later.close()


def test_one_process_has_a_wrong_clock_and_a_slow_disk_at_once(control: Path) -> None:
    libraries.create_clock(control.with_name("clock"))
    libraries.set_skew(control.with_name("clock"), Skew(7200))
    libraries.set_delays(control, Delays(sync_s=DELAY_S))
    both = Writer(control, libraries.preload_clock(control.with_name("clock")))
    both.begin("fsync")
    took, at, _ = both.end()
    assert DELAY_S <= took <= LATE_S
    assert at - time.time() == pytest.approx(7200, abs=LATE_S)
    both.close()


def test_the_control_file_says_what_is_delayed(control: Path) -> None:
    assert libraries.delays(control) == FAST
    libraries.set_delays(control, Delays(0.05, 0.2))
    libraries.create_disk(control)  # as a second deployment of the same run would
    assert libraries.delays(control) == Delays(0.05, 0.2)


@pytest.mark.parametrize("missing", [libraries.DISK_CONTROL, libraries.FILES])
def test_a_process_without_its_control_file_or_directory_ends_and_says_so(control: Path, missing: str) -> None:
    env = libraries.environment(libraries.preload_disk(control, control.parent / "data"))
    env = (
        {**env, libraries.DISK_CONTROL: "/nowhere/disk"}
        if missing == libraries.DISK_CONTROL
        else {**env, libraries.FILES: "x" * 5000}
    )
    done = subprocess.run([sys.executable, "-c", ""], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 120
    assert ("/nowhere/disk: No such file" if missing == libraries.DISK_CONTROL else "names no directory") in done.stderr


def test_a_reading_of_a_meter_is_what_was_measured_since_another_one(tmp_path: Path) -> None:
    path = tmp_path / "meter"
    assert meter.read(path) is None
    path.write_text("reading 7 4711\nproduce 10 2.0\nflush 4 250.0\n")
    first = meter.read(path)
    assert first == Reading(4711, 7, Meter(10, pytest.approx(0.02)), Meter(4, pytest.approx(1.0)))
    path.write_text("reading 9 4711\nproduce 12 12.0\nflush 4 250.0\n")
    later = meter.read(path)
    assert later is not None
    spent = later.since(first)
    assert spent.produce.count == 2
    assert spent.produce.mean_s == pytest.approx((0.144 - 0.02) / 2)
    assert spent.flush == Meter(0, 0)
    assert spent.flush.mean_s == 0


def test_all_that_a_node_measured_after_a_restart_counts(tmp_path: Path) -> None:
    path = tmp_path / "meter"
    path.write_text("reading 2 4712\nproduce 30 60.0\n")
    restarted = meter.read(path)
    assert restarted is not None
    assert restarted.since(Reading(4711, 900, Meter(10, 0.02))) == restarted
