"""The tasks that run the clients of a run on several workers: how many, in which queue, and when a run is refused."""

import json
import socket
import time

import pytest

from tests.support.dag_programs import run_program

pytestmark = pytest.mark.airflow

LOCAL = {"AIRFLOW__CORE__EXECUTOR": "LocalExecutor"}
CELERY = {"AIRFLOW__CORE__EXECUTOR": "airflow.providers.celery.executors.celery_executor.CeleryExecutor"}
TEXT = """
title: two workers
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
fleet: {workers: 2}
"""
ASK = """
import json, sys
import aftershock_clients, resilience
from airflow.sdk.exceptions import AirflowFailException

sys.argv[1:3] = sys.argv[3:] or sys.argv[1:3]
dag = resilience.resilience_two
params = {name: param.value for name, param in dag.params.items()}

def numbers(**changes):
    return aftershock_clients.fleet.function("two.yaml", "", {**params, **changes})

def refusal(**changes):
    try:
        aftershock_clients.check_slots(aftershock_clients.request_of("two.yaml", {**params, **changes}), dag)
    except AirflowFailException as e:
        return str(e)
    return ""

print(json.dumps({
    "numbers": [numbers(), numbers(workers=3), numbers(overrides=["fleet=null"]), numbers(overrides=["nothing=1"])],
    "refusals": [refusal(), refusal(workers=20), refusal(overrides=["fleet=null"])],
    "queues": {task.task_id: task.queue for task in dag.tasks},
    "retries": dag.get_task("clients").retries,
    "doc": dag.doc_md,
}))
"""
RUN = """
import json, sys
from types import SimpleNamespace
import aftershock_clients as clients
from airflow.sdk.exceptions import AirflowFailException

clients.LOOK_S, clients.GRACE_S = 0.2, 0.4
run_dir, states = sys.argv[1], json.loads(sys.argv[2])
asked = []

def get_task_states(dag_id, task_ids, run_ids):
    asked.append([dag_id, task_ids, run_ids])
    state = states.pop(0) if len(states) > 1 else states[0]
    if state == "broken":
        raise OSError("the API server starts again")
    return {run_ids[0]: {task_ids[0]: state}}

ti = SimpleNamespace(dag_id="d", run_id="r", task_id="left.clients", get_task_states=get_task_states)
try:
    clients.clients.function(run_dir, 1, {"kafka_conn_id": ""}, ti)
    print(json.dumps(["", asked]))
except AirflowFailException as e:
    print(json.dumps([str(e), asked]))
"""


def ask(tmp_path, *arguments, **env):
    (tmp_path / "two.yaml").write_text(TEXT)
    only = {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": "resilience.two", "AFTERSHOCK_SCENARIOS": str(tmp_path)}
    return run_program(tmp_path, ASK, *arguments, **only, **env)


def test_a_run_has_a_task_for_each_worker_and_is_refused_if_they_do_not_fit(tmp_path):
    small = ask(tmp_path, **LOCAL, AIRFLOW__CORE__PARALLELISM="2")
    assert small["numbers"] == [[1, 2], [1, 2, 3], [], []]
    two, twenty, none = small["refusals"]
    assert two.startswith(f"nothing was started on {socket.gethostname()}: `drive` and 2 `clients` tasks run at once")
    assert "needs 3 free slots" in two and two.endswith(
        "but [core] parallelism = 2 (AIRFLOW__CORE__PARALLELISM): raise it, or use at most 1 workers"
    )
    assert "needs 21 free slots" in twenty and none == ""
    assert small["retries"] == 0 and "needs 3 free slots" in small["doc"]

    celery = ask(tmp_path, **CELERY, AIRFLOW__CORE__PARALLELISM="2", AFTERSHOCK_QUEUE="drives")
    assert celery["refusals"][0] == celery["refusals"][2] == ""  # each worker has its own limit
    assert "[core] max_active_tasks_per_dag = 16" in celery["refusals"][1]
    assert set(celery["queues"].values()) == {"drives"}


def test_the_clients_have_a_queue_of_their_own_if_there_is_one(tmp_path):
    found = ask(tmp_path, **CELERY, AFTERSHOCK_QUEUE="drives", AFTERSHOCK_FLEET_QUEUE="many")
    assert found["queues"].pop("clients") == "many" and set(found["queues"].values()) == {"drives"}
    assert "2 of the queue many for `clients`" in found["doc"]


def test_the_drive_starts_the_workers_if_tasks_run_one_after_another(tmp_path):
    found = ask(tmp_path, "-", "-", "dags", "test", **LOCAL, AIRFLOW__CORE__PARALLELISM="2")
    assert found["numbers"] == [[], [], [], []] and found["refusals"] == ["", "", ""]


@pytest.fixture
def run_dir(tmp_path):
    """Return the directory of a run without a drive."""
    path = tmp_path / "run"
    (path / "logs").mkdir(parents=True)
    (path / "resolved.json").write_text("{}")
    return path


@pytest.mark.parametrize("states", [["running", "failed"], ["broken", "running", "upstream_failed"]])
def test_a_worker_ends_soon_after_a_drive_that_never_began(tmp_path, run_dir, states):
    began = time.monotonic()
    said, asked = run_program(tmp_path, RUN, str(run_dir), json.dumps(states))
    assert said == f"`drive` has ended ({states[-1]}), and worker-1 on {socket.gethostname()} did not: it was killed"
    assert asked[0] == ["d", ["left.drive"], ["r"]] and time.monotonic() - began < 60


def test_a_worker_that_fails_is_named_with_the_last_line_of_its_log(tmp_path, run_dir):
    (run_dir / "workers").mkdir()
    (run_dir / "workers" / "address.json").write_text('{"host": "127.0.0.1", "port": 1}')
    said, _ = run_program(tmp_path, RUN, str(run_dir), '["running"]')
    assert said.startswith("worker-1 (process ") and "ended with exit code 1: the drive at 127.0.0.1:1 cannot" in said


def test_a_worker_without_the_run_directory_says_where_it_has_to_be(tmp_path):
    said, _ = run_program(tmp_path, RUN, str(tmp_path / "missing"), '["running"]')
    assert f"{socket.gethostname()} has no {tmp_path / 'missing'}: put the folder of the runs" in said
