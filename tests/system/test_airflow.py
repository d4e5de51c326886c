"""The DAGs: they import, they declare their params, and one runs through Airflow against a real cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.history.runs import find_runs
from chaos.history.store import Store, default_url
from chaos.run.campaign import GateResult
from chaos.run.proof import ProofResult
from chaos.run.result import Judged, RunOutcome
from chaos.scenario.load import load
from chaos.scenario.shipped import shipped
from tests.support.platform import HELD, ROOT, SHORTEST, chaos, left_running

pytestmark = pytest.mark.airflow

INSPECT = """
import json
from airflow.sdk import Asset
from airflow.dag_processing.dagbag import DagBag
bag = DagBag("dags")
print(json.dumps({"errors": list(bag.import_errors.values()), "dags": {
    dag_id: {"schedule": getattr(dag.timetable, "expression", None), "outlets": {
                 t.task_id: [a.name for a in t.outlets if a == Asset(a.name)] for t in dag.tasks if t.outlets},
             "pools": {t.task_id: t.pool for t in dag.tasks}, "upstream": {
                 t.task_id: sorted(t.upstream_task_ids) for t in dag.tasks},
             "rules": {t.task_id: t.trigger_rule for t in dag.tasks}, "notifies": bool(dag.on_failure_callback),
             "leaves": sorted(t.task_id for t in dag.leaves), "params": list(dag.params),
             "teardowns": sorted(t.task_id for t in dag.teardowns),
             "retries": next((t.retries for t in dag.tasks
                              if t.task_id.split(".")[-1] in {"drive", "reproduce", "run_cell", "prove"}), None)}
    for dag_id, dag in bag.dags.items()}}))
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """Return the environment of an Airflow with an empty home and the DAG folder of this project."""
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
    assert set(bag["dags"]) == {f"resilience.{name}" for name in shipped()} | {
        "incident_reproduction",
        "release_gate",
        "prove",
    }


def test_every_dag_ends_in_verdict_and_teardown_takes_the_params_and_never_retries_the_drive(bag):
    for name, dag in bag["dags"].items():
        others = {"incident_reproduction": ["draft", "reproduce"], "release_gate": ["verdict"], "prove": ["prove"]}
        if leaves := others.get(name):
            assert (dag["leaves"], dag["retries"]) == (leaves, 0)
            continue
        sides = load(shipped()[name.removeprefix("resilience.")]).variants
        groups = [f"{side}." for side in sides] or [""]
        assert dag["teardowns"] == sorted(f"{group}destroy" for group in groups)
        assert dag["leaves"] == sorted([*(f"{group}destroy" for group in groups), "verdict"])
        assert {"kafka", "seed", "overrides"} <= set(dag["params"])
        assert dag["retries"] == 0


def test_every_dag_publishes_its_verdict_always_and_a_pass_only_after_the_report(bag):
    for scenario, dag in ((name, bag["dags"][f"resilience.{name}"]) for name in shipped()):
        assert dag["outlets"] == {
            "publish": [f"aftershock/{scenario}/verdict"],
            "verdict": [f"aftershock/{scenario}/pass"],
        }
        last = "compare" if load(shipped()[scenario]).variants else "report"
        assert dag["upstream"]["publish"] == [last] and {"publish", last} <= set(dag["upstream"]["verdict"])
        assert dag["notifies"] and dag["schedule"] is None


def test_a_failed_drive_is_audited_and_reported_and_never_green(bag):
    for name, path in shipped().items():
        dag = bag["dags"][f"resilience.{name}"]
        groups = [f"{side}." for side in load(path).variants] or [""]
        for group in groups:
            rules = [dag["rules"][f"{group}{task}"] for task in ("drive", "audit", "validate", "report")]
            assert rules == ["all_success", "one_done", "all_success", "all_done"]
            assert dag["upstream"][f"{group}audit"] == [f"{group}drive"]
        assert {f"{group}drive" for group in groups} <= set(dag["upstream"]["verdict"])
        assert dag["rules"]["verdict"] == "all_success"


USER_SCENARIO = """
title: mine
schedule: "%s"
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
"""


