"""The state of a run from its events, complete, cut off or damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.pages.live import read_live
from chaos.run.directory import Run
from chaos.run.events import ALL_STAGE_TEXTS, EventLog, now_us, stage_times


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, "run-1")


def stage(name: str, state: str, at_us: int = 1, **more: Any) -> dict[str, Any]:
    return {"at_us": at_us, "kind": "stage", "stage": name, "state": state, **more}


def write(run: Run, *events: Any) -> None:
    run.events.write_text("".join(json.dumps(e) + "\n" for e in events))


def test_the_innermost_stage_that_is_going_on_is_the_text(run: Run) -> None:
    began = now_us() - 5_000_000
    write(run, stage("deploy", "begin"), stage("deploy", "end", seconds=3.5), stage("drive", "begin", began))
    assert read_live(run).text == ALL_STAGE_TEXTS["drive"]
    write(run, stage("drive", "begin", began), stage("clients", "begin", began), stage("judge", "begin", began))
    live = read_live(run)
    assert (live.state, live.text) == ("running", "waiting for Spark")
    assert live.stages[-1].seconds > 4 and live.quiet_s > 4


def test_the_wait_for_spark_is_no_time_of_the_stages_around_it_live_and_in_the_report(run: Run) -> None:
    begins = [stage(name, "begin") for name in ("drive", "clients", "judge")]
    lengths = {"judge": 29.0, "clients": 35.0, "drive": 60.0}
    drive = [*begins, *(stage(name, "end", seconds=s) for name, s in lengths.items())]
    write(run, *drive)
    assert {s.name: s.seconds for s in read_live(run).stages} == {"drive": 31.0, "clients": 6.0, "judge": 29.0}
    assert stage_times(drive) == {"drive": 31.0, "clients": 6.0, "judge": 29.0}


def test_each_process_of_a_dag_that_starts_spark_adds_to_the_wait_and_a_second_audit_replaces_it() -> None:
    def waited(name: str, wait_s: float) -> list[dict[str, Any]]:
        wait = stage("judge", "begin"), stage("judge", "end", seconds=wait_s)
        return [stage(name, "begin"), *wait, stage(name, "end", seconds=wait_s + 2)]

    tasks = [*waited("readback", 9.0), *waited("validate", 7.0)]
    assert stage_times(tasks) == {"readback": 2.0, "validate": 2.0, "judge": 16.0}
    again = [*tasks, *waited("validate", 4.0)]
    assert stage_times(again) == {"readback": 2.0, "judge": 13.0, "validate": 2.0}
    quick = [*tasks, stage("validate", "begin"), stage("validate", "end", seconds=3.0)]
    assert stage_times(quick) == {"readback": 2.0, "judge": 9.0, "validate": 3.0}


def test_rates_lag_faults_and_problems_are_read(run: Run) -> None:
    progress = {
        "at_us": 5,
        "kind": "progress",
        "acked": 100,
        "delivered": {"billing": 90},
        "acked_per_s": 50,
        "delivered_per_s": 45,
    }
    producers = [{"topic": "orders"}]
    consumers = [{"name": "billing", "group": "billing", "mode": "subscribe"}]
    scenario = {"producers": producers, "consumers": consumers}
    run.resolved.write_text(json.dumps({"scenario": scenario}))
    fault = {"kind": "fault", "fault": "kill", "words": "killed"}
    phases = [{**fault, "at_us": 6, "phase": "injected"}, {**fault, "at_us": 9, "phase": "proven", "words": "moved"}]
    write(run, progress, {**progress, "acked": "many"}, *phases, {"at_us": 7, "kind": "problem", "words": "slow"})
    live = read_live(run)
    assert [(p.acked, p.behind) for p in live.points] == [(100, {"billing": 10})]
    assert (live.faults[0].phase, live.faults[0].words) == ("proven", "moved")
    assert live.faults[0].at_us == {"injected": 6, "proven": 9} and live.problems == ["slow"]
    producers.append({"topic": "payments"})  # then the counts do not show what billing reads
    run.resolved.write_text(json.dumps({"scenario": scenario}))
    assert read_live(run).points[0].behind == {}


def test_a_failed_stage_breaks_the_run_off_and_a_result_ends_it(run: Run) -> None:
    write(run, stage("deploy", "begin"), stage("deploy", "failed", seconds=1, detail="no Java"))
    live = read_live(run)
    assert live.state == "broke off" and live.stages[0].detail == "no Java"
    run.result.write_text("{}")
    assert (read_live(run).state, read_live(run).has_report) == ("ended", False)


@pytest.mark.parametrize(
    "text", ["", "\n", "{", "null\n[1]\n7\n", '{"kind": "stage"}\n', '{"at_us": "x"}\n', "\x00\xff", '{"at_us": 1}\n']
)
def test_damaged_events_are_left_out(run: Run, text: str) -> None:
    run.events.write_bytes(text.encode("latin-1"))
    assert read_live(run).stages == []


def test_a_stage_of_a_cluster_that_exists_has_other_words(run: Run) -> None:
    with EventLog(run).stage("deploy", "connecting to the cluster"):
        assert read_live(run).text == "connecting to the cluster"
    assert [s.text for s in read_live(run).stages] == ["connecting to the cluster"]
