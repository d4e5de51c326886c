"""The other half of Aftershock, as a process of its own: Spark and Great Expectations stay out of this one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from chaos.cli.view import View
from chaos.errors import FAIL, INCONCLUSIVE, PASS, USAGE, AftershockError, UsageError
from chaos.lab import judge_process
from chaos.run.directory import Run

_ROOT = Path(__file__).resolve().parents[2]


def check_master(master: str | None) -> None:
    """Refuse a Spark master that is none, or that nothing answers at, before anything is started."""
    if master is None:
        return
    argv = [sys.executable, "-m", "checks.spark.master", master]
    done = subprocess.run(argv, cwd=_ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(done.stderr.strip().splitlines()[-1])


class Checks:
    """`python -m checks` on one run directory; leaving the context ends it.

    when_told: it starts Spark at once, which takes seconds, and waits until `judge` is called. uri: where the run
    directory is when it is not on this machine; `run` is then where its working copy is made.
    """

    def __init__(
        self, run: Run, view: View, master: str | None, *, when_told: bool = False, uri: str | None = None
    ) -> None:
        self._view, self._log, self._when_told = view, run.logs / judge_process.LOG, when_told
        what = [uri, "--work", str(run.path.parent)] if uri else [str(run.path)]
        master_given = ["--spark-master", master] if master else []
        self._child = judge_process.start(run, *what, *master_given, *(["--standby"] if when_told else []))

    def __enter__(self) -> Checks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        judge_process.end(self._child)

    def wait_ready(self) -> None:
        """Return when it has started, so that its start does not disturb what is measured; also if it died."""
        for event in judge_process.heard(self._child):
            if event["kind"] == "ready":
                return

    def judge(self, after_readback: Callable[[], None] = lambda: None) -> int:
        """Let it work, show what it does, and return the exit code of the verdict."""
        assert self._child.stdin is not None
        if self._when_told and self._child.poll() is None:
            self._child.stdin.write(b"begin\n")
        self._child.stdin.close()
        for event in judge_process.heard(self._child):
            self._view(event)
            if event["kind"] == "stage" and event["stage"] == "readback" and event["state"] == "end":
                after_readback()
        code = self._child.wait()
        if code not in (PASS, FAIL, USAGE, INCONCLUSIVE):
            raise AftershockError(f"the checks died with {code}, so there is no verdict; their log is {self._log}")
        return code