def test_scenarios_of_a_folder_have_dags_that_run_by_their_schedule_and_an_invalid_one_says_why(airflow, tmp_path):
    (tmp_path / "nightly.yaml").write_text(USER_SCENARIO % "30 2 * * *")
    (tmp_path / "clean-run.yml").write_text(USER_SCENARIO % "@daily")  # wins over the shipped one
    (tmp_path / "my typo.yaml").write_text(USER_SCENARIO % "61 2 * * *")
    env = {**airflow, "AFTERSHOCK_SCENARIOS": str(tmp_path), "AFTERSHOCK_POOL": "clusters"}
    argv = [sys.executable, "-c", INSPECT]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    dags = found["dags"]
    assert found["errors"] == [] and len(dags) == len(shipped()) + 5
    assert dags["resilience.nightly"]["schedule"] == "30 2 * * *"
    assert dags["resilience.clean-run"]["schedule"] == "0 0 * * *"
    assert dags["resilience.my_typo"]["leaves"] == ["invalid"]
    pools = {task: pool for task, pool in dags["resilience.nightly"]["pools"].items() if pool == "clusters"}
    assert sorted(pools) == ["audit", "deploy", "drive"]  # the task that frees a cluster never waits for a slot
    assert [task for task, pool in dags["release_gate"]["pools"].items() if pool == "clusters"] == ["run_cell"]


NOTIFY = """
import json, sys
from types import SimpleNamespace
from dags.provider.outcome import Notifier, Variable
for given in json.loads(sys.argv[1]):
    Variable.get = staticmethod(lambda name, default=None: given["variable"])
    ti = SimpleNamespace(task_id="verdict", xcom_pull=lambda task_ids, key=None: given["run_dir"])
    run = SimpleNamespace(run_id="scheduled__1", conf={"runs_dir": given["runs"]})
    context = {"ti": ti, "run_id": "scheduled__1", "dag_run": run}
    Notifier("clean-run", "deploy", "/nowhere")(context)
"""
SHOUT = """
from airflow.sdk import BaseNotifier
class Shout(BaseNotifier):
    template_fields = ("text",)
    def __init__(self, text, file):
        super().__init__()
        self.text, self.file = text, file
    def notify(self, context):
        with open(self.file, "a") as f:
            f.write(self.text)
"""


def test_each_notifier_gets_the_message_although_another_one_fails(airflow, tmp_path):
    (tmp_path / "shouting.py").write_text(SHOUT)
    run, notified = tmp_path / "run-1", tmp_path / "notified"
    run.mkdir()
    result = Judged(
        run_id="run-1",
        run_dir=str(run),
        scenario="clean-run",
        title="No fault",
        verdict="inconclusive",
        sentence="No verdict: <b> & more.",
        seed=1,
        command="",
    )
    (run / "result.json").write_text(result.model_dump_json())
    shout = {
        "notifier": "shouting.Shout",
        "text": "{{ headline }}|{{ sentence }}|{{ dag_run.run_id }}",
        "file": str(notified),
    }
    both = json.dumps([{"notifier": "no.such.Notifier"}, shout])
    broken = ["[]", "not JSON", '{"notifier": "no.such.Notifier"}', "[7]"]
    given = [{"variable": both, "run_dir": str(run)}, *({"variable": v, "run_dir": None} for v in broken)]
    for one in given:
        one["runs"] = str(tmp_path / "runs")
    env = {**airflow, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    argv = [sys.executable, "-c", NOTIFY, json.dumps(given)]
    subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, check=True)
    lines = [json.loads(line) for line in (tmp_path / "runs" / "notifications.jsonl").read_text().splitlines()]
    assert notified.read_text() == "inconclusive: clean-run|No verdict: &lt;b&gt; &amp; more.|scheduled__1"
    assert lines[0]["sentence"] == "No verdict: <b> & more." and lines[0]["run_dir"] == str(run)
    assert len(lines) == len(given) and all("broke off" in line["sentence"] for line in lines[1:])
    assert {(line["verdict"], line["scenario"]) for line in lines} == {("inconclusive", "clean-run")}
    assert [len(line.get("failed_notifiers", [])) for line in lines] == [1, 0, 0, 1, 1]


MASTERS = {
    "spark://10.0.0.1": "spark://10.0.0.1:7077",
    "spark://10.0.0.1:7078": "spark://10.0.0.1:7078",
    "spark://yarn": "yarn",
    '{"conn_type": "spark", "host": "spark://one:7077,two:7077"}': "spark://one:7077,two:7077",
    '{"conn_type": "spark", "host": "local[2]"}': "local[2]",
}
ASK_MASTERS = """
import json, sys
from dags.provider.connections import spark_master
print(json.dumps([spark_master(name) for name in sys.argv[1:]]))
"""


