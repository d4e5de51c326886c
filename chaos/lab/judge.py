"""The judge: `python -m checks` as a child process. Spark and Great Expectations stay out of this process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from chaos.errors import FAIL, INCONCLUSIVE, PASS, USAGE, AftershockError, UsageError
from chaos.install.locations import PREFIX
from chaos.processes import process
from chaos.processes.process import ProcessId, run_module, spawn
from chaos.run.directory import Run
from chaos.run.events import Event, EventLog

ROLE = "checks"
LOG = "checks.log"
END_TIMEOUT_S = 120.0
"""How long the judge may take to end Spark before it is killed."""


def check_master(master: str | None) -> None:
    """Raise `UsageError` if a Spark master is not valid, or if nothing answers there."""
    if master is None:
        return
    done = run_module("checks.spark.master", master)
    if done.returncode:
        raise UsageError(done.stderr.strip().splitlines()[-1])


def start_checks(home: Run, spark_master: str | None, *argv: str) -> subprocess.Popen[bytes]:
    """Start `python -m checks` as a process of `home` that ends with this one, its log there. Raises `OSError`."""
    home.logs.mkdir(parents=True, exist_ok=True)
    owned = ["--owned", str(os.getpid())]
    return spawn(
        [
            *(sys.executable, "-m", f"{PREFIX}checks", *argv, *owned),
            *(["--spark-master", spark_master] if spark_master else []),
        ],
        run=home,
        role=ROLE,
        owner=ProcessId.current(),
        log=home.logs / LOG,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ).popen


def _read_events(child: subprocess.Popen[bytes]) -> Iterator[Event]:
    assert child.stdout is not None
    for line in child.stdout:
        yield json.loads(line)


def _died(code: int | None, log: Path) -> AftershockError:
    return AftershockError(f"the audit process ended with exit code {code} and gave no verdict; see its log {log}")


def audit_once(
    run: Run, listener: Callable[[Event], None], spark_master: str | None = None, uri: str | None = None
) -> int:
    """Judge one run in a separate process and return the exit code of the verdict.

    uri: location of a run directory that is not on this machine; `run` is then its working copy.
    Raises `AftershockError` if the process dies.
    """
    argv = [uri, "--work", str(run.path.parent)] if uri else [str(run.path)]
    child = start_checks(run, spark_master, *argv)
    assert child.stdin is not None
    try:
        for event in _read_events(child):
            listener(event)
        code = child.wait()
    finally:
        child.stdin.close()
        _end(child, run)
    if code not in (PASS, FAIL, USAGE, INCONCLUSIVE):
        raise _died(code, run.logs / LOG)
    return code


def _end(child: subprocess.Popen[bytes], home: Run) -> None:
    """End the judge, and Spark's JVM and workers: its children, which would end some time later."""
    if child.poll() is None:
        child.kill()
        child.wait()
    here = ProcessId.current()
    process.end(lambda p: (p.run_dir, p.role, p.owner) == (home.path, ROLE, here), END_TIMEOUT_S)


@dataclass
class Judgement:
    """One run in the judge's queue."""

    run: Run
    log_read: threading.Event = field(default_factory=threading.Event)
    """Set when the run no longer needs its brokers: the log was read back, or never will be."""
    done: threading.Event = field(default_factory=threading.Event)
    read_back: bool = False
    """Whether the log was read back completely."""
    exit_code: int | None = None
    """The exit code of the verdict; None if the judge died first."""

    def finish(self) -> None:
        """Release all who wait for this run."""
        self.log_read.set()
        self.done.set()


class Judge:
    """A process that judges one run after another with one Spark session. The start returns at once.

    It reads the log of a run back while it judges earlier ones.

    Leaving the context ends the process.
    """

    def __init__(
        self, home: Run, listener: Callable[[Event], None] | None = None, spark_master: str | None = None
    ) -> None:
        """home: the directory of the process's log. listener: receives the events of all runs, in another thread."""
        self._home, self._listener = home, listener
        self._queue: deque[Judgement] = deque()
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._child = start_checks(home, spark_master)
        threading.Thread(target=self._listen, name="judge", daemon=True).start()

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self.close()
        _end(self._child, self._home)

    def close(self) -> None:
        """End the process gracefully, by the end of its input. Returns if it is still there after `END_TIMEOUT_S`."""
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(END_TIMEOUT_S)

    def wait_ready(self) -> None:
        """Wait until Spark is up, so that its start does not disturb a measurement. Returns also if it died."""
        self._ready.wait()

    def wait_before_load(self, events: EventLog) -> None:
        """Wait until Spark is up, as the stage `judge` of a run; no stage if it is up already."""
        if not self._ready.is_set():
            with events.stage("judge"):
                self.wait_ready()

    def submit(self, run: Run) -> Judgement:
        """Queue a run that was driven."""
        judgement = Judgement(run)
        with self._lock:
            if self._child.poll() is None:
                assert self._child.stdin is not None
                self._queue.append(judgement)
                self._child.stdin.write(f"{run.path}\n".encode())
                self._child.stdin.flush()
                return judgement
        judgement.finish()
        return judgement

    def wait(self, judgement: Judgement) -> int:
        """Wait for a verdict and return its exit code. Raises `AftershockError` if the judge died first."""
        judgement.done.wait()
        if judgement.exit_code is None:
            raise _died(self._child.poll(), self._home.logs / LOG)
        return judgement.exit_code

    def _listen(self) -> None:
        for event in _read_events(self._child):
            if event["kind"] == "ready":
                self._ready.set()
            elif event["kind"] == "read":
                with self._lock:
                    judgement = next(j for j in self._queue if j.run.path == Path(event["run_dir"]))
                judgement.read_back = event["complete"]
                judgement.log_read.set()
            elif event["kind"] == "judged":
                judgement = self._queue.popleft()
                assert Path(event["run_dir"]) == judgement.run.path
                judgement.exit_code = event["code"]
                judgement.finish()
            elif self._listener:
                self._listener(event)
        self._ready.set()
        with self._lock:  # the process ended: the runs in the queue get no verdict
            while self._queue:
                self._queue.popleft().finish()
