"""How many clusters run at once, of all DAGs: as many as AFTERSHOCK_CLUSTERS says, or one.

`deploy` takes a place for the whole of the cluster's life (`chaos.processes.slots`), and asks again later if there is
none. A pool of Airflow's cannot say that by itself. Its slots are held by tasks: between deploy, drive and audit of one
run nobody would hold one, and another run's deploy would slip in. Were a slot held by a task of its own beside them, a
run would wait with one task for another, and `airflow dags test`, which runs one task after another, for ever.

So the tasks that work with a cluster take a slot of the pool AFTERSHOCK_POOL as well (`make ui` and compose.yaml make
it, with as many slots as places), the later ones of a run first: it lets runs wait in the scheduler, where that costs
nothing, and the place decides in the moments between two tasks. Nothing can wait for ever: no task waits for another
while it holds a slot, a deploy without a place gives its slot back, and `destroy`, which frees the place, needs none.
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
"""For tasks that work with a cluster; of two that wait for a slot, the one that is further on comes first."""
ASK_AGAIN_S = 10
FILE = "aftershock-places.json"


def take_place(dag_run: Any) -> Callable[[Path], None]:
    """Take a place for a DAG run, or ask again later. Returns what binds it to the run directory, once there is one."""
    places, name = _places(), f"{dag_run.dag_id} {dag_run.run_id}"
    _take(places, name)
    return partial(places.bind, name)


@contextmanager
def place_for_task(dag_run: Any, part: str) -> Iterator[None]:
    """Hold a place for a task that starts its clusters and ends them, or ask again later. part: which of the DAG's."""
    places, name = _places(), f"{dag_run.dag_id} {dag_run.run_id} {part}"
    _take(places, name)
    try:
        yield
    finally:
        places.leave(name)  # `airflow dags test` runs all tasks in one process, which lives on


def _places() -> Any:
    from chaos.processes.slots import Slots

    home = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow")
    return Slots(home / FILE, int(os.environ.get("AFTERSHOCK_CLUSTERS") or 1))


def _take(places: Any, name: str) -> None:
    if not places.take(name):
        raise AirflowRescheduleException(datetime.now(UTC) + timedelta(seconds=ASK_AGAIN_S))
