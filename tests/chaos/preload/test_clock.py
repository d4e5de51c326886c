"""Clocks of single processes: control file, environment, and what a process with such a clock sees."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.errors import MachineError, ResolveError
from chaos.install.cache import silent
from chaos.preload import libraries
from chaos.preload.libraries import RIGHT, Skew

pytestmark = pytest.mark.slow

NEAR_S = 5.0
"""Delay of a loaded machine; all shifts here are far greater."""
SHOW = """
import sys, time
for line in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""
WAIT = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
one, other = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
BEFORE = {
    "sem_timedwait": lambda: libc.sem_init(one, 0, 0),
    "pthread_cond_timedwait": lambda: libc.pthread_mutex_lock(other),
    "pthread_mutex_timedlock": lambda: libc.pthread_mutex_lock(one),
    "cnd_timedwait": lambda: (libc.cnd_init(one), libc.mtx_init(other, 0), libc.mtx_lock(other)),
    "mtx_timedlock": lambda: (libc.mtx_init(one, 2), libc.mtx_lock(one)),
}
name = sys.argv[1]
BEFORE[name]()
began, until = time.monotonic(), time.time() + 1
with_mutex = [other] if "cond" in name or "cnd" in name else []
getattr(libc, name)(one, *with_mutex, ctypes.byref(Timespec(int(until), int(until % 1 * 1e9))))
print(time.monotonic() - began)
"""
WAITS = ("sem_timedwait", "pthread_cond_timedwait", "pthread_mutex_timedlock", "cnd_timedwait", "mtx_timedlock")


@pytest.fixture
def control(tmp_path: Path) -> Path:
    path = tmp_path / "a clock"
    libraries.create_clock(path)
    return path


class Shown:
    """A process that shows its clocks when asked."""

    def __init__(self, control: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SHOW],
            env=libraries.environment(libraries.preload_clock(control)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ahead_s(self) -> tuple[float, float]:
        """Return how far its wall clock and its monotonic clock are ahead of this process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        wall, monotonic = map(float, self._process.stdout.readline().split())
        return wall - time.time(), monotonic - time.monotonic()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def shown(control: Path) -> Iterator[Shown]:
    process = Shown(control)
    yield process
    process.end()


@pytest.mark.parametrize("shift_s", [7200.25, -7200.25, 3650 * 86_400.0, -3650 * 86_400.0])
def test_a_running_process_sees_a_jump_and_its_heal_and_keeps_the_clock_for_durations(
    control: Path, shown: Shown, shift_s: float
) -> None:
    assert shown.ahead_s() == pytest.approx((0, 0), abs=NEAR_S)
    libraries.set_skew(control, Skew(shift_s))
    assert shown.ahead_s() == pytest.approx((shift_s, 0), abs=NEAR_S)
    libraries.set_skew(control, RIGHT)
    assert shown.ahead_s() == pytest.approx((0, 0), abs=NEAR_S)


def test_a_clock_drifts_from_the_moment_at_which_it_was_set(control: Path, shown: Shown) -> None:
    libraries.set_skew(control, Skew(drift=50))
    began = time.monotonic()
    time.sleep(0.5)
    before = time.monotonic() - began
    wall, monotonic = shown.ahead_s()
    after = time.monotonic() - began
    assert 50 * before - 0.5 <= wall <= 50 * after + 0.5
    assert monotonic == pytest.approx(0, abs=NEAR_S)


def test_a_process_that_starts_later_has_the_clock_too(control: Path) -> None:
    libraries.set_skew(control, Skew(-3600))
    later = Shown(control)
    assert later.ahead_s()[0] == pytest.approx(-3600, abs=NEAR_S)
    later.end()


@pytest.mark.parametrize("skew", [RIGHT, Skew(3600), Skew(-3600)])
def test_a_wait_until_a_time_of_the_wrong_clock_keeps_its_length(control: Path, skew: Skew) -> None:
    libraries.set_skew(control, skew)
    env = libraries.environment(libraries.preload_clock(control))
    waiting = {
        wait: subprocess.Popen([sys.executable, "-c", WAIT, wait], env=env, stdout=subprocess.PIPE, text=True)
        for wait in WAITS
    }
    lengths = {wait: float(process.communicate(timeout=60)[0]) for wait, process in waiting.items()}
    assert all(0.9 <= length_s <= 1 + NEAR_S for length_s in lengths.values()), lengths


def test_the_control_file_says_how_far_a_clock_is_ahead(control: Path) -> None:
    assert libraries.ahead_s(control) == 0
    libraries.set_skew(control, Skew(-90))
    libraries.create_clock(control)  # as a second deployment of the same run would
    assert libraries.ahead_s(control) == -90
    libraries.set_skew(control, Skew(drift=1000))
    first = libraries.ahead_s(control)
    assert 0 <= first < libraries.ahead_s(control)


def test_a_process_without_its_control_file_ends_with_the_path(tmp_path: Path) -> None:
    env = libraries.environment(libraries.preload_clock(tmp_path / "missing"))
    done = subprocess.run([sys.executable, "-c", ""], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 120
    assert f"{tmp_path / 'missing'}: No such file" in done.stderr


def test_a_library_that_was_preloaded_before_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [libraries.Preload(Path("/clock.so"), {"A": "1"}), libraries.Preload(Path("/disk.so"), {"B": "2"})]
    monkeypatch.setenv("LD_PRELOAD", "/other.so")
    assert libraries.environment(*both) == {"LD_PRELOAD": "/clock.so:/disk.so:/other.so", "A": "1", "B": "2"}
    assert libraries.environment() == {}
    monkeypatch.delenv("LD_PRELOAD")
    assert libraries.environment(both[1]) == {"LD_PRELOAD": "/disk.so", "B": "2"}


def test_a_machine_without_a_compiler_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MachineError, match=r"no C compiler \(cc, gcc, clang\) on PATH .* gcc and libc6-dev"):
        libraries.compiled("clock")


def test_a_system_without_preloading_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(MachineError, match="on Linux only"):
        libraries.compiled("clock")


def test_a_cache_that_cannot_be_named_in_the_variable_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "my cache"))
    with pytest.raises(MachineError, match="set AFTERSHOCK_CACHE to a directory without them"):
        libraries.compiled("clock")


def test_a_library_that_does_not_compile_or_load_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "broken.c"
    source.write_text("int f(void) { return }")
    with pytest.raises(ResolveError, match=r"broken.c does not compile with .*error.*libc6-dev"):
        libraries._compile(source, tmp_path, silent)
    source.write_text("int f(void) { return 0; }")
    monkeypatch.setattr(libraries, "_FLAGS", ("-c", "-fPIC"))
    with pytest.raises(ResolveError, match="was compiled, but cannot be loaded"):
        libraries._compile(source, tmp_path, silent)
