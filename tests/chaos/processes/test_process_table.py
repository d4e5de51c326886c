"""The search for marked processes, and garbage collection."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.cluster.reaper import gc
from chaos.processes import process
from chaos.processes.process import ProcessId, Spawned, end_run, find_marked, spawn
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.chaos.conftest import roles

Start = Callable[..., Spawned]


def test_marked_processes_are_found_with_the_content_of_their_marks(run: Run, sleeper: Start) -> None:
    owner = ProcessId.current()
    child = sleeper("broker-1", owner)
    [found] = [m for m in find_marked() if m.run_dir == run.path]
    assert (found.identity, found.role, found.run_id) == (child.identity, "broker-1", run.run_id)
    assert found.owner == owner and found.owner.alive()
    assert found.state != "stopped" and found.rss_bytes > 0
    process.pause(child.identity)
    assert [m.state for m in find_marked() if m.run_dir == run.path] == ["stopped"]


def test_children_of_marked_processes_are_found_and_ended(run: Run) -> None:
    code = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    parent = spawn([sys.executable, "-c", code], run=run, role="parent", owner=None, log=None)
    wait_until(lambda: roles(run) == ["parent", "parent"], 10, "no child")
    assert len(end_run(run.path)) == 2
    assert roles(run) == []
    parent.popen.wait()


def test_processes_of_another_pid_namespace_are_ignored(run: Run) -> None:
    marks = process.marks_of(run, "broker-1", ProcessId(1, 1.0))
    for namespace, found in ((process.pid_namespace(), ["broker-1"]), ("pid:[1]", [])):
        owner = f"{ProcessId(1, 1.0)}@{namespace}"
        with subprocess.Popen(["sleep", "600"], env={**marks, process.OWNER: owner}) as theirs:
            wait_until(lambda: Path(f"/proc/{theirs.pid}/environ").read_bytes(), 10, "it shows no environment")
            assert roles(run) == found
            theirs.kill()


def test_a_run_with_the_same_id_in_another_directory_is_separate(run: Run, sleeper: Start, tmp_path: Path) -> None:
    twin = Run.create(tmp_path / "elsewhere", run.run_id)
    sleeper("mine")
    other = sleeper("other", of=twin)
    assert [m.role for m in end_run(run.path)] == ["mine"]
    assert other.identity.alive()


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Limit gc to the runs of this test."""
    everything = find_marked
    for module in ("chaos.processes.process", "chaos.cluster.reaper"):
        monkeypatch.setattr(
            f"{module}.find_marked",
            lambda: [m for m in everything() if m.run_dir.is_relative_to(tmp_path)],
        )
    monkeypatch.setattr("chaos.cluster.docker.engine.find_everywhere", list)


def test_gc_ends_only_processes_with_a_dead_owner(
    only: None, run: Run, sleeper: Start, other_owner: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    lost = Run.create(tmp_path, "lost")
    lost.brokers.mkdir()
    run.brokers.mkdir()
    owner = ProcessId.of(other_owner.pid)
    kept = sleeper("kept", ProcessId.current())
    orphan = sleeper("orphan", owner, of=lost)
    process.pause(orphan.identity)
    assert gc() == []
    other_owner.kill()
    other_owner.wait()
    assert [one.split()[0] for one in gc()] == ["orphan"]
    assert not orphan.identity.alive() and kept.identity.alive()
    assert not lost.brokers.exists() and lost.logs.exists() and run.brokers.exists()


def test_gc_ends_a_run_without_owner_only_if_it_has_no_reaper(only: None, run: Run, sleeper: Start) -> None:
    sleeper("broker-1")
    reaper = sleeper("reaper")
    assert gc() == []
    process.kill(reaper.identity)
    assert [one.split()[0] for one in gc()] == ["broker-1"]


def test_gc_of_one_run_or_of_all(only: None, run: Run, sleeper: Start, tmp_path: Path) -> None:
    second, third = Run.create(tmp_path, "second"), Run.create(tmp_path, "third")
    for one, role in ((run, "first"), (second, "second"), (third, "third")):
        sleeper(role, ProcessId.current(), of=one)
    assert [one.split()[0] for one in gc(run.run_id)] == ["first"]
    assert [one.split()[0] for one in gc(str(second.path))] == ["second"]
    assert [one.split()[0] for one in gc(force_all=True)] == ["third"]


def test_gc_of_a_run_ends_its_other_clusters_too(only: None, run: Run, sleeper: Start, tmp_path: Path) -> None:
    another = Run.create(tmp_path, "another")
    for whole in (run, another):
        whole.beside("dr").logs.mkdir(parents=True)
        sleeper("broker-1", ProcessId.current(), of=whole.beside("dr"))
    assert gc(str(tmp_path)) == [], "a folder of runs is no run"
    assert [one.split(" (")[0] for one in gc(run.run_id)] == [f"broker-1 of {run.run_id}/dr"]
    assert [one.split(" (")[0] for one in gc(str(another.path))] == ["broker-1 of another/dr"]
