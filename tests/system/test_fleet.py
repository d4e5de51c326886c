"""Clients on two workers with a real cluster: a pass like that of one machine, and a killed worker that is named."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from chaos.ledger.schemas import LARGE
from chaos.ledger.store import VARIABLE
from chaos.processes.process_table import find_marked
from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.wait import wait_until
from checks.evidence import ledger_rows
from tests.support.platform import chaos, left_running, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

TEXT = """
title: two workers
cluster: {brokers: 1}
topics: [{name: orders, partitions: 2, replication_factor: 1}]
producers: [{name: shop, topic: orders, count: 2, records: RECORDS, rate: 500/s}]
consumers:
  - {mode: subscribe, name: billing, group: billing, members: 2, topics: [orders],
     config: {auto.offset.reset: earliest, session.timeout.ms: 6000}}
faults:
  - {name: crash, kind: consumer.crash, target: {member: billing/2}, when: {acked: 500},
     heal: {when: {after: crash.proven + 500ms}}}
fleet: {workers: 2}
"""


def scenario(folder: Path, records: int) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(TEXT.replace("RECORDS", str(records)))
    return path


def worker_rows(run: Run, key: str) -> dict[str, object]:
    rows = ledger_rows(run, "cluster", ["entity", "key", "value"])
    return {r["entity"]: json.loads(r["value"]) for r in rows if r["entity"].startswith("worker:") and r["key"] == key}


def test_clients_on_two_workers_pass_and_every_record_is_in_the_ledger(tmp_path):
    ended = chaos("run", scenario(tmp_path, 2000), "--runs-dir", tmp_path / "runs", "--json")
    assert (ended.code, ended.result["verdict"]) == (0, "pass"), ended.result["sentence"]
    assert ended.result["counts"]["sent"] == 4000
    run = Run.open(Path(ended.result["run_dir"]))
    assert worker_rows(run, "clients") == {
        "worker:worker-1": ["shop/1", "billing/1"],
        "worker:worker-2": ["shop/2", "billing/2"],
    }
    clocks = worker_rows(run, "clock")
    assert all(abs(ahead_us) <= uncertainty_us for ahead_us, uncertainty_us in clocks.values()) and len(clocks) == 2
    assert (run.logs / "billing-2.log").exists() and not list((run.path / "workers").iterdir())
    assert left_running(tmp_path / "runs") == []


def test_the_large_tables_of_workers_go_to_a_folder_by_url_and_are_audited_there(tmp_path):
    url = f"file://{tmp_path}/ledgers"
    ended = chaos(
        *("run", scenario(tmp_path, 2000), "--runs-dir", tmp_path / "runs", "--json"), env={**os.environ, VARIABLE: url}
    )
    assert (ended.code, ended.result["verdict"]) == (0, "pass"), ended.result["sentence"]
    assert ended.result["counts"]["sent"] == 4000
    assert ended.result["load"]["acked_per_s"] > 0 and ended.result["load"]["delivered_per_s"] > 0
    run = Run.open(Path(ended.result["run_dir"]))
    assert {path.stem for path in run.ledger.glob("*.parquet")}.isdisjoint(LARGE)
    assert not list((run.ledger / "log").iterdir())
    there = tmp_path / "ledgers" / run.path.name
    assert {path.stem for path in (there / "ledger").iterdir()} == {*LARGE, "log"}
    assert not (there / "workers").exists() or not list((there / "workers").iterdir())

    sends = sorted((there / "ledger" / "sends.parquet").iterdir())
    shutil.copy(sends[0], sends[1])  # that of the drive, which has no rows
    again = chaos("audit", run.path, "--json")
    assert (again.code, again.result["verdict"]) == (3, "inconclusive")
    assert "part-00001.parquet has 0 rows" in again.result["sentence"]
    sends[1].unlink()
    again = chaos("audit", run.path, "--json")
    assert (again.code, again.result["verdict"]) == (3, "inconclusive")
    assert f"{url}/{run.path.name}/ledger/sends.parquet has 2 parts" in again.result["sentence"]


def test_a_killed_worker_makes_the_run_inconclusive_by_name(tmp_path):
    process = start("run", scenario(tmp_path, 100_000), "--runs-dir", tmp_path / "runs", "--json")

    def acked() -> bool:
        runs = [Run(path) for path in (tmp_path / "runs").glob("fleet-*")]
        return any(e["kind"] == "progress" and e["acked"] > 200 for run in runs for e in read_events(run))

    wait_until(acked, 180, "nothing was acknowledged")
    (worker,) = [m for m in find_marked() if m.role == "worker-2" and tmp_path / "runs" in m.run_dir.parents]
    assert worker.identity.signal(signal.SIGKILL)
    out, err = process.communicate(timeout=180)
    result = json.loads(out)
    assert (process.returncode, result["verdict"]) == (3, "inconclusive"), err[-2000:]
    assert any("worker-2" in reason and "is gone" in reason for reason in result["problems"]), result["problems"]
    run = Run.open(Path(result["run_dir"]))
    rows = ledger_rows(run, "lifecycle", ["client", "event", "detail"])
    crashed = {r["client"] for r in rows if r["event"] == "crashed" and json.loads(r["detail"]).get("unexpected")}
    assert {"shop/2", "billing/2"} <= crashed
    assert left_running(tmp_path / "runs") == []
