"""CeleryExecutor with two workers: the tasks of a run are on the worker of the queue, and without one it is refused."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.airflow_parts import AirflowParts
from tests.support.platform import left_running

SMALL = """
title: the shortest run
cluster: {brokers: 1}
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders, records: 1000}]
consumers: [{mode: assign, name: replay, topics: [orders], start: earliest}]
"""
ELSEWHERE = "worker-elsewhere"
"""The name of the second machine."""


def why_not() -> str:
    """Return why two workers of different names cannot run here."""
    if not shutil.which("redis-server"):
        return "no redis-server on this machine: apt-get install redis-server"
    named = subprocess.run(["unshare", "--uts", "hostname", ELSEWHERE], capture_output=True, check=False)
    return "" if named.returncode == 0 else "a process cannot have another host name here: run as root"


pytestmark = [
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[AirflowParts]:
    """Yield an Airflow with a worker of the queue `aftershock` here, and one of the default queue elsewhere."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "small.yaml").write_text(SMALL)
    home = tmp_path / "airflow"
    home.mkdir()
    env = {"AFTERSHOCK_SCENARIOS": str(tmp_path / "scenarios"), "AFTERSHOCK_HISTORY": "off"}
    with AirflowParts(home, **env) as parts:
        parts.start_redis()
        queue = {"AFTERSHOCK_QUEUE": "aftershock"}
        for name in ("api-server", "scheduler"):
            parts.start(name, name, *(["--port", str(parts.port)] if name == "api-server" else []))
        parts.start("dag-processor", **queue)
        parts.start_worker("here", "aftershock", **queue)
        parts.start_worker("elsewhere", "default", hostname=ELSEWHERE)
        parts.wait_ready("resilience.small")
        yield parts


def test_a_run_stays_on_the_worker_of_the_queue_and_without_a_queue_it_is_refused(airflow, tmp_path):
    runs = tmp_path / "runs"
    run = airflow.trigger("resilience.small", runs_dir=str(runs), run_id="queued")
    state = airflow.wait_ended(run, 300)
    tasks = airflow.tasks(run)
    shown = {name: (task["state"], task["hostname"]) for name, task in tasks.items()}
    assert state == "success", shown
    assert {task["queue"] for task in tasks.values()} == {"aftershock"}
    assert {task["hostname"] for task in tasks.values()} == {socket.gethostname()}, shown
    assert json.loads((runs / "queued" / "result.json").read_text())["verdict"] == "pass"

    airflow.end("dag-processor")  # somebody forgot the variable
    airflow.start("dag-processor")
    airflow.wait_queue("resilience.small", "deploy", "default")
    run = airflow.trigger("resilience.small", runs_dir=str(runs), run_id="unqueued")
    assert airflow.wait_ended(run, 300) == "failed"
    deploy = airflow.tasks(run)["deploy"]
    assert (deploy["state"], deploy["hostname"], deploy["try_number"]) == ("failed", ELSEWHERE, 1)
    log = airflow.task_log(run, "deploy")
    assert f"nothing was started on {ELSEWHERE}: CeleryExecutor may run the tasks of a run on several machines" in log
    assert "Set AFTERSHOCK_QUEUE to a queue" in log
    assert not (runs / "unqueued").exists() and left_running(runs) == []
