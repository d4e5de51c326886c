"""The limit of clusters that run at once, over all DAGs: AFTERSHOCK_CLUSTERS, or one.

`deploy` takes a slot (`chaos.processes.slots`) for the whole life of the cluster. If none is free, it defers: Airflow's
triggerer waits (`SlotTrigger`), the task shows as deferred, and holds neither a worker nor a slot of a pool. A task
that is ended while it waits leaves nothing.
An Airflow pool alone is not enough. Tasks hold the slots of a pool, so between deploy, drive and audit of one run no
task would hold one, and the deploy of another run could start. A separate task that holds a slot would make one task of
a run wait for another; `airflow dags test`, which runs one task after another, would wait forever.

The tasks that use a cluster also take a slot of the Airflow pool AFTERSHOCK_POOL (`ui` and compose.yaml create it with
as many slots as clusters), later tasks of a run first. The pool lets runs wait in the scheduler at no cost; the slot
decides between two tasks. No run can wait forever: no task waits for another while it holds a slot of the pool, a
deferred deploy gives its pool slot back, and `destroy`, which frees the slot, needs none.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

from airflow.providers.standard.decorators.python import _PythonDecoratedOperator
from airflow.sdk.bases.decorator import task_decorator_factory
from airflow.sdk.exceptions import TaskDeferred
from airflow.triggers.base import BaseTrigger, TriggerEvent

LOOK_S = 10
"""Seconds between two looks."""
ELSEWHERE_S = 30
"""Seconds after which a triggerer on another machine resumes the task."""


class SlotTrigger(BaseTrigger):  # type: ignore[misc] # Airflow is not typed for mypy here
    """Fires when a slot seems free. file, slots: as in `chaos.processes.slots`. host: the machine of the holders.

    Who holds a slot shows only on the machine of the holders. A triggerer on another machine resumes the task after a
    while, and the task looks itself. In both cases a task that finds no slot defers again, so a wrong answer costs one
    start of a task, not more: the trigger waits before it looks. The triggerer imports this module by
    its name: the project is on its path, or installed.
    """

    def __init__(self, file: str, slots: int, host: str) -> None:
        super().__init__()
        self.file, self.slots, self.host = file, slots, host

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, for the triggerer."""
        return f"{__name__}.SlotTrigger", {"file": self.file, "slots": self.slots, "host": self.host}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event when the task should try again."""
        from chaos.processes.slots import Slots

        slots = Slots(Path(self.file), self.slots)
        if socket.gethostname() != self.host:
            await asyncio.sleep(ELSEWHERE_S)
        else:
            await asyncio.sleep(LOOK_S)
            while not await asyncio.to_thread(slots.any_free):
                await asyncio.sleep(LOOK_S)
        yield TriggerEvent({})


POOL: dict[str, Any] = {"pool": os.environ.get("AFTERSHOCK_POOL", "default_pool"), "weight_rule": "upstream"}
"""Arguments of tasks that use a cluster; of two waiting tasks, the one later in its DAG runs first."""
FILE = "aftershock-places.json"


class _SlotOperator(_PythonDecoratedOperator):  # type: ignore[misc] # Airflow is not typed for mypy here
    """A task of Python code that runs from its start after it was deferred."""

    def resume(self, context: Any, event: Any = None) -> Any:
        """Run the task. Airflow calls it with the event of the trigger."""
        return self.execute(context)


def slot_task(**arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of tasks that take a slot: `@task` with the pool, for tasks that may defer."""
    decorator: Callable[[Callable[..., Any]], Any] = task_decorator_factory(
        decorated_operator_class=_SlotOperator, **POOL, **arguments
    )
    return decorator


def take_slot(dag_run: Any) -> Callable[[Path], None]:
    """Take a slot for a DAG run, or defer the task. Returns a function that binds the slot to a run directory."""
    name = f"{dag_run.dag_id} {dag_run.run_id}"
    return partial(slots_with(name).bind, name)


def slots_with(name: str) -> Any:
    """Take a slot under a name, and return the slots. Raises `TaskDeferred` if none is free."""
    from chaos.processes.slots import Slots

    file = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow") / FILE
    count = int(os.environ.get("AFTERSHOCK_CLUSTERS") or 1)
    slots = Slots(file, count)
    if not slots.take(name):
        raise TaskDeferred(trigger=SlotTrigger(str(file), count, socket.gethostname()), method_name="resume")
    return slots
