"""Session clusters: a job manager and task managers, as processes of a run, that run the Flink jobs of a client entry.

All of them listen on loopback only. The job manager says over REST what its task managers and the subtasks of its jobs
are. A killed task manager comes back as another one: its name has the number of its
start.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from chaos.clients.flink.traits import CLUSTER_SETTINGS
from chaos.clients.jvm import FLINK_HEAP
from chaos.clients.runtime import Installed
from chaos.errors import ClientError
from chaos.processes.ports import HOST, free_ports
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.run.directory import Run
from chaos.setup.clients import Assign
from chaos.wait import wait_until

MAX_REASON, MAX_CAUSES = 500, 3
_TASK_HEAP = 0.5
"""Share of the heap of a task manager that Flink counts as heap of its subtasks."""


ANSWER_S = 5.0
ENDED = ("FAILED", "CANCELED", "FINISHED")
"""States of a job that no longer runs."""
NO_ANSWER = (OSError, ValueError, HTTPException)
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens addresses without the proxy of the environment: the job manager is on this machine."""


@dataclass(frozen=True)
class Subtask:
    """A subtask of a job: the current attempt, its status such as RUNNING, and the task manager that runs it."""

    job: str
    vertex: str
    index: int
    attempt: int
    status: str
    task_manager: str

    @property
    def key(self) -> tuple[str, str, int]:
        """What all attempts of the subtask share."""
        return self.job, self.vertex, self.index

    def describe(self) -> str:
        """Return the subtask as text, such as `subtask 0 of replay/1`."""
        return f"subtask {self.index} of {self.job}"


