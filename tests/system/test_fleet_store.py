"""Workers that put their ledgers into HDFS, and the audit of them on a Spark master, with a real cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from chaos.ledger.schemas import LARGE
from chaos.ledger.seal import read_seal
from chaos.ledger.store import VARIABLE
from chaos.processes.ports import free_ports
from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.wait import wait_until
from tests.support.platform import chaos, left_running, start
from tests.support.spark_cluster import SparkCluster, hdfs, spark_cluster

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark_cluster,
    pytest.mark.timeout(1500),
    pytest.mark.nightly(
        twin="system/test_fleet.py::test_the_large_tables_of_workers_go_to_a_folder_by_url_and_are_audited_there"
    ),
]

RECORDS = 500_000
TEXT = """
title: many records on two workers
cluster: {brokers: 1}
topics: [{name: orders, partitions: 4, replication_factor: 1}]
producers: [{name: shop, topic: orders, count: 2, records: RECORDS}]
consumers:
  - {mode: subscribe, name: billing, group: billing, members: 2, topics: [orders],
     config: {auto.offset.reset: earliest, session.timeout.ms: 6000}}
faults:
  - {name: crash, kind: consumer.crash, target: {member: billing/2}, when: {acked: 50000},
     heal: {when: {after: crash.proven + 500ms}}}
FLEET
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("spark")) as started:
        yield started


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (port,) = free_ports(1)
    with hdfs(tmp_path / "hdfs", port, data_nodes=2):
        yield f"webhdfs://root@localhost:{port}/ledgers"


def scenario(folder: Path, name: str, workers: int, records: int = RECORDS) -> Path:
    fleet = f"fleet: {{workers: {workers}}}" if workers else ""
    path = folder / f"{name}.yaml"
    path.write_text(TEXT.replace("RECORDS", str(records)).replace("FLEET", fleet))
    return path


def environment(url: str) -> dict[str, str]:
    return {**os.environ, VARIABLE: url}


def stored(url: str, run: Run) -> set[str]:
    fs, root = fsspec.core.url_to_fs(f"{url}/{run.path.name}")
    return {str(path).removeprefix(f"{root}/") for path in fs.find(root)}


def kinds(result: dict[str, Any]) -> set[tuple[str, str]]:
    return {(total["check"], total["split"]) for total in result["totals"] if total["count"]}


def variant_result(comparison: dict[str, Any], name: str) -> dict[str, Any]:
    (side,) = [side for side in comparison["sides"] if side["name"] == name]
    return json.loads((Path(comparison["run_dir"]) / side["run"] / "result.json").read_text())


def test_a_million_records_of_two_workers_are_audited_where_they_are(spark, url, tmp_path):
    runs = ("--runs-dir", tmp_path / "runs", "--json")
    apart = chaos("run", scenario(tmp_path, "apart", 2), *runs, "--spark-master", spark.url, env=environment(url))
    assert (apart.code, apart.result["verdict"]) == (0, "pass"), apart.result["sentence"]
    assert apart.result["counts"]["sent"] == 2 * RECORDS
    run = Run.open(Path(apart.result["run_dir"]))
    seal = read_seal(run.ledger)
    assert seal.store == f"{url}/{run.path.name}"
    names = stored(url, run)
    for table in LARGE:
        assert not (run.ledger / f"{table}.parquet").exists()
        parts = [name for name in names if name.startswith(f"ledger/{table}.parquet/")]
        assert len(parts) == len(seal.tables[table].parts), table
    assert len(seal.tables["sends"].parts) >= 3  # that of the drive, which has no rows, and some of each worker
    assert {name.split("/")[1] for name in names if not name.endswith("seal.json")} <= {
        *[f"{t}.parquet" for t in LARGE],
        "log",
    }
    assert not list((run.ledger / "log").iterdir())
    assert apart.result["load"]["acked_per_s"] > 0

    together = chaos("run", scenario(tmp_path, "together", 0), *runs)
    assert (together.code, together.result["verdict"]) == (0, "pass"), together.result["sentence"]
    assert together.result["counts"]["sent"] == 2 * RECORDS
    assert kinds(apart.result) == kinds(together.result)

    # the same run again, in one process, from the same files
    again = chaos("audit", run.path, "--json", env={**os.environ})
    assert again.result["counts"] == apart.result["counts"]
    assert again.result["totals"] == apart.result["totals"]


