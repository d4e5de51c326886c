"""`python -m checks` as a process: how it is started, heard and ended. Spark stays out of this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from chaos.processes.process import ProcessId, spawn
from chaos.run.directory import Run
from chaos.run.events import Event

LOG = "checks.log"


def start(run: Run, *argv: str) -> subprocess.Popen[bytes]:
    """Start it with these arguments, as a process of this run or catalogue, with its log there. Raises `OSError`."""
    run.logs.mkdir(parents=True, exist_ok=True)
    return spawn(
        [sys.executable, "-m", "checks", *argv],
        run=run,
        role="checks",
        owner=ProcessId.current(),
        log=run.logs / LOG,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ).popen


def heard(child: subprocess.Popen[bytes]) -> Iterator[Event]:
    """What it tells, until it ends."""
    assert child.stdout is not None
    for line in child.stdout:
        yield json.loads(line)


def end(child: subprocess.Popen[bytes]) -> None:
    """Kill it if it still runs."""
    if child.poll() is None:
        child.kill()
        child.wait()
