"""Runs on several workers: the queue of all tasks, what the DAGs say that they need, and tasks that are elsewhere."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tests.support.platform import ROOT

pytestmark = pytest.mark.airflow

ASK = """
import json, sys
from types import SimpleNamespace
import aftershock_workers as workers
import release_gate, resilience
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

dags = [*resilience.build_all().values(), release_gate.dag]
print(json.dumps({
    "answers": [check(*case) for case in json.loads(sys.argv[1])],
    "pulled": pulled,
    "queues": sorted({task.queue for dag in dags for task in dag.tasks}),
    "docs": [dag.doc_md for dag in dags[:1]],
}))
"""


def ask(tmp_path, *cases, **env):
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'dags'}", **env}
    argv = [sys.executable, "-c", ASK, json.dumps(cases)]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


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


def test_all_tasks_have_the_queue_and_without_one_the_docs_say_what_is_needed(tmp_path):
    celery = {"AIRFLOW__CORE__EXECUTOR": "airflow.providers.celery.executors.celery_executor.CeleryExecutor"}
    without = ask(tmp_path, **celery)
    assert without["queues"] == ["default"] and "set `AFTERSHOCK_QUEUE` to a queue" in without["docs"][0]
    with_queue = ask(tmp_path, **celery, AFTERSHOCK_QUEUE="aftershock")
    assert with_queue["queues"] == ["aftershock"] and "several machines" not in with_queue["docs"][0]
