"""Tasks that wait for a slot: deferred through the trigger, and run when one is free."""

import pytest

from tests.support.dag_programs import run_program

pytestmark = pytest.mark.airflow

WAIT = """
import asyncio, json, os, subprocess, sys
from pathlib import Path
from types import SimpleNamespace

from airflow.sdk import DAG
from airflow.sdk._shared.module_loading import import_string
from airflow.sdk.exceptions import TaskDeferred
from dags.provider import slots as slot_tasks
from chaos.processes.process import ProcessId
from chaos.processes.slots import Slots

slot_tasks.LOOK_S = 0.01
slot_tasks.ELSEWHERE_S = 0.05
slots = Slots(Path(os.environ["AIRFLOW_HOME"]) / slot_tasks.FILE, 1)
ran = []

def held():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    slots.take("another")
    slots.hand_on("another", ProcessId.of(process.pid))
    return process

def free(process):
    process.kill()
    process.wait()

with DAG("waiting") as dag:
    @slot_tasks.slot_task(retries=0)
    def work():
        bind = slot_tasks.take_slot(SimpleNamespace(dag_id="waiting", run_id="r"))
        ran.append(bind)
        return "done"
    work()

operator = dag.get_task("work")
holder = held()
try:
    operator.execute({})
except TaskDeferred as deferred:
    path, arguments = deferred.trigger.serialize()
    method = deferred.method_name
again = import_string(path)(**arguments)
ran_before = len(ran)

async def first_event(one):
    return await anext(one.run())

async def wait():
    waiting = asyncio.create_task(first_event(again))
    await asyncio.sleep(0.3)
    early = waiting.done()
    free(holder)
    await asyncio.wait_for(waiting, 30)
    return early

early = asyncio.run(wait())
holder = held()
asyncio.run(asyncio.wait_for(first_event(import_string(path)(**arguments | {"host": "elsewhere"})), 30))
free(holder)
print(json.dumps([path, ran_before, early, getattr(operator, method)({}, event={}), len(ran), slots.any_free()]))
"""


def test_a_task_without_a_slot_defers_and_runs_when_one_is_free(tmp_path):
    path, ran_before, fired_early, result, ran, free = run_program(tmp_path, WAIT)
    assert path == "dags.provider.slots.SlotTrigger"
    assert (ran_before, fired_early) == (0, False)
    assert (result, ran, free) == ("done", 1, False)
