"""Fixtures: runs that leave nothing behind, and processes for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.processes.process import ProcessId, Spawned, end_run, find_marked, spawn
from chaos.run.directory import Run

Start = Callable[..., Spawned]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run.create(tmp_path, f"run of {tmp_path.name}")
    yield run
    end_run(run.path)


@pytest.fixture
def sleeper(run: Run) -> Iterator[Start]:
    """Starts marked processes that sleep."""
    started: list[Spawned] = []

    def start(role: str = "sleeper", owner: ProcessId | None = None, of: Run = run) -> Spawned:
        started.append(spawn(["sleep", "600"], run=of, role=role, owner=owner, log=None))
        return started[-1]

    yield start
    for one in started:
        one.popen.kill()
        one.popen.wait()


@pytest.fixture
def other_owner() -> Iterator[subprocess.Popen[bytes]]:
    """An unmarked process that can own other processes."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def roles(run: Run) -> list[str]:
    """Return the roles of the live processes of a run."""
    return [m.role for m in find_marked() if m.run_dir == run.path]


class Time:
    """Stands for the module: its time passes only while somebody sleeps."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
