"""A command of Aftershock as a process that outlives the task that starts it, and the trigger that waits for its end.

The process leads a new session: neither the end of the task nor the end of the worker ends it. The folder of a job has

    output.log   what the command says on stderr: stages, and the one line of an error
    result.json  what it prints with --json
    exit         its exit code; absent if it was killed
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from chaos.install.locations import PREFIX, python_path
from chaos.processes.process import ProcessId
from chaos.wait import wait_until
from dags.provider.slots import ELSEWHERE_S

LOOK_S = 1.0
"""Seconds between two looks at the output."""
END_S = 25.0
"""Seconds for the command to end its brokers; Airflow gives `on_kill` of a trigger 30 s."""
_SHELL = (
    'trap : INT TERM; "$@" >"$0/result.json" 2>"$0/output.log" </dev/null; echo $? >"$0/.exit"; mv "$0/.exit" "$0/exit"'
)
"""Runs a command and keeps its exit code. The trap is of the shell alone: the command gets the signal of the group."""


@dataclass(frozen=True)
class Job:
    """A started command. folder: its output. results: its run directory. process: its `ProcessId` as text."""

    folder: str
    results: str
    process: str
    host: str
    """The machine."""

    @classmethod
    def start(
        cls, folder: Path, results: Path, arguments: Sequence[str], *, directory: str | None, env: Mapping[str, str]
    ) -> Job:
        """Start `aftershock ARGUMENTS` in a directory; `env` is added to the environment. Raises `OSError`."""
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", f"{PREFIX}chaos", *arguments]
        popen = subprocess.Popen(
            ["/bin/sh", "-c", _SHELL, str(folder), *command],
            env={**os.environ, "PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1", **env},
            cwd=directory,
            # the supervisor of the task counts it as running while a process holds its output
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return cls(str(folder), str(results), str(ProcessId.of(popen.pid)), socket.gethostname())

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
        return (Path(self.folder) / "result.json").read_text(encoding="utf-8")

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

    def end(self) -> None:
        """Interrupt the command, which ends everything that it started, and wait for its end."""
        process = ProcessId.parse(self.process)
        if process.signal_group(signal.SIGINT):
            wait_until(self.ended, END_S, "the command still ends its brokers; their reaper goes on with it")


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
            await asyncio.to_thread(job.end)
