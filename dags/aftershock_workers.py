"""Runs on several workers: a queue for all tasks, and checks that a task is where it can do its work.

`deploy` starts brokers, their reaper and relays on its worker, so `drive`, `audit` and `destroy` must run on the same
machine; every other task needs only the run directory. LocalExecutor has one machine. With CeleryExecutor, there are
two ways:

- AFTERSHOCK_QUEUE names the queue of all tasks of the DAGs, and the workers of one machine consume it, as many as you
  like: `airflow celery worker --queues aftershock`.
- Without a queue of its own, all workers are on one machine.

A task that is elsewhere fails with a line that says so, before it does anything: on another machine, the ports of
another run could answer.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

VARIABLE = "AFTERSHOCK_QUEUE"
WORKER = "worker"
"""The XCom key of the machine on which the cluster runs."""
SEVERAL = ("Celery", "Kubernetes", "Edge", "Ecs", "Batch", "Lambda")
"""Parts of the names of executors that run tasks of one DAG on several machines."""


def queue_arguments() -> dict[str, str]:
    """Return the default arguments of all tasks: the queue, if there is one."""
    queue = os.environ.get(VARIABLE)
    return {"queue": queue} if queue else {}


def needs() -> str:
    """Return what the DAGs need on several machines and do not have, as a line of Markdown; empty if nothing."""
    from airflow.sdk.configuration import conf

    executors = str(conf.get("core", "executor", fallback="") or "")
    if os.environ.get(VARIABLE) or not any(name in executors for name in SEVERAL):
        return ""
    return (
        f"- **{executors} may run the tasks of a run on several machines.** `drive`, `audit` and `destroy` fail unless "
        f"they are on the machine of `deploy`: set `{VARIABLE}` to a queue that the workers of one machine consume."
    )


def remember_worker(ti: Any) -> None:
    """Keep the machine on which this task starts the cluster."""
    ti.xcom_push(WORKER, socket.gethostname())


def check_worker(run_dir: str, ti: Any) -> None:
    """Raise `AirflowFailException` on another machine than that of the cluster, or without the run directory."""
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
