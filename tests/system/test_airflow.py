"""The DAGs: they import, they say what they take, and one runs through Airflow against a real cluster."""

import json
import os
import subprocess
import sys

import pytest

from chaos.scenario import load, shipped
from tests.system.platform import ROOT, chaos, left_running

pytestmark = pytest.mark.airflow

INSPECT = """
import json
from airflow.dag_processing.dagbag import DagBag
bag = DagBag("dags")
print(json.dumps({"errors": list(bag.import_errors.values()), "dags": {
    dag_id: {"leaves": sorted(t.task_id for t in dag.leaves), "params": list(dag.params),
             "teardowns": sorted(t.task_id for t in dag.teardowns),
             "retries": {t.retries for t in dag.tasks if t.task_id.split(".")[-1] in ("drive", "reproduce")}.pop()}
    for dag_id, dag in bag.dags.items()}}))
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """The environment of an Airflow with an empty home of its own, as any Airflow that is pointed at our DAG folder."""
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    }
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=env, capture_output=True, check=True)
    return env


@pytest.fixture(scope="module")
def bag(airflow):
    argv = [sys.executable, "-c", INSPECT]
    done = subprocess.run(argv, cwd=ROOT, env=airflow, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_there_is_one_dag_per_shipped_scenario_and_none_fails_to_import(bag):
    assert bag["errors"] == []
    assert set(bag["dags"]) == {f"resilience.{name}" for name in shipped()} | {"incident_reproduction"}


def test_every_dag_ends_in_verdict_and_teardown_takes_the_params_and_never_retries_the_drive(bag):
    for name, dag in bag["dags"].items():
        if name == "incident_reproduction":
            assert (dag["leaves"], dag["retries"]) == (["reproduce"], 0)
            continue
        sides = load(shipped()[name.removeprefix("resilience.")]).variants
        destroys = sorted(f"{side}.destroy" for side in sides) or ["destroy"]
        assert dag["teardowns"] == destroys
        assert dag["leaves"] == sorted([*destroys, "verdict"])
        assert {"kafka", "seed", "overrides"} <= set(dag["params"])
        assert dag["retries"] == 0


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (None, None),
        ("spark://10.0.0.1:7078", "spark://10.0.0.1:7078"),
        ("spark://10.0.0.1", "spark://10.0.0.1:7077"),
        ("spark://yarn", "yarn"),
        ('{"conn_type": "spark", "host": "spark://one:7077,two:7077"}', "spark://one:7077,two:7077"),
        ('{"conn_type": "spark", "host": "local[2]"}', "local[2]"),
    ],
)
def test_the_spark_master_comes_from_a_connection_without_airflows_spark_provider(airflow, connection, master):
    env = {
        **airflow,
        "PYTHONPATH": str(ROOT / "dags"),
        **({"AIRFLOW_CONN_AFTERSHOCK_SPARK": connection} if connection else {}),
    }
    code = "import json, resilience; print(json.dumps(resilience.spark_master('aftershock_spark')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == master


@pytest.mark.kafka
def test_the_demo_runs_through_airflow_and_proves_all_three_faults(airflow, tmp_path):
    ended = chaos("dag", "resilience-demo", "--json", "--runs-dir", tmp_path, env=airflow)
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
def test_a_dag_whose_contract_is_broken_is_not_green(airflow, tmp_path):
    conf = {"runs_dir": str(tmp_path), "run_id": "broken", "overrides": ["expect.duplicate_write={min: 1}"]}
    argv = [sys.executable, "-m", "airflow", "dags", "test", "resilience.group-split", "--conf", json.dumps(conf)]
    done = subprocess.run(argv, cwd=tmp_path, env=airflow, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout[-2000:]
    assert json.loads((tmp_path / "broken" / "result.json").read_text())["verdict"] == "fail"
    assert left_running(tmp_path) == []
