"""The audit on a standalone Spark cluster, and of a run directory in HDFS: each row equals the local audit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from chaos.run.directory import Run
from chaos.scenario.resolve import save
from chaos.wait import wait_until
from checks.audit.output.tables import AUDIT_TABLES
from tests.bench.histories import Plan, make, resolved
from tests.support.platform import ROOT, chaos, start
from tests.support.spark_cluster import hdfs, shell, spark_cluster

pytestmark = [pytest.mark.landing, pytest.mark.spark_cluster]

RECORDS = 100_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with spark_cluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a history with loss and duplicates, with its local audit."""
    run = history(tmp_path_factory.mktemp("runs") / "rich", RECORDS)
    assert chaos("audit", run.path, "--json").code == 1
    return run


def history(folder: Path, records: int) -> Run:
    plan, run = Plan(records, "rich"), Run(folder)
    make(folder, plan)
    save(run, resolved(plan))
    return run


def copied(run: Run, folder: Path) -> Run:
    """Copy the ledger without results."""
    shutil.copytree(run.ledger, folder / "ledger")
    shutil.copy(run.resolved, folder)
    return Run(folder)


@contextmanager
def put_into_hdfs(run: Run, folder: Path) -> Iterator[tuple[str, Callable[..., None]]]:
    """Yield the URI of a copy of the run in another file system, and the function that runs `hdfs dfs`."""
    with hdfs(folder / "hdfs") as home:
        fs = shell(folder / "conf")
        copied(run, folder / "rich")
        fs("-mkdir", "-p", f"{home}/runs")
        fs("-put", folder / "rich", f"{home}/runs/")
        yield f"{home}/runs/rich", fs


def audited(run: Run, master: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "tests.system.spark_audit", str(run.path), master]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def same_tables(one: Path, other: Path) -> list[str]:
    return [t for t in AUDIT_TABLES if pq.read_table(one / t).equals(pq.read_table(other / t))]


def running(cluster) -> list[str]:
    with urllib.request.urlopen(f"{cluster.web}/json/", timeout=10) as page:
        return [app["id"] for app in json.load(page)["activeapps"]]


def test_two_workers_find_what_one_process_finds_and_send_the_driver_only_summaries(cluster, run, tmp_path):
    small = audited(copied(run, tmp_path / "small"), cluster.url)
    assert same_tables(tmp_path / "small" / "audit", run.audit) == list(AUDIT_TABLES)
    assert all(small["tasks"][executor] > 0 for executor in ("0", "1"))
    assert small["tasks"]["driver"] == 0
    assert small["limit"] == "64m"

    large = audited(history(tmp_path / "large", 4 * RECORDS), cluster.url)
    # curves have a point every 250 ms of the run; the records stay on the executors
    assert large["bytes"] < 2 * small["bytes"] < 2_000_000
    wait_until(lambda: running(cluster) == [], 20, lambda: f"still there: {running(cluster)}")


@pytest.mark.nightly(
    twin="system/test_spark_cluster.py::test_two_workers_find_what_one_process_finds_and_send_the_driver_only_summaries"
)
def test_a_run_directory_in_hdfs_is_audited_there_and_gets_its_results(cluster, run, tmp_path):
    with put_into_hdfs(run, tmp_path) as (uri, fs):
        ended = chaos("audit", uri, "--spark-master", cluster.url, "--json")
        assert ended.code == 1, ended.err
        assert ended.result["run_dir"] == uri
        fs("-get", uri, tmp_path / "back")
        assert same_tables(tmp_path / "back" / "audit", run.audit) == list(AUDIT_TABLES)
        assert json.loads((tmp_path / "back" / "result.json").read_text()) == ended.result
        names = {p.name for p in (tmp_path / "back").iterdir()}
        assert {"gx", "validation.json", "events.jsonl", "report.html", "junit.xml"} <= names
        assert not [name for name in names if name.startswith(".")]
        assert (tmp_path / "back" / "report.html").stat().st_size > 10_000


@pytest.mark.nightly(
    twin="system/test_spark_cluster.py::test_two_workers_find_what_one_process_finds_and_send_the_driver_only_summaries"
)
def test_a_part_that_is_missing_in_hdfs_is_named(cluster, run, tmp_path):
    with put_into_hdfs(run, tmp_path) as (uri, fs):
        fs("-rm", f"{uri}/ledger/sends.parquet/part-00000.parquet")
        ended = chaos("audit", uri, "--spark-master", cluster.url, "--json")
        assert (ended.code, ended.result["verdict"]) == (3, "inconclusive")
        assert f"{uri}/ledger/sends.parquet has" in ended.result["sentence"]
        assert str(tmp_path) not in ended.result["sentence"]