def test_records_that_are_lost_are_found_in_the_store(spark, url, tmp_path):
    fleet = ("--set", "fleet.workers=2", "--runs-dir", tmp_path / "runs", "--json")
    ended = chaos("run", "acks1-leader-kill", *fleet, "--spark-master", spark.url, env=environment(url))
    assert ended.code == 0, ended.result["sentence"]
    found = {name: variant_result(ended.result, name) for name in ("acks-1", "acks-all")}
    lost = {
        name: {t["count"] for t in result["totals"] if t["check"] == "lost_write"} for name, result in found.items()
    }
    assert max(lost["acks-1"]) > 0 and lost["acks-all"] == {0}
    again = chaos("audit", found["acks-1"]["run_dir"], "--json")
    assert (again.result["totals"], again.result["counts"]) == (found["acks-1"]["totals"], found["acks-1"]["counts"])


def test_a_part_that_is_gone_or_different_makes_the_audit_inconclusive(url, tmp_path):
    runs = ("--runs-dir", tmp_path / "runs", "--json")
    ended = chaos("run", scenario(tmp_path, "apart", 2, 60_000), *runs, env=environment(url))
    assert ended.code == 0, ended.result["sentence"]
    run = Run.open(Path(ended.result["run_dir"]))
    fs, root = fsspec.core.url_to_fs(f"{url}/{run.path.name}")
    empty, one = (f"{root}/ledger/sends.parquet/part-0000{n}.parquet" for n in (0, 1))
    content = fs.cat_file(one)
    for changed, said in ((fs.cat_file(empty), "has 0 rows"), (content[:5000], "is not readable Parquet")):
        fs.pipe_file(one, changed)
        again = chaos("audit", run.path, "--json")
        assert (again.code, again.result["verdict"]) == (3, "inconclusive")
        assert "part-00001" in again.result["sentence"] and said in again.result["sentence"]
    fs.rm_file(one)
    gone = chaos("audit", run.path, "--json")
    assert (gone.code, gone.result["verdict"]) == (3, "inconclusive")
    assert "sends.parquet has" in gone.result["sentence"] and url.partition("@")[2] in gone.result["sentence"]


def test_a_file_system_that_is_gone_at_the_end_loses_nothing(tmp_path):
    (port,) = free_ports(1)
    url, runs = f"webhdfs://root@localhost:{port}/ledgers", tmp_path / "runs"
    with hdfs(tmp_path / "hdfs", port):
        process = start(
            "run", scenario(tmp_path, "apart", 2, 200_000), "--runs-dir", runs, "--json", env=environment(url)
        )

        def acked() -> bool:
            found = [Run(path) for path in runs.glob("apart-*")]
            return any(e["kind"] == "progress" and e["acked"] > 200 for run in found for e in read_events(run))

        wait_until(acked, 180, "nothing was acknowledged")
    out, err = process.communicate(timeout=600)
    result = json.loads(out)
    assert (process.returncode, result["verdict"]) == (3, "inconclusive"), err[-2000:]
    assert any("worker-1" in p and "cannot be written" in p for p in result["problems"]), result["problems"]
    assert "fail" not in {e["verdict"] for e in result["expectations"]}
    assert left_running(runs) == []


def test_a_file_system_that_cannot_be_written_is_refused_before_the_load(tmp_path):
    (port,) = free_ports(1)
    url = f"webhdfs://root@localhost:{port}/ledgers"
    ended = chaos(
        "run", scenario(tmp_path, "apart", 2), "--runs-dir", tmp_path / "runs", "--json", env=environment(url)
    )
    assert ended.code == 3
    assert any(f"localhost:{port}/ledgers" in p and "cannot be written" in p for p in ended.result["problems"])
    assert not ended.result["counts"]["sent"]
