"""The platform as a subprocess, as a user or a script runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from chaos.processes.process import find_marked

ROOT = Path(__file__).parents[2]
HELD = ("pass", "not applicable")
"""What an expectation is in `result.json` if nothing is wrong with it."""
SHORTEST = """
title: the shortest run
cluster: {brokers: 1}
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders, records: 1000}]
consumers: [{mode: assign, name: replay, topics: [orders], start: earliest}]
"""
"""The text of a scenario that passes, with one broker and no fault."""


@dataclass(frozen=True)
class Ended:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        assert self.out, f"no result on stdout, exit code {self.code}:\n{self.err[-3000:]}"
        return json.loads(self.out)


def chaos(*arguments: object, env: dict[str, str] | None = None, timeout_s: float = 400) -> Ended:
    """Run `python -m chaos` and wait for its end."""
    argv = [sys.executable, "-m", "chaos", *map(str, arguments)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def start(
    *arguments: object, env: dict[str, str] | None = None, stderr: int | IO[Any] = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start `python -m chaos` and leave it running."""
    argv = [sys.executable, "-m", "chaos", *map(str, arguments)]
    # a process that a shell starts in the background ignores Ctrl-C, and so do its children
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True, preexec_fn=heed)


def left_running(runs_dir: Path) -> list[str]:
    """Return the roles of the live processes of all runs below a directory."""
    return [f"{m.role} of {m.run_id}" for m in find_marked() if runs_dir in m.run_dir.parents]