@pytest.mark.nightly(
    twin="system/test_spark_cluster.py::test_two_workers_find_what_one_process_finds_and_send_the_driver_only_summaries"
)
def test_file_uris_are_read_in_place_and_a_damaged_part_is_named(run, tmp_path):
    there = copied(run, tmp_path / "there")
    assert chaos("audit", f"file://{there.path}", "--json").code == 1
    assert same_tables(there.audit, run.audit) == list(AUDIT_TABLES)
    assert [p.name for p in there.path.iterdir() if p.name.startswith(".")] == []
    part = sorted(there.ledger.glob("deliveries.parquet/*"))[1]
    part.write_bytes(part.read_bytes()[: 1 << 10])
    ended = chaos("audit", f"file://{there.path}", "--json")
    assert ended.code == 3
    assert f"{part.name} is not readable Parquet" in ended.result["sentence"]
    assert not (there.path / "validation.json").exists()


@pytest.mark.nightly(twin="system/test_interrupted.py::test_ctrl_c_ends_everything")
def test_ctrl_c_ends_the_application(cluster, run, tmp_path):
    process = start("audit", copied(run, tmp_path / "rich").path, "--spark-master", cluster.url)
    wait_until(lambda: running(cluster) != [], 60, "it never came to the master")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in err) == (130, False)
    wait_until(lambda: running(cluster) == [], 30, lambda: f"still there: {running(cluster)}")


@pytest.mark.nightly(
    twin="system/test_spark_cluster.py::test_two_workers_find_what_one_process_finds_and_send_the_driver_only_summaries"
)
def test_executors_that_never_come_are_reported_in_one_line(cluster, run, tmp_path):
    conf = "spark.executor.memory=900g spark.scheduler.maxRegisteredResourcesWaitingTime=5s"
    env = {**os.environ, "AFTERSHOCK_SPARK_CONF": conf}
    there = copied(run, tmp_path / "rich").path
    ended = chaos("audit", there, "--spark-master", cluster.url, "--json", env=env)
    assert ended.code == 3
    assert "gave no executor within 5 s" in ended.result["sentence"]
    assert "900g" in ended.result["sentence"]
    assert "Traceback" not in ended.err


@pytest.mark.nightly(
    twin="system/test_spark_cluster.py::test_two_workers_find_what_one_process_finds_and_send_the_driver_only_summaries"
)
def test_executors_without_our_requirements_are_reported_in_one_line(cluster, run, tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    env = {**os.environ, "AFTERSHOCK_SPARK_CONF": f"spark.pyspark.python={bare}"}
    ended = chaos("audit", copied(run, tmp_path / "rich").path, "--spark-master", cluster.url, "--json", env=env)
    assert ended.code == 3
    assert "cannot run our Python" in ended.result["sentence"]
    assert "spark.pyspark.python" in ended.result["sentence"]


@pytest.mark.parametrize(
    ("master", "said"),
    [("spark:/host", "is not a Spark master"), ("spark://127.0.0.1:9", "no Spark master answers")],
)
def test_a_wrong_master_is_refused_before_anything_starts(run, tmp_path, master, said):
    for command in (("audit", run.path), ("run", "clean-run", "--runs-dir", tmp_path)):
        ended = chaos(*command, "--spark-master", master)
        assert (ended.code, said in " ".join(ended.err.split())) == (2, True), ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        pytest.param("gs://bucket/run", "AFTERSHOCK_SPARK_CONF", id="scheme"),
        pytest.param(
            "file:///no/such/run",
            "has no resolved.json",
            id="folder",
            marks=pytest.mark.nightly(
                twin="system/test_spark_cluster.py::test_a_uri_that_leads_nowhere_is_reported_in_one_line[scheme]"
            ),
        ),
    ],
)
def test_a_uri_that_leads_nowhere_is_reported_in_one_line(uri, said):
    ended = chaos("audit", uri)
    assert (ended.code, said in " ".join(ended.err.split())) == (2, True), ended.err
    assert "Traceback" not in ended.err
