"""A command of Aftershock as a process that a task starts, and the trigger that waits for its end.

The process leads a new session. It begins when the task has written `job.json`, and until the task lets it go, it ends
with the task, whatever ends the task: SIGKILL, too. A deferred task lets it go first; then neither the end of the task
nor the end of the worker ends it. The folder of a job has

    job.json     the fields of the `Job`
    output.log   what the command says on stderr: stages, and the one line of an error
    result.json  what it prints with --json
    exit         its exit code; absent if it was killed

A task removes the folder when it has taken the verdict. So a folder that another try of the task finds is one that no
task took the verdict from, see `taken_over`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from chaos.install.locations import PREFIX, python_path
from chaos.processes.process import ProcessId
from chaos.run.directory import write_atomically
from chaos.wait import wait_until
from dags.provider.slots import ELSEWHERE_S

LOOK_S = 1.0
"""Seconds between two looks at the output."""
END_S = 25.0
"""Seconds for the command to end its brokers; Airflow gives `on_kill` of a trigger 30 s."""
VERDICTS = (0, 1, 3)
"""The exit codes of a command that gave a verdict."""
_SHELL = """
trap : INT TERM
exec 3<&0 </dev/null
read -r begin <&3 || exit 1
(read -r let_go <&3 || kill -INT 0) &
"$@" >"$0/result.json" 2>"$0/output.log" 3<&-
echo $? >"$0/.exit"; mv "$0/.exit" "$0/exit"
kill $! 2>/dev/null
"""
"""Runs a command and keeps its exit code. Its input is a pipe from the task: a line begins, another one lets it go, and
without a line its end interrupts the group. The trap is of the shell alone: the command gets the signal of the group.
"""


@dataclass(frozen=True)
class Job:
    """A started command. folder: its output. results: its run directory. process: its `ProcessId` as text."""

    folder: str
    results: str
    process: str
    host: str
    """The machine."""
    asked: str = ""
    """A digest of the question: tries of a task that ask the same have the same."""

    @classmethod
    def start(
        cls,
        folder: Path,
        results: Path,
        arguments: Sequence[str],
        *,
        asked: str = "",
        directory: str | None,
        env: Mapping[str, str],
    ) -> tuple[Job, Leash]:
        """Start `aftershock ARGUMENTS` in a directory; `env` is added to the environment. Raises `OSError`."""
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", f"{PREFIX}chaos", *arguments]
        popen = subprocess.Popen(
            ["/bin/sh", "-c", _SHELL, str(folder), *command],
            env={**os.environ, "PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1", **env},
            cwd=directory,
            stdin=subprocess.PIPE,
            # the supervisor of the task counts it as running while a process holds its output
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert popen.stdin is not None  # a pipe
        job = cls(str(folder), str(results), str(ProcessId.of(popen.pid)), socket.gethostname(), asked)
        write_atomically(folder / "job.json", json.dumps(asdict(job)))
        leash = Leash(popen.stdin)
        leash.begin()
        return job, leash

    @classmethod
    def read(cls, folder: Path) -> Job | None:
        """Return the job of a folder; None if its task ended before the command began."""
        try:
            return cls(**json.loads((folder / "job.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    @property
    def is_here(self) -> bool:
        """Whether the command runs on this machine."""
        return self.host == socket.gethostname()

    def ended(self) -> bool:
        """Return whether the command has ended. Only on its machine."""
        return self.code() is not None or not ProcessId.parse(self.process).alive()

    def code(self) -> int | None:
        """Return the exit code; None while it runs, or if it was killed."""
        try:
            return int((Path(self.folder) / "exit").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def printed(self) -> str:
        """Return what the command printed: a result as JSON, or nothing."""
        try:
            return (Path(self.folder) / "result.json").read_text(encoding="utf-8")
        except FileNotFoundError:  # another try of the task removed it
            return ""

    def judged(self) -> bool:
        """Return whether the command has ended with a verdict."""
        return self.code() in VERDICTS and bool(self.printed())

    def lines(self, begin: int = 0) -> tuple[list[str], int]:
        """Return the complete lines of the output from a position, and the position behind them, in bytes."""
        try:
            with (Path(self.folder) / "output.log").open("rb") as file:
                file.seek(begin)
                found = file.read()
        except FileNotFoundError:
            return [], begin
        whole = found[: found.rfind(b"\n") + 1]
        return whole.decode(errors="replace").splitlines(), begin + len(whole)

    def end(self) -> bool:
        """Interrupt the command, which ends everything that it started, and wait for its end.

        Returns False if it had ended before. Raises `WaitTimeout`.
        """
        process = ProcessId.parse(self.process)
        if self.ended() or not process.signal_group(signal.SIGINT):
            return False
        wait_until(self.ended, END_S, "the command still ends its brokers; their reaper goes on with it")
        return True

    def discard(self) -> None:
        """End the command, and remove its folder: no task takes its verdict. Raises `WaitTimeout`."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)


class Leash:
    """What ends a command with the task that holds it: a pipe, which ends with its last holder."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe

    def begin(self) -> None:
        """Let the command begin."""
        self._pipe.write(b"begin\n")
        self._pipe.flush()

    def let_go(self) -> None:
        """Let the command go on without the task."""
        with contextlib.suppress(BrokenPipeError):  # it has ended
            self._pipe.write(b"go on\n")
            self._pipe.close()


def taken_over(folders: Iterable[Path], asked: str, say: Callable[[str], None]) -> Job | None:
    """Return the job of an earlier try that ended with a verdict which no task took; end and remove all other ones.

    folders: of earlier tries that were killed, or reset with their scheduler. asked: the question of this
    try; the verdict on another question is not taken. say: takes a line about a run that was ended. Raises
    `WaitTimeout`.
    """
    found = None
    for folder in folders:
        job = Job.read(folder)
        if job and found is None and job.is_here and job.asked == asked and job.judged():
            found = job
            continue
        if job and job.is_here and job.end():
            say(f"an earlier try of this task left the run in {job.results}; it was ended, and a new one begins")
        shutil.rmtree(folder, ignore_errors=True)
    return found


class JobTrigger(BaseTrigger):  # type: ignore[misc] # Airflow is not typed for mypy here
    """Fires when a job has ended, and copies its output into the log of the task.

    job: the fields of a `Job`. read: position in the output.

    A triggerer on another machine sees neither; it resumes the task after a while, and the task looks itself.
    """

    def __init__(self, job: dict[str, str], read: int = 0) -> None:
        super().__init__()
        self.job, self.read = job, read

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, for the triggerer."""
        return f"{__name__}.JobTrigger", {"job": self.job, "read": self.read}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event at the end of the job: the job, and the position up to which its output is in the log."""
        job, read = Job(**self.job), self.read
        if not job.is_here:
            await asyncio.sleep(ELSEWHERE_S)
            yield TriggerEvent({"job": self.job, "read": read})
            return
        while True:
            ended = await asyncio.to_thread(job.ended)  # before the lines: none comes after the end
            lines, read = await asyncio.to_thread(job.lines, read)
            for line in lines:
                self.log.info("%s", line)
            if ended:
                break
            await asyncio.sleep(LOOK_S)
        yield TriggerEvent({"job": self.job, "read": read})

    async def on_kill(self) -> None:
        """End the command: somebody cleared the task, or marked it. Not called when the triggerer restarts."""
        job = Job(**self.job)
        if job.is_here:
            self.log.warning("the run in %s ends with this task", job.results)
            await asyncio.to_thread(job.discard)
