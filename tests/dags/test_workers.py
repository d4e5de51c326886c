"""Runs on several workers: the queue of all tasks, what the DAGs say that they need, and tasks that are elsewhere."""

import json
import socket

import pytest

from tests.support.dag_programs import run_program

pytestmark = [pytest.mark.landing, pytest.mark.airflow]

ASK = """
import json, sys
from types import SimpleNamespace
from dags.provider import workers
from dags import release_gate, resilience
from airflow.sdk.exceptions import AirflowFailException

pulled = []

def check(task_id, there, run_dir):
    def pull(task_ids, key):
        pulled.append([task_ids, key])
        return there
    try:
        workers.check_worker(run_dir, SimpleNamespace(task_id=task_id, xcom_pull=pull))
    except AirflowFailException as e:
        return str(e)
    return ""

dags = [*(dag for name, dag in vars(resilience).items() if name.startswith("resilience_")), release_gate.dag]
print(json.dumps({
    "answers": [check(*case) for case in json.loads(sys.argv[1])],
    "pulled": pulled,
    "queues": sorted({task.queue for dag in dags for task in dag.tasks}),
    "docs": [dag.doc_md for dag in dags[:1]],
}))
"""

REFUSE = """
import json
from dags.provider import workers
from airflow.sdk.exceptions import AirflowFailException

try:
    workers.check_executor()
    print(json.dumps(""))
except AirflowFailException as e:
    print(json.dumps(str(e)))
"""


def ask(tmp_path, *cases, **env):
    return run_program(tmp_path, ASK, json.dumps(cases), **env)


def refusal(tmp_path, **env):
    return run_program(tmp_path, REFUSE, **env)


def test_a_task_that_is_elsewhere_fails_with_what_to_do(tmp_path):
    here = socket.gethostname()
    cases = [
        ("drive", here, str(tmp_path)),
        ("left.drive", "worker-a", str(tmp_path)),
        ("audit", here, str(tmp_path / "missing")),
        ("destroy", None, str(tmp_path)),  # deploy failed before it started anything
    ]
    found = ask(tmp_path, *cases)
    same, other, missing, nothing = found["answers"]
    assert same == nothing == ""
    assert f"the cluster of this run is on worker-a, and this task is on {here}; set AFTERSHOCK_QUEUE" in other
    assert f"{here} has no {tmp_path / 'missing'}; set AFTERSHOCK_QUEUE" in missing
    assert found["pulled"][:2] == [["deploy", "worker"], ["left.deploy_side", "worker"]]
    assert found["queues"] == ["default"] and "several machines" not in found["docs"][0]


CELERY = {"AIRFLOW__CORE__EXECUTOR": "airflow.providers.celery.executors.celery_executor.CeleryExecutor"}


def test_all_tasks_have_the_queue_and_without_one_the_docs_say_what_is_needed(tmp_path):
    without = ask(tmp_path, **CELERY)
    assert without["queues"] == ["default"] and "Set AFTERSHOCK_QUEUE to a queue" in without["docs"][0]
    with_queue = ask(tmp_path, **CELERY, AFTERSHOCK_QUEUE="aftershock")
    assert with_queue["queues"] == ["aftershock"] and "several machines" not in with_queue["docs"][0]


def test_a_run_without_a_queue_or_a_common_folder_is_refused_and_so_are_pods(tmp_path):
    refused = refusal(tmp_path, **CELERY)
    assert refused.startswith(f"nothing was started on {socket.gethostname()}: CeleryExecutor may run the tasks")
    assert "Set AFTERSHOCK_QUEUE to a queue" in refused
    for enough in ({"AFTERSHOCK_QUEUE": "aftershock"}, {"AFTERSHOCK_RUNS": str(tmp_path)}):
        assert refusal(tmp_path, **CELERY, **enough) == ""
    assert refusal(tmp_path, AIRFLOW__CORE__EXECUTOR="LocalExecutor,CeleryExecutor") == ""
    pods = refusal(tmp_path, AIRFLOW__CORE__EXECUTOR="KubernetesExecutor,LocalExecutor", AFTERSHOCK_QUEUE="aftershock")
    assert "KubernetesExecutor runs each task in a pod that ends with the task" in pods


DRIVE_AGAIN = """
import json, sys
from pathlib import Path
from dags.provider import workers
from airflow.sdk.exceptions import AirflowFailException
from chaos.run.directory import Run
from chaos.run.events import EventLog

run = Run(Path(sys.argv[1]))
EventLog(run).note("deployed")
workers.check_not_driven(run)
try:
    with EventLog(run).stage("drive"):
        raise KeyError("broken off")
except KeyError:
    pass
try:
    workers.check_not_driven(run)
    print(json.dumps(""))
except AirflowFailException as e:
    print(json.dumps(str(e)))
"""


def test_a_run_is_driven_once(tmp_path):
    said = run_program(tmp_path, DRIVE_AGAIN, str(tmp_path))
    assert said.startswith(f"{tmp_path} was driven before") and said.endswith("start a new run of the DAG")
