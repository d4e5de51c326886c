"""Running the platform from the outside, as a user or a script does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from chaos.processes.process_table import find_marked

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

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
    # a shell lets what it starts in the background ignore Ctrl-C, and all that these start in their turn
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True, preexec_fn=heed)


def left_running(runs_dir: Path) -> list[str]:
    """The roles of processes that still run for any run below a directory."""
    return [f"{m.role} of {m.run_id}" for m in find_marked() if runs_dir in m.run_dir.parents]