def test_the_spark_master_comes_from_a_connection_without_airflows_spark_provider(airflow):
    names = {f"spark_{n}": connection for n, connection in enumerate(MASTERS)}
    given = {f"AIRFLOW_CONN_{name.upper()}": connection for name, connection in names.items()}
    env = {**airflow, "PYTHONPATH": os.pathsep.join([str(ROOT)]), **given}
    argv = [sys.executable, "-c", ASK_MASTERS, *names, "missing"]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [*MASTERS.values(), None]


@pytest.mark.landing
@pytest.mark.kafka
def test_the_demo_runs_through_airflow_and_proves_all_three_faults(airflow, tmp_path):
    ended = chaos("dag", "resilience-demo", "--json", "--runs-dir", tmp_path, env=airflow)
    result = ended.result
    unmet = [(e["name"], e["seen"], e["why"]) for e in result["expectations"] if e["verdict"] not in HELD]
    assert (ended.code, result["verdict"], unmet) == (0, "pass", []), result["sentence"]
    assert [f["name"] for f in result["faults"] if f["proven_us"]] == [
        "leader-kill",
        "coordinator-loss",
        "slow-consumer",
    ]
    assert left_running(tmp_path) == []
    for phase in ("injected", "proven", "healed"):
        assert ended.err.count(phase) >= 3


@pytest.fixture
def small(tmp_path):
    """Return the file of a scenario that passes, with one broker and no fault."""
    file = tmp_path / "small.yaml"
    file.write_text(SHORTEST)
    return file


def run_dag(name, airflow, **conf):
    argv = [sys.executable, "-m", "airflow", "dags", "test", name, "--conf", json.dumps(conf, default=str)]
    return subprocess.run(argv, cwd=conf["runs_dir"], env=airflow, capture_output=True, text=True, check=False)


@pytest.mark.landing
@pytest.mark.kafka
def test_a_dag_whose_contract_is_broken_is_not_green(airflow, small, tmp_path):
    env = {**airflow, "AFTERSHOCK_SCENARIOS": str(small.parent)}
    done = run_dag(
        "resilience.small", env, runs_dir=tmp_path, run_id="broken", overrides=["expect.duplicate_write={min: 1}"]
    )
    assert done.returncode == 1, done.stdout[-2000:]
    assert json.loads((tmp_path / "broken" / "result.json").read_text())["verdict"] == "fail"
    assert left_running(tmp_path) == []


@pytest.mark.nightly(twin="system/test_airflow.py::test_a_dag_whose_contract_is_broken_is_not_green")
@pytest.mark.kafka
def test_the_dag_of_a_file_runs_as_that_of_a_shipped_scenario(airflow, small, tmp_path):
    file = small.rename(tmp_path / "my own.yaml")
    ended = chaos("dag", file, "--json", "--runs-dir", tmp_path / "runs", env=airflow)
    assert (ended.code, ended.result["verdict"]) == (0, "pass"), ended.err[-2000:]
    assert "DAG resilience.my_own" in ended.err and left_running(tmp_path) == []


@pytest.mark.nightly(twin="chaos/campaign/prove/test_judge.py")
@pytest.mark.kafka
def test_a_proof_runs_through_airflow_and_is_green_only_if_every_tested_promise_held(airflow, tmp_path):
    app = tmp_path / "app.yaml"
    app.write_text("producer: {config: {acks: all, enable.idempotence: true}}\ntopic: {replication_factor: 3}\n")
    conf = {"app": app, "runs_dir": tmp_path, "run_id": "proven", "budget": "2m", "most": 1}
    done = run_dag("prove", airflow, **conf)
    result = ProofResult.model_validate_json((tmp_path / "proven" / "campaign.json").read_text())
    assert (done.returncode == 0) == (result.verdict == "pass"), done.stdout[-2000:]
    assert result.runs
    assert left_running(tmp_path) == []


