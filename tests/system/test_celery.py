"""CeleryExecutor with two workers: the tasks of a run are on the worker of the queue, and without one it is refused.

A deploy that waits for a slot is deferred.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.processes.process import ProcessId
from chaos.processes.slots import Slots
from tests.support.airflow_parts import AirflowParts, why_no_celery
from tests.support.platform import SHORTEST, left_running

ELSEWHERE = "worker-elsewhere"
"""The name of the second machine."""
QUEUE = {"AFTERSHOCK_QUEUE": "aftershock"}
FILE = "aftershock-places.json"
"""The file of the slots in Airflow's home."""


WHY_NOT = why_no_celery()
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowParts]:
    """Yield an Airflow with a worker of the queue `aftershock` here, and one of the default queue elsewhere."""
    folder = tmp_path_factory.mktemp("celery")
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "small.yaml").write_text(SHORTEST)
    home = folder / "airflow"
    home.mkdir()
    env = {"AFTERSHOCK_SCENARIOS": str(folder / "scenarios"), "AFTERSHOCK_HISTORY": "off"}
    with AirflowParts(home, **env) as parts:
        parts.start_redis()
        parts.start("api-server", "api-server", "--port", str(parts.port))
        parts.start("scheduler")
        parts.start("dag-processor", **QUEUE)
        parts.start("triggerer")
        parts.start_worker("here", "aftershock", **QUEUE)
        parts.start_worker("elsewhere", "default", hostname=ELSEWHERE)
        parts.wait_ready("resilience.small")
        yield parts


def passed_on(host: str, airflow: AirflowParts, run: str, run_dir: Path) -> None:
    """Assert that a run ends with a pass, and that all of its tasks were on one machine."""
    state = airflow.wait_ended(run, 300)
    tasks = airflow.tasks(run)
    shown = {name: (task["state"], task["hostname"]) for name, task in tasks.items()}
    assert state == "success", shown
    assert {task["queue"] for task in tasks.values()} == {"aftershock"}
    assert {task["hostname"] for task in tasks.values()} == {host}, shown
    assert json.loads((run_dir / "result.json").read_text())["verdict"] == "pass"


@pytest.mark.nightly(twin="dags/test_slots.py::test_a_task_without_a_slot_defers_and_runs_when_one_is_free")
def test_a_deploy_waits_deferred_for_a_slot_and_one_that_is_ended_meanwhile_leaves_nothing(airflow, tmp_path):
    slots = Slots(airflow.home / FILE, 1)
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert slots.take("this test")
    slots.hand_on("this test", ProcessId.of(holder.pid))
    first = airflow.trigger("resilience.small", runs_dir=str(tmp_path), run_id="first")
    second = airflow.trigger("resilience.small", runs_dir=str(tmp_path), run_id="second")
    for run in (first, second):
        airflow.wait_task(run, "deploy", "deferred")  # the only worker of the queue is free for the other one
    airflow.fail_task(second, "deploy")
    assert airflow.wait_ended(second, 120) == "failed"
    holder.kill()
    holder.wait()
    passed_on(socket.gethostname(), airflow, first, tmp_path / "first")
    assert not (tmp_path / "second").exists() and left_running(tmp_path) == []
    assert slots.any_free()


@pytest.mark.nightly(
    twin="dags/test_operators.py::test_a_command_keeps_its_exit_code_and_ends_with_its_task_unless_it_was_let_go"
)
def test_a_deferred_operator_resumes_on_the_worker_of_the_queue(airflow, tmp_path):
    app = tmp_path / "app.yaml"
    app.write_text("producer: {config: {acks: all, enable.idempotence: true}}\ntopic: {replication_factor: 3}\n")
    run = airflow.trigger("prove", runs_dir=str(tmp_path), run_id="proven", app=str(app), budget="1", most=1)
    airflow.wait_task(run, "prove", "deferred")
    airflow.wait_ended(run, 400)
    task, found = airflow.tasks(run)["prove"], airflow.xcom(run, "prove")
    assert (task["queue"], task["hostname"]) == ("aftershock", socket.gethostname())
    assert json.loads((tmp_path / "proven" / "campaign.json").read_text())["verdict"] == found["verdict"]
    assert (task["state"] == "success") == (found["verdict"] == "pass")
    assert left_running(tmp_path) == []


@pytest.mark.nightly(
    twin="dags/test_workers.py::test_a_run_without_a_queue_or_a_common_folder_is_refused_and_so_are_pods"
)
def test_a_run_stays_on_the_worker_of_the_queue_and_without_a_queue_it_is_refused(airflow, tmp_path):
    run = airflow.trigger("resilience.small", runs_dir=str(tmp_path), run_id="queued")
    passed_on(socket.gethostname(), airflow, run, tmp_path / "queued")

    airflow.end("dag-processor")  # somebody forgot the variable
    airflow.start("dag-processor")
    airflow.wait_queue("resilience.small", "deploy", "default")
    run = airflow.trigger("resilience.small", runs_dir=str(tmp_path), run_id="unqueued")
    assert airflow.wait_ended(run, 300) == "failed"
    deploy = airflow.tasks(run)["deploy"]
    assert (deploy["state"], deploy["hostname"], deploy["try_number"]) == ("failed", ELSEWHERE, 1)
    log = airflow.task_log(run, "deploy")
    assert f"nothing was started on {ELSEWHERE}: CeleryExecutor may run the tasks of a run on several machines" in log
    assert "Set AFTERSHOCK_QUEUE to a queue" in log
    assert not (tmp_path / "unqueued").exists() and left_running(tmp_path) == []
