"""CPU time and memory of processes: of their children, of the time before they are read, and after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from chaos.processes.process import Spawned, spawn
from chaos.processes.usage import Usage, UsageMeter, read_usages
from chaos.run.directory import Run
from chaos.wait import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")

BURN = "end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
CHILD = f"import time\n{BURN}print('burnt', flush=True)\ntime.sleep(600)"
Start = Callable[[str], Spawned]


@pytest.fixture
def start(run: Run) -> Iterator[Start]:
    """Starts Python programs that print a line when they are ready."""
    started: list[Spawned] = []

    def start(code: str) -> Spawned:
        argv = [sys.executable, "-c", code]
        started.append(spawn(argv, run=run, role="burner", owner=None, log=None, stdout=subprocess.PIPE))
        assert started[-1].popen.stdout and started[-1].popen.stdout.readline()
        return started[-1]

    yield start
    for one in started:
        one.signal_group(signal.SIGKILL)
        one.popen.communicate()


def test_a_running_child_counts_for_the_process_that_leads_its_session(start: Start) -> None:
    alone = start("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    parent = start(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {CHILD!r}])")
    found = read_usages([parent.popen.pid, alone.popen.pid])
    used, idle = found[parent.popen.pid], found[alone.popen.pid]
    assert used.cpu_us > 250_000 > idle.cpu_us
    assert used.peak_rss_bytes > 1.5 * idle.peak_rss_bytes


def test_a_child_that_ended_still_counts_and_counts_once(start: Start) -> None:
    code = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {'import time' + chr(10) + BURN!r}])\n"
    parent = start(code + "print('burnt', flush=True)\ntime.sleep(600)")
    used = read_usages([parent.popen.pid])[parent.popen.pid]
    assert 250_000 < used.cpu_us < 2_000_000


def test_the_largest_memory_is_kept_when_it_is_given_back(start: Start) -> None:
    code = "import time\nx = bytearray(200 * 2**20)\nx[::4096] = b'1' * (len(x) // 4096)\ndel x\n"
    pid = start(code + "print('freed', flush=True)\ntime.sleep(600)").popen.pid
    used = read_usages([pid])[pid]
    assert 200 * 2**20 < used.peak_rss_bytes < 260 * 2**20


def test_what_was_read_before_a_kill_stays_and_the_start_is_apart(start: Start) -> None:
    child = start("import time\nprint('ready', flush=True)\n" + CHILD)
    meter = UsageMeter(child.popen.pid)
    meter.mark_started()
    wait_until(lambda: meter.read() or (meter.total or Usage()).cpu_us > 250_000, 30, "it used no CPU time")
    before = meter.total
    child.signal_group(signal.SIGKILL)
    child.wait(at_end=meter.read)
    meter.read()
    assert meter.total and before and meter.started
    assert meter.total.cpu_us >= before.cpu_us > meter.started.cpu_us
    assert meter.total.peak_rss_bytes == before.peak_rss_bytes


def test_a_process_that_ends_is_read_while_it_is_a_zombie(start: Start) -> None:
    child = start(f"import time\nprint('ready', flush=True)\n{BURN}")
    meter = UsageMeter(child.popen.pid)
    child.wait(at_end=meter.read)
    assert meter.total is not None and meter.total.cpu_us > 250_000


def test_nothing_is_known_of_a_process_that_is_gone() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    meter = UsageMeter(gone.pid)
    meter.mark_started()
    assert meter.total is None and meter.started is None
    assert read_usages([gone.pid]) == {}