@pytest.mark.nightly(twin="system/test_gate.py::test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure")
@pytest.mark.kafka
def test_the_gate_runs_through_airflow_and_is_green_only_if_each_cell_passes(airflow, small, tmp_path):
    contracts = {"as-is": {}, "broken": {"expect": {"duplicate_write": {"min": 1}}}}
    gate = {"title": "two cells", "scenarios": ["small.yaml"], "settings": contracts, "repeat": 1}
    file = tmp_path / "gate.yaml"
    file.write_text(json.dumps(gate))
    done = run_dag("release_gate", airflow, gate=file, runs_dir=tmp_path, run_id="gated")
    assert done.returncode == 1, done.stdout[-2000:]
    result = GateResult.model_validate_json((tmp_path / "gated" / "campaign.json").read_text())
    assert result.verdict == "fail"
    assert {cell.key.settings: cell.verdict for cell in result.cells} == {"as-is": "pass", "broken": "fail"}
    assert left_running(tmp_path) == []


@pytest.mark.nightly(twin="system/test_incident.py::test_a_replay_shows_the_same_with_the_same_releases")
@pytest.mark.kafka
def test_an_incident_is_reproduced_through_airflow(airflow, small, tmp_path):
    done = run_dag("incident_reproduction", airflow, action="repeat", source=small, repeat=1, runs_dir=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:]
    (run,) = find_runs(tmp_path)
    assert RunOutcome.read(run).verdict == "pass"
    assert left_running(tmp_path) == []


@pytest.mark.landing
def test_deploy_refuses_with_one_line_what_the_form_cannot(airflow, tmp_path):
    overrides = ["producers.shop.recrods=5"]
    done = run_dag("resilience.leader-kill", airflow, runs_dir=tmp_path, run_id="refused", overrides=overrides)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "unknown key (did you mean records?)" in said, said[-3000:]
    assert "/chaos/scenario/" not in said  # only Airflow's part of a traceback
    assert not (tmp_path / "refused").exists()


@pytest.mark.nightly(
    twin="system/test_airflow.py::test_a_run_whose_cluster_does_not_start_has_a_report_and_is_in_the_history_with_the_reason"
)
@pytest.mark.kafka
def test_a_drive_that_fails_is_judged_as_by_the_command_line(airflow, tmp_path):
    done = run_dag(
        "resilience.clean-run", airflow, runs_dir=tmp_path, run_id="ended", overrides=["limits.clients=10ms"]
    )
    assert done.returncode == 1, done.stdout[-2000:]
    ended = chaos("run", "clean-run", "--set", "limits.clients=10ms", "--runs-dir", tmp_path / "cli", "--json")
    result = json.loads((tmp_path / "ended" / "result.json").read_text())
    assert (ended.code, result["verdict"], ended.result["verdict"]) == (3, "inconclusive", "inconclusive")
    assert result["sentence"].startswith("No verdict: the drive ended early (clients: not started: ")
    for one in (result, ended.result):
        assert [e["name"] for e in one["expectations"] if e["check"] == "drive_completed"] == ["The drive completed"]
        assert (Path(one["run_dir"]) / "report.html").is_file() and (Path(one["run_dir"]) / "junit.xml").is_file()
    (kept,) = Store(default_url(tmp_path)).entries()
    assert (kept.verdict, kept.sentence) == ("inconclusive", result["sentence"])
    assert left_running(tmp_path) == []


@pytest.mark.landing
@pytest.mark.kafka
def test_a_run_whose_cluster_does_not_start_has_a_report_and_is_in_the_history_with_the_reason(
    airflow, small, tmp_path
):
    env = {**airflow, "AFTERSHOCK_SCENARIOS": str(small.parent)}
    missing = "cluster.config={metric.reporters: org.example.Missing}"
    done = run_dag("resilience.small", env, runs_dir=tmp_path, overrides=[missing])
    assert done.returncode == 1, done.stdout[-2000:]
    (kept,) = Store(default_url(tmp_path)).entries()
    assert kept.verdict == "inconclusive" and "Class org.example.Missing cannot be found" in kept.sentence
    result = json.loads((Path(kept.run_dir) / "result.json").read_text())
    (problem,) = result["problems"]
    assert problem.startswith("deploy failed: broker ") and "did not start: it ended" in problem
    assert "\n" not in result["sentence"]
    assert "did not start" in (Path(kept.run_dir) / "report.html").read_text()
    assert left_running(tmp_path) == []
