"""The reaper ends a run when nothing else does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from chaos.cluster.deployment import start_reaper
from chaos.cluster.reaper import end_all
from chaos.processes import process
from chaos.processes.process import ProcessId, Spawned
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.chaos.conftest import roles

Start = Callable[..., Spawned]


def test_the_reaper_ends_everything_when_the_owner_is_gone(
    run: Run, sleeper: Start, other_owner: subprocess.Popen[bytes]
) -> None:
    owner = ProcessId.of(other_owner.pid)
    run.brokers.mkdir()
    files = run.path / "apps" / "billing-1" / "files" / "conf"
    files.mkdir(parents=True)
    (files / "login.properties").touch(0o600)  # as templates with a password are written
    (files / "app.properties").touch(0o644)
    reaper = start_reaper(run, owner, 600)
    sleeper("broker-1", owner)
    process.pause(sleeper("broker-2", owner).identity)
    other_owner.kill()  # remains a zombie, which counts as gone
    assert reaper.popen.wait(60) == 0
    assert roles(run) == [] and not run.brokers.exists()
    assert [file.name for file in files.iterdir()] == ["app.properties"]
    log = (run.logs / "reaper.log").read_text()
    assert f"its owner, process {owner.pid}, is gone" in log
    assert "broker-1" in log and "broker-2" in log


def test_the_end_of_a_run_ends_its_other_clusters(run: Run, sleeper: Start) -> None:
    beside = run.beside("dr")
    beside.brokers.mkdir(parents=True)
    broker = sleeper("broker-1", ProcessId.current(), of=beside)
    assert [p.identity for p in end_all(run.path)] == [broker.identity]
    assert not broker.identity.alive() and not beside.brokers.exists()


def test_the_reaper_ends_everything_at_the_deadline_even_with_a_live_owner(run: Run, sleeper: Start) -> None:
    child = sleeper("broker-1", ProcessId.current())
    reaper = start_reaper(run, ProcessId.current(), 0.2)
    assert reaper.popen.wait(60) == 0
    assert not child.identity.alive()
    assert "its deadline of 0.2 s has passed" in (run.logs / "reaper.log").read_text()


def test_without_an_owner_the_reaper_waits_for_the_deadline(run: Run) -> None:
    reaper = start_reaper(run, None, 600)
    wait_until(lambda: "watching" in (run.logs / "reaper.log").read_text(), 30, "the reaper does not watch")
    assert reaper.identity.alive()
    process.kill(reaper.identity)
    reaper.popen.wait()


def test_the_reaper_imports_no_large_module() -> None:
    code = "import chaos.cluster.reaper, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"confluent_kafka", "pydantic", "psutil", "yaml", "pyarrow"} & set(loaded)
