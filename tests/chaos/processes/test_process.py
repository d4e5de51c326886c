"""Process identities, signals, and marks that children inherit."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest

from chaos.errors import WaitTimeout
from chaos.processes import process
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.run.directory import Run
from chaos.wait import wait_until

Start = Callable[..., Spawned]


def test_a_process_id_is_equal_after_a_round_trip_through_text() -> None:
    me = ProcessId.current()
    assert ProcessId.parse(str(me)) == me
    assert me.pid == os.getpid() and me.alive()


@pytest.mark.parametrize("text", ["", "12", "a:1", "12:"])
def test_an_invalid_process_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ProcessId.parse(text)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_a_foreign_process_with_the_same_pid_is_never_signalled(sleeper: Start, number: int) -> None:
    child = sleeper()
    foreign = dataclasses.replace(child.identity, started=child.identity.started - 1)
    assert not foreign.alive()
    assert not foreign.signal(number)
    assert not process.kill(foreign) and not process.pause(foreign)
    assert child.identity.alive()
    # a program that still loads its pages is in "disk-sleep"
    assert psutil.Process(child.popen.pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)


def test_without_pidfd_the_start_time_is_checked(sleeper: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    child = sleeper()
    assert not dataclasses.replace(child.identity, started=0.5).signal(signal.SIGKILL)
    assert child.identity.alive()
    assert process.kill(child.identity)


def test_a_zombie_counts_as_gone(sleeper: Start) -> None:
    child = sleeper()
    assert process.kill(child.identity)
    assert psutil.Process(child.popen.pid).status() == psutil.STATUS_ZOMBIE
    assert not child.identity.alive()
    assert not process.kill(child.identity)


def test_a_paused_process_can_be_resumed_and_killed(sleeper: Start) -> None:
    child = sleeper()
    assert process.pause(child.identity)
    assert psutil.Process(child.popen.pid).status() == psutil.STATUS_STOPPED
    assert child.identity.alive()
    assert process.cont(child.identity)
    wait_until(lambda: psutil.Process(child.popen.pid).status() == psutil.STATUS_SLEEPING, 10, "not resumed")
    assert process.pause(child.identity)
    assert process.kill(child.identity)
    assert not child.identity.alive()


def test_a_process_that_ignores_sigterm_is_named_after_the_timeout(run: Run) -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    child = spawn([sys.executable, "-c", code], run=run, role="deaf", owner=None, log=run.logs / "deaf.log")
    wait_until(lambda: "ready" in (run.logs / "deaf.log").read_text(), 10, "not started")
    with pytest.raises(WaitTimeout, match=str(child.popen.pid)):
        process.terminate(child.identity, 0.1)
    assert process.kill(child.identity)
    child.popen.wait()


def test_a_spawned_process_has_a_new_session_and_its_environment(run: Run) -> None:
    owner = ProcessId.current()
    log = run.logs / "env.log"
    log.write_text("kept\n")
    code = "import os, chaos; print(os.getsid(0) == os.getpid(), {k: v for k, v in os.environ.items() if 'MARK' in k})"
    child = spawn(
        [sys.executable, "-c", code], run=run, role="shop/1", owner=owner, log=log, env={"MARKED": "1"}, cwd=run.path
    )
    assert child.popen.wait() == 0, log.read_text()
    assert log.read_text() == "kept\nTrue {'MARKED': '1'}\n"


def test_stdout_can_be_a_pipe_while_stderr_goes_to_the_log(run: Run) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr)"
    log = run.logs / "both.log"
    child = spawn([sys.executable, "-c", code], run=run, role="r", owner=None, log=log, stdout=subprocess.PIPE)
    assert child.popen.communicate()[0] == b"out\n"
    assert log.read_text() == "err\n"
