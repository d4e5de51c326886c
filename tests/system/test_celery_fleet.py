"""Clients on two Celery workers, as mapped tasks beside `drive`: the verdicts of one machine, and what is killed."""

from __future__ import annotations

import html
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.processes.process_table import find_marked
from chaos.run.comparison import Comparison
from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.run.result import Result
from chaos.wait import wait_until
from checks.evidence import ledger_rows
from tests.support.airflow_parts import AirflowParts, why_no_celery
from tests.support.platform import left_running

WHY_NOT = why_no_celery()
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
    pytest.mark.nightly(
        twin="dags/test_clients.py::test_a_run_has_a_task_for_each_worker_and_is_refused_if_they_do_not_fit"
    ),
]
TEXT = """
title: clients on workers
cluster: {brokers: 1}
topics: [{name: orders, partitions: 4, replication_factor: 1}]
producers: [{name: shop, topic: orders, count: 2, records: 2000, rate: 500/s}]
consumers:
  - {mode: subscribe, name: billing, group: billing, members: 2, topics: [orders],
     config: {auto.offset.reset: earliest, session.timeout.ms: 6000}}
faults:
  - {name: crash, kind: consumer.crash, target: {member: billing/2}, when: {acked: 500},
     heal: {when: {after: crash.proven + 500ms}}}
"""
DAG, LOSING = "resilience.workers", "resilience.acks1-leader-kill"
JUDGING = ("drive", "audit", "validate", "report", "publish")
QUEUES = {"AFTERSHOCK_QUEUE": "drives", "AFTERSHOCK_FLEET_QUEUE": "clients"}
HOSTS = {"east", "west"}
TWICE = ["producers.shop.count=4", "consumers.billing.members=4"]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowParts]:
    """Yield an Airflow with one worker of the queue `drives`, and two of the queue `clients` with other host names."""
    folder = tmp_path_factory.mktemp("workers")
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "workers.yaml").write_text(TEXT)
    home = folder / "airflow"
    home.mkdir()
    env = {"AFTERSHOCK_SCENARIOS": str(folder / "scenarios"), "AFTERSHOCK_HISTORY": "off", **QUEUES}
    with AirflowParts(home, **env) as parts:
        parts.start_redis()
        parts.start("api-server", "api-server", "--port", str(parts.port))
        for name in ("scheduler", "dag-processor", "triggerer"):
            parts.start(name)
        parts.start_worker("here", "drives")
        for host in sorted(HOSTS):
            parts.start_worker(host, "clients", hostname=host)
        parts.wait_ready(DAG)
        yield parts


def on_workers(run: Run) -> dict[str, list[str]]:
    """Return the clients by the host of their worker."""
    values = {
        (row["entity"], row["key"]): json.loads(row["value"])
        for row in ledger_rows(run, "cluster", ["entity", "key", "value"])
        if row["entity"].startswith("worker:")
    }
    return {value["name"]: values[entity, "clients"] for (entity, key), value in values.items() if key == "host"}


def notification(runs_dir: Path) -> dict[str, str]:
    """Return the only notification, which the DAG processor writes after the end of a run."""
    file = runs_dir / "notifications.jsonl"
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"), 240, "nobody was notified", every_s=0.5)
    (line,) = file.read_text().splitlines()
    found: dict[str, str] = json.loads(line)
    return found


