"""The DAGs: they import, they say what they take, and one runs through Airflow against a real cluster."""

import json
import os
import subprocess
import sys

import pytest

from chaos.scenario import shipped
from tests.system.platform import ROOT, chaos, left_running

pytestmark = pytest.mark.airflow

INSPECT = """
import json
from airflow.dag_processing.dagbag import DagBag
bag = DagBag("dags")
print(json.dumps({"errors": list(bag.import_errors.values()), "dags": {
    dag_id: {"leaves": [t.task_id for t in dag.leaves], "params": list(dag.params),
             "teardowns": [t.task_id for t in dag.teardowns], "retries": dag.get_task("drive").retries}
    for dag_id, dag in bag.dags.items()}}))
"""


@pytest.fixture(scope="module")
def airflow_home(tmp_path_factory):
    return tmp_path_factory.mktemp("airflow")


@pytest.fixture(scope="module")
def bag(airflow_home):
    env = {**os.environ, "AIRFLOW_HOME": str(airflow_home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, "-c", INSPECT], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_there_is_one_dag_per_shipped_scenario_and_none_fails_to_import(bag):
    assert bag["errors"] == []
    assert set(bag["dags"]) == {f"resilience.{name}" for name in shipped()}


def test_every_dag_ends_in_its_teardown_takes_the_params_and_never_retries_the_drive(bag):
    for dag in bag["dags"].values():
        assert dag["teardowns"] == ["destroy"]
        assert {"kafka", "seed", "overrides"} <= set(dag["params"])
        assert dag["retries"] == 0


@pytest.mark.kafka
def test_the_demo_runs_through_airflow_and_proves_all_three_faults(airflow_home, tmp_path):
    env = {**os.environ, "AIRFLOW_HOME": str(airflow_home)}
    ended = chaos("dag", "resilience-demo", "--json", "--runs-dir", tmp_path, env=env)
    result = ended.result
    unmet = [(e["name"], e["seen"], e["why"]) for e in result["expectations"] if e["verdict"] != "pass"]
    assert (ended.code, result["verdict"], unmet) == (0, "pass", []), result["sentence"]
    assert [f["name"] for f in result["faults"] if f["proven_us"]] == [
        "leader-kill",
        "coordinator-loss",
        "slow-consumer",
    ]
    assert left_running(tmp_path) == []
    for phase in ("injected", "proven", "healed"):
        assert ended.err.count(phase) >= 3


@pytest.mark.kafka
def test_a_dag_whose_contract_is_broken_is_not_green(airflow_home, tmp_path):
    env = {**os.environ, "AIRFLOW_HOME": str(airflow_home), "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags")}
    conf = {"runs_dir": str(tmp_path), "run_id": "broken", "overrides": ["expect.duplicate_write={min: 1}"]}
    argv = [sys.executable, "-m", "airflow", "dags", "test", "resilience.group-split", "--conf", json.dumps(conf)]
    env |= {"PYTHONPATH": str(ROOT), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert json.loads((tmp_path / "broken" / "result.json").read_text())["verdict"] == "fail"
    assert left_running(tmp_path) == []
