"""An Airflow in parts, as a team runs it: API server, scheduler, DAG processor, triggerer, Celery workers."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from chaos.processes.ports import free_ports
from chaos.wait import wait_until
from tests.support.airflow_api import ask
from tests.support.platform import ROOT

HOST = "127.0.0.1"
CELERY = "airflow.providers.celery.executors.celery_executor.CeleryExecutor"
END_S = 30


def why_no_celery() -> str:
    """Return why two workers of different names cannot run here."""
    if not shutil.which("redis-server"):
        return "no redis-server on this machine: apt-get install redis-server"
    named = subprocess.run(["unshare", "--uts", "hostname", "elsewhere"], capture_output=True, check=False)
    return "" if named.returncode == 0 else "a process cannot have another host name here: run as root"


class AirflowParts:
    """The parts that were started; leaving the context ends them, the last first.

    Each part has its log in `home`, and its environment from `env`, which a caller may change before the start. python:
    of another environment, which has Aftershock as a wheel.
    """

    def __init__(self, home: Path, python: str = "", **env: str) -> None:
        self.home = home
        self.python = python or sys.executable
        self.port = free_ports(1)[0]
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        secret = secrets.token_urlsafe(48)
        self.env = {
            **os.environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=120",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "240",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{HOST}:{self.port}/execution/",
            "AIRFLOW__API__SECRET_KEY": secret,
            "AIRFLOW__API_AUTH__JWT_SECRET": secret,
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
            "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            "PYTHONPATH": "" if python else str(ROOT),
            "PYTHONWARNINGS": "ignore",
            **env,
        }
        self._token = ""

    def __enter__(self) -> Self:
        argv = [self.python, "-m", "airflow", "db", "migrate"]
        subprocess.run(argv, env=self.env, cwd=self.home, capture_output=True, check=True)
        return self

    def __exit__(self, *exc: object) -> None:
        for name in reversed(list(self.parts)):
            self.end(name)

    def start_redis(self) -> None:
        """Start the broker of Celery, and make CeleryExecutor the executor of the parts that start after it."""
        port = free_ports(1)[0]
        argv = ["redis-server", "--bind", HOST, "--port", str(port), "--save", "", "--dir", str(self.home)]
        self._start("redis", argv, self.env)
        url = f"redis://{HOST}:{port}/0"
        self.env |= {
            "AIRFLOW__CORE__EXECUTOR": CELERY,
            "AIRFLOW__CELERY__BROKER_URL": url,
            "AIRFLOW__CELERY__RESULT_BACKEND": url,
        }

    def start(self, name: str, *arguments: str, hostname: str = "", **env: str) -> None:
        """Start a part: an Airflow command. hostname: the name of the machine that it sees, of a worker."""
        part = [self.python, "-m", "airflow", *(arguments or (name,))]
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', hostname] if hostname else []
        self._start(name, [*named, *part], self.env | env)

    def start_worker(self, name: str, queue: str, hostname: str = "", **env: str) -> None:
        """Start a Celery worker of one task at a time, which consumes a queue."""
        options = ["--concurrency", "1", "--skip-serve-logs", "--without-mingle", "--without-gossip"]
        pid = ["--pid", str(self.home / f"{name}.pid"), "--celery-hostname", f"{name}@{HOST}"]
        self.start(name, "celery", "worker", "--queues", queue, *options, *pid, hostname=hostname, **env)

    def _start(self, name: str, argv: list[str], env: dict[str, str]) -> None:
        with (self.home / f"{name}.log").open("wb") as log:
            self.parts[name] = subprocess.Popen(
                argv, cwd=self.home, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def end(self, name: str) -> None:
        """End a part with all its processes."""
        part = self.parts.pop(name)
        part.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            part.wait(END_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(part.pid, signal.SIGKILL)  # the session that `_start` made
        part.wait()

    def log(self, name: str) -> str:
        """Return the log of a part."""
        return (self.home / f"{name}.log").read_text(errors="replace")

    def check(self) -> None:
        """Fail if a part has ended."""
        for name, part in self.parts.items():
            assert part.poll() is None, f"{name} ended:\n{self.log(name)[-3000:]}"

    def __call__(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Return the answer of the REST API."""
        return ask(f"http://{HOST}:{self.port}{path}", body, self._login(), method)

    def _login(self) -> str:
        if not self._token:
            self._token = ask(f"http://{HOST}:{self.port}/auth/token")["access_token"]
        return self._token

    def wait_ready(self, dag: str) -> None:
        """Wait until the API knows a DAG."""

        def known() -> bool:
            self.check()
            try:
                return bool(self(f"/api/v2/dags/{dag}"))
            except (OSError, ValueError):  # not up yet, or the DAG is not parsed yet
                return False

        wait_until(known, 300, lambda: f"{dag} is not there: {self.log('dag-processor')[-3000:]}", every_s=1)

    def wait_queue(self, dag: str, task: str, queue: str) -> None:
        """Wait until a task of a DAG has a queue."""
        asked = f"/api/v2/dags/{dag}/tasks/{task}"
        wait_until(lambda: self(asked)["queue"] == queue, 300, f"{task} of {dag} has another queue", every_s=1)

    def trigger(self, dag: str, **conf: Any) -> str:
        """Start a run of a DAG. Returns the address of the run."""
        path = f"/api/v2/dags/{dag}/dagRuns"
        return f"{path}/{self(path, {'logical_date': None, 'conf': conf})['dag_run_id']}"

    def tasks(self, run: str) -> dict[str, dict[str, Any]]:
        """Return the task instances of a run by the id of the task."""
        return {task["task_id"]: task for task in self(f"{run}/taskInstances")["task_instances"]}

    def mapped(self, run: str, task: str) -> list[dict[str, Any]]:
        """Return the task instances of a mapped task of a run, by their number."""
        found = self(f"{run}/taskInstances/{task}/listMapped")["task_instances"]
        return sorted(found, key=lambda one: one["map_index"])

    def wait_task(self, run: str, task: str, state: str) -> None:
        """Wait for a state of a task."""

        def now() -> str:
            self.check()
            return str(self.tasks(run)[task]["state"])

        wait_until(lambda: now() == state, 120, lambda: f"{task} is {now()}, not {state}", every_s=0.5)

    def fail_task(self, run: str, task: str) -> None:
        """Mark a task as failed, as a user does on the web page."""
        self(f"{run}/taskInstances/{task}", {"new_state": "failed"}, "PATCH")

    def wait_ended(self, run: str, timeout_s: float) -> str:
        """Wait for the end of a run. Returns its state."""

        def state() -> str:
            self.check()
            now: str = self(run)["state"]
            return now if now in ("success", "failed") else ""

        def why() -> str:
            return f"the run did not end: { ({name: task['state'] for name, task in self.tasks(run).items()}) }"

        return wait_until(state, timeout_s, why, every_s=0.5)

    def xcom(self, run: str, task: str, key: str = "return_value") -> Any:
        """Return what a task left under a key."""
        value = self(f"{run}/taskInstances/{task}/xcomEntries/{key}?deserialize=true")["value"]
        return json.loads(value) if isinstance(value, str) and value[:1] in '{["' else value

    def task_log(self, run: str, task: str) -> str:
        """Return the log of the first try of a task."""
        return json.dumps(self(f"{run}/taskInstances/{task}/logs/1?full_content=true"))