class JobManager:
    """A job manager at a REST address, host:port."""

    def __init__(self, address: str) -> None:
        self.address = address

    def task_managers(self) -> list[str] | None:
        """Return the names of the task managers that the job manager lists; None if it does not answer."""
        try:
            return [found["id"] for found in self._get("/taskmanagers")["taskmanagers"]]
        except NO_ANSWER:
            return None

    def subtasks(self) -> list[Subtask] | None:
        """Return the subtasks of all jobs that have not ended; None if the job manager does not answer."""
        found: list[Subtask] = []
        try:
            for job in self._get("/jobs/overview")["jobs"]:
                graph = self._get(f"/jobs/{job['jid']}") if job["state"] not in ENDED else {"vertices": []}
                for vertex in [v["id"] for v in graph["vertices"]]:
                    subtasks = self._get(f"/jobs/{job['jid']}/vertices/{vertex}")["subtasks"]
                    found += [_subtask(job["name"], vertex, s) for s in subtasks]
        except NO_ANSWER:
            return None
        return found

    def _get(self, path: str) -> dict[str, Any]:
        with _DIRECT.open(f"http://{self.address}{path}", timeout=ANSWER_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


def _subtask(job: str, vertex: str, answer: Mapping[str, Any]) -> Subtask:
    host = answer.get("taskmanager-id") or "(unassigned)"
    return Subtask(job, vertex, answer["subtask"], answer["attempt"], answer["status"], host)


@dataclass
class _Process:
    role: str
    log: Path
    spawned: Spawned
    killed: bool = False


class SessionCluster:
    """The session cluster of an entry. Its methods are thread-safe and raise `ClientError`."""

    def __init__(self, run: Run, entry: Assign, installed: Installed, owner: ProcessId) -> None:
        self._run, self._entry, self._installed, self._owner = run, entry, installed, owner
        assert entry.client.session is not None  # the caller checked it
        self._session = entry.client.session
        self._folder = run.path / "clients" / f"{entry.name}.session"
        self._lock = threading.RLock()
        self._starts: dict[int, int] = {}
        rpc, rest = free_ports(2)
        self.job_manager = JobManager(f"{HOST}:{rest}")
        self._write_settings(rpc, rest)
        self._manager = self._spawn("jobmanager", f"job-manager {entry.name}", f"{entry.name}-jobmanager")
        self._task_managers: dict[int, _Process] = {}
        for number in range(1, self._session.task_managers + 1):
            self.start(number)

    def _write_settings(self, rpc: int, rest: int) -> None:
        self._folder.mkdir(parents=True)
        heap_mib = (self._entry.client.heap or FLINK_HEAP) // 2**20
        settings: dict[str, Any] = {
            "jobmanager.rpc.address": HOST,
            "jobmanager.rpc.port": rpc,
            "jobmanager.bind-host": HOST,
            "rest.address": HOST,
            "rest.port": rest,
            "rest.bind-address": HOST,
            "rest.bind-port": rest,
            "taskmanager.host": HOST,
            "taskmanager.bind-host": HOST,
            "taskmanager.numberOfTaskSlots": self._session.slots_for(self._entry.subtasks),
            # a task manager that no script of Flink starts needs all of these
            "taskmanager.cpu.cores": 1,
            "taskmanager.memory.task.heap.size": f"{round(heap_mib * _TASK_HEAP)}m",
            "taskmanager.memory.framework.heap.size": f"{heap_mib - round(heap_mib * _TASK_HEAP)}m",
            "taskmanager.memory.task.off-heap.size": "64m",
            "taskmanager.memory.framework.off-heap.size": "64m",
            "taskmanager.memory.network.min": "8m",
            "taskmanager.memory.network.max": "8m",
            "taskmanager.memory.managed.size": "1m",
            "taskmanager.memory.jvm-metaspace.size": "128m",
            "taskmanager.memory.jvm-overhead.min": "64m",
            "taskmanager.memory.jvm-overhead.max": "64m",
            # spread the subtasks; the second one is its name in Flink 1
            "taskmanager.load-balance.mode": "SLOTS",
            "cluster.evenly-spread-out-slots": True,
            # by default, a lost task manager is noticed after 20 s and more
            "heartbeat.interval": "1 s",
            "heartbeat.timeout": "15 s",
        }
        settings |= {name: value for name, value in self._entry.config.items() if name.startswith(CLUSTER_SETTINGS)}
        lines = [f"{json.dumps(name)}: {json.dumps(str(value))}" for name, value in settings.items()]
        (self._folder / "config.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _spawn(self, kind: str, role: str, log_name: str, *name: str) -> _Process:
        log = self._run.logs / f"{log_name}.log"
        spawned = spawn(
            [*self._installed.session, kind, str(self._folder), *name],
            run=self._run,
            role=role,
            owner=self._owner,
            log=log,
            stdin=subprocess.PIPE,  # its end ends the process
            env=self._installed.env,
        )
        return _Process(role, log, spawned)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the job manager lists all task managers that were not killed."""

        def missing() -> list[str]:
            self.check()
            listed = self.job_manager.task_managers() or []
            current = [self.name_of(n) for n, process in self._task_managers.items() if not process.killed]
            return [name for name in current if name not in listed]

        def why() -> str:
            return (
                f"the job manager of {self._entry.name} does not answer, or does not list {', '.join(missing())}; see "
                f"{self._manager.log}"
            )

        wait_until(lambda: not missing(), timeout_s, why, every_s=0.1, error=ClientError)

    def check(self) -> None:
        """Raise `ClientError` if a process ended that nobody killed."""
        with self._lock:
            for process in (self._manager, *self._task_managers.values()):
                exit_code = process.spawned.popen.poll()
                if exit_code is not None and not process.killed:
                    raise ClientError(
                        f"{process.role} ended with {exit_code}: {_reason(process.log)}; see {process.log}"
                    )

    def name_of(self, number: int) -> str:
        """Return the name that the job manager lists, such as `replay-1.2` after the second start of a task manager."""
        return f"{self._entry.name}-{number}.{self._starts[number]}"

    def number_of(self, name: str) -> int | None:
        """Return the number of the task manager with this name; None if it is no current one."""
        return next((n for n in self._starts if self.name_of(n) == name), None)

    def start(self, number: int) -> bool:
        """Start a task manager that does not run; return whether that was necessary."""
        with self._lock:
            if number in self._task_managers and not self._task_managers[number].killed:
                return False
            self._starts[number] = self._starts.get(number, 0) + 1
            role, log = f"task-manager {self._entry.name}/{number}", f"{self._entry.name}-taskmanager-{number}"
            self._task_managers[number] = self._spawn("taskmanager", role, log, self.name_of(number))
            return True

    def kill(self, number: int) -> None:
        """Kill a task manager with SIGKILL."""
        with self._lock:
            process = self._task_managers[number]
            if process.killed:
                raise ClientError(f"{process.role} is gone already; see {process.log}")
            _kill(process)

    def kill_all(self) -> None:
        """Kill all processes that still run, with SIGKILL."""
        with self._lock:
            for process in (*self._task_managers.values(), self._manager):
                if not process.killed:
                    _kill(process)


def _kill(process: _Process) -> None:
    process.killed = True
    if process.spawned.popen.poll() is None:
        process.spawned.signal_group(signal.SIGKILL)
        process.spawned.wait()


def _reason(log: Path) -> str:
    """Return the lines of a log that say most: the last causes of an error, which come before the shutdown."""
    try:
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        lines = []
    causes = [line for line in lines if line.startswith("Caused by:") or "ERROR" in line]
    return " | ".join(causes[-MAX_CAUSES:] or lines[-1:] or ["its log is empty"])[:MAX_REASON]
