"""The limit of clusters that run at once, over all DAGs: AFTERSHOCK_CLUSTERS, or one.

`deploy` takes a slot (`chaos.processes.slots`) for the whole life of the cluster, and is rescheduled if none is free.
An Airflow pool alone is not enough. Tasks hold the slots of a pool, so between deploy, drive and audit of one run no
task would hold one, and the deploy of another run could start. A separate task that holds a slot would make one task of
a run wait for another; `airflow dags test`, which runs one task after another, would wait forever.

The tasks that use a cluster also take a slot of the Airflow pool AFTERSHOCK_POOL (`ui` and compose.yaml create it with
as many slots as clusters), later tasks of a run first. The pool lets runs wait in the scheduler at no cost; the slot
decides between two tasks. No run can wait forever: no task waits for another while it holds a slot of the pool, a
deploy without a free slot gives its pool slot back, and `destroy`, which frees the slot, needs none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowRescheduleException

POOL: dict[str, Any] = {"pool": os.environ.get("AFTERSHOCK_POOL", "default_pool"), "weight_rule": "upstream"}
"""Arguments of tasks that use a cluster; of two waiting tasks, the one later in its DAG runs first."""
RETRY_S = 10
FILE = "aftershock-places.json"


def take_slot(dag_run: Any) -> Callable[[Path], None]:
    """Take a slot for a DAG run, or reschedule the task. Returns a function that binds the slot to a run directory."""
    slots, name = _slots(), f"{dag_run.dag_id} {dag_run.run_id}"
    _take(slots, name)
    return partial(slots.bind, name)


@contextmanager
def slot_for_task(dag_run: Any, part: str) -> Iterator[None]:
    """Hold a slot while a task runs clusters, or reschedule the task. part: names the task within the DAG run."""
    slots, name = _slots(), f"{dag_run.dag_id} {dag_run.run_id} {part}"
    _take(slots, name)
    try:
        yield
    finally:
        slots.leave(name)  # the process may live on: `airflow dags test` runs all tasks in one


def _slots() -> Any:
    from chaos.processes.slots import Slots

    home = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow")
    return Slots(home / FILE, int(os.environ.get("AFTERSHOCK_CLUSTERS") or 1))


def _take(slots: Any, name: str) -> None:
    if not slots.take(name):
        raise AirflowRescheduleException(datetime.now(UTC) + timedelta(seconds=RETRY_S))