def test_clients_on_two_workers_have_the_verdict_of_one_machine_and_so_have_twice_as_many(airflow, tmp_path):
    conf = {"alone": {}, "two": {"workers": 2}, "twice": {"workers": 2, "overrides": TWICE}}
    runs = {name: airflow.trigger(DAG, runs_dir=str(tmp_path), run_id=name, **given) for name, given in conf.items()}
    for name, run in runs.items():
        state = airflow.wait_ended(run, 600)
        shown = {task: (found["state"], found["hostname"]) for task, found in airflow.tasks(run).items()}
        assert state == "success", (name, shown)
        result = json.loads((tmp_path / name / "result.json").read_text())
        assert (result["verdict"], len(result["faults"])) == ("pass", 1)
        assert result["counts"]["sent"] == (8000 if name == "twice" else 4000)
    assert airflow.tasks(runs["alone"])["clients"]["state"] == "skipped"
    assert on_workers(Run(tmp_path / "alone")) == {}
    for name, members in (("two", 4), ("twice", 8)):
        tasks = airflow.mapped(runs[name], "clients")
        assert {task["state"] for task in tasks} == {"success"} and {task["hostname"] for task in tasks} == HOSTS
        found = on_workers(Run(tmp_path / name))
        assert found.keys() == HOSTS and [len(clients) for clients in found.values()] == [members // 2] * 2, found
    assert left_running(tmp_path) == []


def driven(airflow: AirflowParts, runs_dir: Path, run_id: str, workers: int | None = 2) -> tuple[str, Run]:
    """Start a long run, and return it and its directory when records are acknowledged."""
    overrides = ["producers.shop.records=100000"]
    run = airflow.trigger(DAG, runs_dir=str(runs_dir), run_id=run_id, workers=workers, overrides=overrides)
    directory = Run(runs_dir / run_id)
    wait_until(lambda: any(e.get("acked", 0) > 200 for e in read_events(directory)), 180, "nothing was acknowledged")
    return run, directory


def reported(directory: Run) -> Result:
    """Return the result of a run without a verdict, which has a report with its sentence."""
    result = Result.read(directory)
    assert result.verdict == "inconclusive" and directory.junit.is_file()
    assert result.problems[0][:60] in html.unescape(directory.report.read_text())
    return result


def test_a_killed_worker_ends_the_run_and_is_named(airflow, tmp_path):
    run, directory = driven(airflow, tmp_path, "killed")
    (agent,) = [m for m in find_marked() if m.role == "worker-2" and m.run_dir == directory.path]
    assert agent.identity.signal(signal.SIGKILL)
    assert airflow.wait_ended(run, 300) == "failed"
    line = notification(tmp_path)
    gone = f"worker-2 (process {agent.identity.pid} on {airflow.mapped(run, 'clients')[1]['hostname']}) is gone"
    assert line["verdict"] == "inconclusive" and gone in line["sentence"], line
    result = reported(directory)
    assert line["sentence"] == result.sentence and line["report"] == str(directory.report)
    assert gone in result.problems[0] and {"shop/2", "billing/2"} <= set(re.findall(r"\w+/2", str(result.problems)))
    states = {task: found["state"] for task, found in airflow.tasks(run).items()}
    assert [states[task] for task in JUDGING] == ["failed", "success", "success", "success", "success"], states
    assert (states["verdict"], states["destroy"]) == ("upstream_failed", "success")
    assert [task["state"] for task in airflow.mapped(run, "clients")] == ["success", "failed"]
    crashed = {
        row["client"]
        for row in ledger_rows(directory, "lifecycle", ["client", "event", "detail"])
        if row["event"] == "crashed" and json.loads(row["detail"]).get("unexpected")
    }
    assert {"shop/2", "billing/2"} <= crashed
    assert left_running(tmp_path) == []


@pytest.mark.parametrize("how", ["killed", "marked"])
def test_a_drive_that_is_killed_has_a_report_and_leaves_nothing(airflow, tmp_path, how):
    run, directory = driven(airflow, tmp_path, how, workers=None)
    if how == "marked":
        airflow.fail_task(run, "drive")
    else:
        client = next(m for m in find_marked() if m.role == "producer shop/1" and m.run_dir == directory.path)
        assert client.owner is not None and client.owner.signal(signal.SIGKILL)  # the process of the task
    assert airflow.wait_ended(run, 300) == "failed"
    states = {task: found["state"] for task, found in airflow.tasks(run).items()}
    assert (states["drive"], states["report"], states["verdict"]) == ("failed", "success", "upstream_failed"), states
    result = reported(directory)
    assert "its process was killed" in result.problems[0] and "never sealed" in " ".join(result.problems), result
    assert notification(tmp_path)["sentence"] == result.sentence
    assert left_running(tmp_path) == []


def test_a_variant_that_fails_does_so_with_the_same_anomalies_on_workers(airflow, tmp_path):
    strict = ["expect.lost_write=0", "expect.offset_reuse=0"]
    found = {}
    for name, given in {"alone": {}, "two": {"workers": 2}}.items():
        run = airflow.trigger(LOSING, runs_dir=str(tmp_path), run_id=name, seed=7, overrides=strict, **given)
        assert airflow.wait_ended(run, 900) == "failed"
        results = {side: Result.read(Run(tmp_path / name / f"{name}-{side}")) for side in ("acks-1", "acks-all")}
        assert [result.verdict for result in results.values()] == ["fail", "pass"], results
        losing = results["acks-1"]
        failed = {(e.check, e.split) for e in losing.expectations if e.verdict == "fail"}
        kinds = {(t.check, t.split) for t in losing.totals if t.count} - {("reordered_write", "")}  # of few runs
        found[name] = losing.verdict, failed, kinds
        assert Comparison.read(Run(tmp_path / name)).verdict == "fail"
        assert bool(on_workers(Run(tmp_path / name / f"{name}-acks-1"))) == (name == "two")
    assert found["alone"] == found["two"]
    assert {("lost_write", ""), ("offset_reuse", "")} == found["two"][1]
    assert left_running(tmp_path) == []


def test_tasks_that_airflow_ends_leave_no_client(airflow, tmp_path):
    run, directory = driven(airflow, tmp_path, "ended")
    airflow.fail_task(run, "clients/0")
    assert airflow.wait_ended(run, 300) == "failed"
    assert "worker-1" in notification(tmp_path)["sentence"]
    assert "worker-1" in reported(directory).problems[0]
    assert left_running(tmp_path) == []
