"""Runs on several workers: a queue for all tasks, and checks that a task is where it can do its work.

`deploy` starts brokers, their reaper and relays on its worker, so `drive`, `audit` and `destroy` must run on the same
machine; every other task needs only the run directory. LocalExecutor has one machine. With CeleryExecutor, there are
two ways:

- AFTERSHOCK_QUEUE names the queue of all tasks of the DAGs, and the workers of one machine consume it, as many as you
  like: `airflow celery worker --queues aftershock`.
- All workers are on one machine, and AFTERSHOCK_RUNS names the folder of the runs.

With neither, the first task of a run refuses, and starts nothing. KubernetesExecutor cannot run these DAGs, because
their tasks share a cluster: a pod ends with its task, and the brokers end with the pod. A task that is elsewhere fails
with a line that says so, before it does anything: on another machine, the ports of another run could answer.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from chaos.run.directory import Run
from chaos.run.events import read_events

VARIABLE = "AFTERSHOCK_QUEUE"
FOLDER = "AFTERSHOCK_RUNS"
WORKER = "worker"
"""The XCom key of the machine on which the cluster runs."""
SEVERAL = ("Celery", "Kubernetes", "Edge", "Ecs", "Batch", "Lambda")
"""Parts of the names of executors that run tasks of one DAG on several machines."""


def queue_arguments() -> dict[str, str]:
    """Return the default arguments of all tasks: the queue, if there is one."""
    queue = os.environ.get(VARIABLE)
    return {"queue": queue} if queue else {}


def in_one_process() -> bool:
    """Return whether this process runs all tasks of the DAG, one after another, without the executor."""
    return sys.argv[1:3] == ["dags", "test"]


def executor() -> str:
    """Return the name of the executor of tasks that name none: the first of Airflow's list."""
    from airflow.sdk.configuration import conf

    first = str(conf.get("core", "executor", fallback="") or "").split(",")[0].strip()
    return first.rpartition(".")[2]


def problem() -> str:
    """Return why the tasks of a run may not find its cluster, and what to do, as sentences; empty if they find it."""
    name = executor()
    if "Kubernetes" in name:
        return (
            f"{name} runs each task in a pod that ends with the task, so the brokers of a run would end after "
            "`deploy`. Run these DAGs with LocalExecutor, or with CeleryExecutor and a queue of the workers of one "
            f"machine ({VARIABLE})."
        )
    if os.environ.get(VARIABLE) or os.environ.get(FOLDER) or not any(part in name for part in SEVERAL):
        return ""
    return (
        f"{name} may run the tasks of a run on several machines, and `drive`, `audit` and `destroy` must be on the "
        f"machine of `deploy`. Set {VARIABLE} to a queue that the workers of one machine consume (`airflow celery "
        f"worker --queues aftershock`), for the scheduler and DAG processor too; or, if all workers are on one "
        f"machine, set {FOLDER} to the folder of the runs."
    )


def check_executor() -> None:
    """Raise `AirflowFailException` if the tasks of a run may not find its cluster."""
    if not in_one_process() and (found := problem()):
        raise AirflowFailException(f"nothing was started on {socket.gethostname()}: {found}")


def remember_worker(ti: Any) -> None:
    """Keep the machine on which this task starts the cluster."""
    ti.xcom_push(WORKER, socket.gethostname())


def check_worker(run_dir: str, ti: Any) -> None:
    """Raise `AirflowFailException` on another machine than the machine of the cluster, or without the run directory."""
    group, dot, _ = ti.task_id.rpartition(".")
    first = f"{group}{dot}deploy_side" if group else "deploy"
    there, here = ti.xcom_pull(task_ids=first, key=WORKER), socket.gethostname()
    if there and there != here:
        raise AirflowFailException(
            f"the cluster of this run is on {there}, and this task is on {here}; set {VARIABLE} to a queue that the "
            f"workers of one machine consume. The cluster on {there} ends at its deadline, or with `python -m chaos gc`"
        )
    check_directory(run_dir)


def check_directory(run_dir: str) -> None:
    """Raise `AirflowFailException` if this machine does not have the run directory."""
    if not Path(run_dir).is_dir():
        raise AirflowFailException(
            f"{socket.gethostname()} has no {run_dir}; set {VARIABLE} to a queue that the workers of one machine "
            "consume, or put the folder of the runs (AFTERSHOCK_RUNS) where all workers find it"
        )


def check_not_driven(run: Run) -> None:
    """Raise `AirflowFailException` if a drive of this run began before: a second one would write over its ledger."""
    if any(event.get("kind") == "stage" and event.get("stage") == "drive" for event in read_events(run)):
        raise AirflowFailException(
            f"{run.path} was driven before, and a second drive would write over what the first recorded; start a new "
            "run of the DAG"
        )
