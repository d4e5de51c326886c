"""The judge: `python -m checks` as a process that takes one run directory after another."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from chaos.errors import INCONCLUSIVE
from chaos.lab import judge_process
from chaos.processes.process_table import end_run
from chaos.run.directory import Run


@dataclass
class Judging:
    """One run in the judge's hands. `read`: its log was read back, or never will be; `done`: the code is known."""

    run: Run
    read: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    code: int = INCONCLUSIVE


class Judge:
    """Starts at once, so that Spark is there when the first run is; leaving the context ends it."""

    def __init__(self, folder: Path) -> None:
        """folder: where its log goes, as `judge-<how-manieth>`: each is of a home of its own, by which it is ended."""
        self._home = Run.create_numbered(folder, "judge-")
        self._waiting: deque[Judging] = deque()
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._child = judge_process.start(self._home)
        threading.Thread(target=self._listen, name="judge", daemon=True).start()

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        judge_process.end(self._child)
        end_run(self._home.path)  # Spark's JVM and workers are its children, and would end only by and by

    def wait_ready(self) -> None:
        """Return when it has started, so that its start does not disturb what is measured; also if it died."""
        self._ready.wait()

    def take(self, run: Run) -> Judging:
        """Put a run that was driven into its hands."""
        one = Judging(run)
        with self._lock:
            if self._child.poll() is None:
                assert self._child.stdin is not None
                self._waiting.append(one)
                self._child.stdin.write(f"{run.path}\n".encode())
                self._child.stdin.flush()
                return one
        _end(one)
        return one

    def _listen(self) -> None:
        for event in judge_process.heard(self._child):
            if event["kind"] == "ready":
                self._ready.set()
            elif event["kind"] == "stage" and event["stage"] == "readback" and event["state"] != "begin":
                self._waiting[0].read.set()
            elif event["kind"] == "judged":
                one = self._waiting.popleft()
                assert Path(event["run_dir"]) == one.run.path
                one.code = event["code"]
                _end(one)
        self._ready.set()
        with self._lock:  # it died: nothing that waits will get a verdict
            while self._waiting:
                _end(self._waiting.popleft())


def _end(one: Judging) -> None:
    one.read.set()
    one.done.set()
