"""A DAG on an existing cluster: an Airflow connection names it, and its password stays in Airflow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.run.directory import Run
from tests.chaos.cluster.test_attached import Watch, files_with, topics_and_groups
from tests.support.platform import HELD, ROOT, chaos, left_running
from tests.support.secured import ENVIRONMENT, PASSWORDS, USER, deploy

pytestmark = [pytest.mark.landing, pytest.mark.airflow, pytest.mark.kafka]


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    made = deploy(Run.create(folder, "theirs"), folder)
    yield made
    made.cluster.destroy()


@pytest.fixture(scope="module")
def airflow(tmp_path_factory, secured):
    """Return the environment of an Airflow that stores the connection; it holds no password."""
    home = tmp_path_factory.mktemp("airflow")
    env = {
        **{key: value for key, value in os.environ.items() if key not in ENVIRONMENT},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    }
    extra = {
        "bootstrap.servers": secured.login,
        "group.id": "not-used",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": PASSWORDS["SCRAM-SHA-512"],
        "ssl.ca.location": str(secured.authority.ca),
    }
    store = home / "connections.json"
    store.write_text(json.dumps({"kafka_secured": {"conn_type": "kafka", "extra": extra}}))
    for argv in (["db", "migrate"], ["connections", "import", str(store)]):
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *argv], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
    store.unlink()
    return env


@pytest.mark.nightly(
    twin="chaos/cluster/test_attached.py::test_break_aims_at_a_topic_of_the_user_over_sasl_and_restores_the_broker"
)
def test_a_dag_runs_on_the_cluster_of_a_connection_and_leaves_no_password(airflow, secured, tmp_path):
    before = topics_and_groups(secured)
    with Watch() as watch:
        ended = chaos(
            *("dag", "clean-run", "--kafka-conn-id", "kafka_secured", "--set", "producers.shop.records=2000"),
            *("--json", "--runs-dir", tmp_path),
            env=airflow,
        )
    result = ended.result
    unmet = [(e["name"], e["seen"], e["why"]) for e in result["expectations"] if e["verdict"] not in HELD]
    assert (ended.code, result["verdict"], unmet) == (0, "pass", []), result["sentence"]
    assert topics_and_groups(secured) == before and left_running(tmp_path) == []
    (run,) = (path for path in tmp_path.iterdir() if path.is_dir())  # the history is beside it
    assert "env:AFTERSHOCK_KAFKA_PASSWORD" in (run / "resolved.json").read_text()
    password = PASSWORDS["SCRAM-SHA-512"]
    assert files_with(run, password) == []
    assert [path for path in files_with(Path(airflow["AIRFLOW_HOME"]), password)] == []
    assert [line for line in watch.arguments if password.encode() in line] == []
    assert password not in ended.out and password not in ended.err


def test_a_missing_connection_is_named_and_nothing_is_left(airflow, tmp_path):
    ended = chaos("dag", "clean-run", "--kafka-conn-id", "nowhere", "--runs-dir", tmp_path, env=airflow)
    assert ended.code == 3 and "Traceback" not in ended.err
    log = Path(ended.err.split("Airflow's log is ")[1].split()[0])
    assert "nowhere" in log.read_text()
    assert left_running(tmp_path) == []
