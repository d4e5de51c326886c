"""The clients of a run on several Airflow workers: mapped tasks `clients` beside `drive`, one for each of its workers.

    deploy ---> drive -> audit -> ...
    fleet --/-> clients (mapped)

A scenario with `fleet`, or a run with the param `workers`, has as many `clients` tasks as workers. Each runs one agent
(see `chaos.workers`) in a child process, and ends with it. `drive` waits until all agents are there. Without workers,
`fleet` returns an empty list, and Airflow skips `clients`. It runs before `drive`, which may have the only slot. No
task depends on `clients`: one that is skipped, or still waits for a slot, holds nothing up.

`drive` and all `clients` tasks run at once, so `deploy` refuses a run that needs more slots than this Airflow has, as
far as its settings show it. With CeleryExecutor, AFTERSHOCK_FLEET_QUEUE names the queue of `clients` alone, for workers
that are not those of AFTERSHOCK_QUEUE. They need the run directory under the same path.

`airflow dags test` runs one task after another. There, `drive` starts the workers.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aftershock_connections import existing_cluster
from aftershock_forms import request_of
from aftershock_workers import fleet_needs, fleet_queue_arguments, in_one_process, largest_fleet
from airflow.providers.standard.decorators.python import _PythonDecoratedOperator
from airflow.sdk import task
from airflow.sdk.bases.decorator import task_decorator_factory
from airflow.sdk.exceptions import AirflowFailException

from chaos.errors import AftershockError, WaitTimeout
from chaos.processes.process import ProcessId, Spawned, spawn
from chaos.run.directory import Run
from chaos.wait import wait_until
from chaos.workers.names import worker_name

LOOK_S = 5.0
"""Seconds between two looks at the state of `drive`."""
GRACE_S = 30.0
"""Seconds that an agent has to end after `drive` has ended."""
END_S = 4.0
"""Seconds that an agent has to end its clients when Airflow ends the task. Airflow kills the task after 5 s."""
OVER = ("success", "failed", "upstream_failed", "skipped", "removed")


class _ClientsOperator(_PythonDecoratedOperator):  # type: ignore[misc] # Airflow is not typed for mypy here
    """A task of Python code that unwinds when Airflow ends it. Airflow's own only calls this method, and goes on."""

    def on_kill(self) -> None:
        """Raise `SystemExit` in the code of the task."""
        sys.exit("Airflow ended the task")


_clients_task: Callable[[Callable[..., Any]], Any] = task_decorator_factory(
    decorated_operator_class=_ClientsOperator, retries=0, **fleet_queue_arguments()
)


@task
def fleet(scenario: str, variant: str, params: Any = None) -> list[int]:
    """Return the numbers of the workers that `clients` tasks run; none if the scenario has no fleet."""
    try:
        wanted = request_of(scenario, params).load(variant).fleet
    except AftershockError:
        return []  # the first task says why the run is refused
    return list(range(1, wanted.workers + 1)) if wanted and not in_one_process() else []


@_clients_task
def clients(run_dir: str, number: int, params: Any = None, ti: Any = None) -> None:
    """Run the clients of one worker until the drive ends."""
    host = socket.gethostname()
    if not Path(run_dir).is_dir():
        raise AirflowFailException(
            f"{host} has no {run_dir}: put the folder of the runs (AFTERSHOCK_RUNS) on a file system that all workers "
            "have under the same path"
        )
    existing_cluster(params["kafka_conn_id"])
    run, name = Run.open(Path(run_dir)), worker_name(number)
    argv, log = [sys.executable, "-m", "chaos.workers", str(run.path), str(number)], run.logs / f"{name}.log"
    agent = spawn(argv, run=run, role=name, owner=ProcessId.current(), log=log)
    try:
        state = _wait(agent, ti)
    finally:
        code = _end(agent)
    if state:
        raise AirflowFailException(f"`drive` has ended ({state}), and {name} on {host} did not: it was killed")
    if code:
        raise AirflowFailException(f"{name} (process {agent.identity.pid} on {host}) {_ending(code, log)}")


def check_slots(request: Any, dag: Any) -> None:
    """Raise `AirflowFailException` if a run needs more slots than this Airflow has; print what it needs."""
    wanted = request.load().fleet
    if wanted is None or in_one_process():
        return
    needs = fleet_needs(wanted.workers, next(one.queue for one in dag.tasks if one.task_id.endswith("clients")))
    limit, setting = largest_fleet(dag.max_active_tasks)
    if wanted.workers > limit:
        raise AirflowFailException(
            f"nothing was started on {socket.gethostname()}: {needs}, but {setting}: raise it, or use "
            + (f"at most {limit} workers" if limit > 0 else "no workers")
        )
    print(needs)  # noqa: T201 # the log of the task


def _wait(agent: Spawned, ti: Any) -> str:
    """Wait for the end of the agent. Returns the state of `drive` if that ended, and the agent did not; else empty."""
    over_at = 0.0
    while True:
        try:
            wait_until(lambda: not agent.identity.alive(), LOOK_S, "", every_s=0.2)
            return ""
        except WaitTimeout:
            state = _drive_state(ti)
        if state not in OVER:
            over_at = 0.0
        elif not over_at:
            over_at = time.monotonic()
        elif time.monotonic() - over_at > GRACE_S:
            return state


def _drive_state(ti: Any) -> str:
    """Return the state of the task `drive` of this run; empty if it is not known."""
    group, dot, _ = ti.task_id.rpartition(".")
    drive = f"{group}{dot}drive"
    try:
        found = ti.get_task_states(ti.dag_id, task_ids=[drive], run_ids=[ti.run_id])
    except Exception as e:  # noqa: BLE001 # the API server may start again: the agent knows its drive by itself
        print(f"the state of {drive} is not known: {e}")  # noqa: T201 # the log of the task
        return ""
    return str(found.get(ti.run_id, {}).get(drive) or "")


def _end(agent: Spawned) -> int:
    """End the agent with its clients. Returns its exit code."""
    agent.identity.signal(signal.SIGTERM)
    try:
        wait_until(lambda: not agent.identity.alive(), END_S, "")
    except WaitTimeout:
        agent.signal_group(signal.SIGKILL)
    return agent.wait()


def _ending(code: int, log: Path) -> str:
    """Return how an agent ended, with the last line of its log."""
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return f"{how}: {lines[-1]}" if lines else f"{how}; see {log}"
