"""The program of an app.yaml in a proof: its scenario, its runs in turn with the settings, one answer, its settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import chaos
from chaos.campaign.moments import BASELINE
from chaos.campaign.prove.plan import task
from chaos.campaign.prove.program import announced, subject_of
from chaos.campaign.prove.prove import Proof, ProofRequest, Proving, SettingsAndProgram, judged, open_proof, plan_proof
from chaos.cli import app as cli
from chaos.errors import AftershockError, UsageError
from chaos.report.campaign import write as write_pages
from chaos.run.campaign import Mechanism, TrialRun
from chaos.run.directory import Run
from chaos.run.events import MOMENTS, OUTSIDE
from tests.chaos.campaign.prove.apps import CAREFUL, STRONG, TOPIC, read, write
from tests.chaos.campaign.prove.test_judge import run as settings_run

PROGRAM: dict[str, Any] = {
    "name": "billing",
    "command": ["{python}", "work_then_commit.py"],
    "group": "billing",
    "instances": 2,
    "writes": ["invoices"],
    "expect": {"invoices": {"duplicate": {"max": 50}}},
}
APP: dict[str, Any] = {
    "producer": STRONG,
    "consumer": CAREFUL,
    "topic": {"name": "orders", **TOPIC},
    "traffic": {"records": 1500, "rate": "300/s"},
}
ANNOUNCED = {
    "connections": [
        {"instance": "billing/1", "library": "confluent-kafka-python"},
        {"instance": "x/1", "library": "kgo"},
    ],
    "produced": [
        {"instance": "billing/1", "acks": 1, "producer_id": None, "transactional_id": None},
        {"instance": "other/1", "acks": 0, "producer_id": 7, "transactional_id": "t"},
    ],
    "fetched": [{"instance": "billing/2", "isolation": 1}],
    "membership": [
        {"instance": "billing/1", "call": "JoinGroup", "session_us": 6_000_000, "rebalance_us": 300_000_000},
        {"instance": "billing/1", "call": "Heartbeat", "session_us": None, "rebalance_us": None},
    ],
}


@pytest.fixture
def app() -> dict[str, Any]:
    folder = Path(chaos.__file__).parent / "examples"
    return {**APP, "app": {**PROGRAM, "directory": str(folder), "samples": str(folder / "orders.jsonl")}}


def proof_of(tmp_path: Path, app: dict[str, Any]) -> Proof:
    request = ProofRequest(runs_dir=tmp_path, into=tmp_path / "proof", app=write(tmp_path, app), most=1, seed=7)
    return open_proof(*plan_proof(request))


def plan_of(proof: Proof) -> SettingsAndProgram:
    planned = [task(proof.judge.application, faults, 7) for faults in proof.judge.plan.sets]
    assert proof.program is not None
    first = proof.folder.path / proof.program.run_id(BASELINE)
    first.mkdir()
    rows = {"billing/1": [["Produce response", "OffsetCommit request", 40]]}
    (first / "events.jsonl").write_text(json.dumps({"kind": MOMENTS, "at_us": 1, "by_instance": rows}) + "\n")
    return SettingsAndProgram(Proving(planned, proof.judge.follow_up), proof.program)


def program_run(part: str, run_id: str, verdict: str = "pass", **causes: str) -> TrialRun:
    found = [Mechanism(name=name, cause=cause, prevents="care") for name, cause in causes.items()]
    values = {"verdict": verdict, "sentence": "It ran.", "anomalies": {}, "part": part, "run_id": run_id, "seed": 7}
    return TrialRun.model_validate({**values, "mechanisms": found})


def held(name: str) -> TrialRun:
    proof = settings_run(name)
    return TrialRun(verdict="pass", sentence="", part=name, run_id=proof.run_id, seed=7, proof=proof)


def store_wire(run: Run) -> None:
    for table, rows in ANNOUNCED.items():
        folder = run.wire / f"{table}.parquet"
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / "part-0.parquet")


def test_the_scenario_of_the_program_has_the_topics_brokers_and_traffic_of_the_settings(tmp_path, app):
    topics = {"input": {"name": "orders", "partitions": 4}, "output": {"name": "invoices", **TOPIC}}
    application = read(tmp_path, {**{key: value for key, value in app.items() if key != "topic"}, **topics})
    subject = subject_of(application.file, application.raw, 7)
    assert subject is not None
    scenario = subject.scenario
    assert scenario.cluster.brokers == 3 and scenario.cluster.config["broker.session.timeout.ms"] == 4000
    assert {t.name: (t.partitions, t.config.get("min.insync.replicas")) for t in scenario.topics} == {
        "orders": (4, None),
        "invoices": (3, 2),
    }
    (sender,) = scenario.producers
    assert (sender.topic, sender.rate, sender.records, sender.outlast_faults) == ("orders", 300, 1500, True)
    assert sender.value.id == "$.order_id"  # the field of the samples that identifies each
    (effect,) = scenario.effects
    assert (effect.topics, effect.of) == (("invoices",), "orders")
    assert scenario.expect.effects["invoices"].duplicate.max == 50
    assert scenario.apps[0].reads == ["orders"] and "{bootstrap}" in scenario.apps[0].env.values()


def test_the_plan_names_the_program(tmp_path, app):
    done = CliRunner().invoke(
        cli, ["prove", str(write(tmp_path, app)), "--plan", "--most", "1"], env={"COLUMNS": "200"}
    )
    assert done.exit_code == 0 and "in turn with them: billing, crashed at each moment" in done.stdout


def test_two_runs_of_a_program_that_uses_something_outside_do_not_go_at_once(tmp_path, app):
    proof = proof_of(tmp_path, app)
    plan = plan_of(replace(proof, asked=replace(proof.asked, jobs=0)))
    first = program_run(BASELINE, plan.program.run_id(BASELINE))
    assert plan.at_once([held("none"), first]) is None
    events = proof.folder.path / first.run_id / "events.jsonl"
    used = {"kind": OUTSIDE, "at_us": 2, "words": "billing/1 listens on port 8080"}
    events.write_text(events.read_text() + json.dumps(used) + "\n")
    plan.program._outside = None
    assert plan.at_once([held("none"), first]) == 1
    plan.program._outside, plan.program.watched = None, proof.program.watched
    assert plan.at_once([held("none"), first]) is None, "the user said how many"


def test_without_a_program_nothing_changes(tmp_path):
    proof = proof_of(tmp_path, APP)
    assert proof.program is None
    result = judged(proof, [held("none")])
    assert result.program is None and not result.sentence.startswith("Settings:")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"writes": []}, "give writes, the topics of its outputs, or effects"),
        ({"command": ["no-such-program-here"]}, "there is no program 'no-such-program-here'"),
        ({"samples": "nothing.jsonl"}, "nothing.jsonl"),
        ({"comand": ["x"]}, "comand"),
    ],
)
def test_a_mistake_in_the_program_is_known_before_anything_starts(tmp_path, app, changes, message):
    wrong = {**app, "app": {**app["app"], **changes}}
    with pytest.raises(AftershockError, match=message):
        plan_proof(ProofRequest(runs_dir=tmp_path, app=write(tmp_path, wrong)))


def test_the_topics_that_a_program_reads_have_to_be_known(tmp_path, app):
    nameless = {**app, "topic": TOPIC}
    with pytest.raises(UsageError, match=r"app\.yaml:\d+: app\.reads: name the topics"):
        plan_proof(ProofRequest(runs_dir=tmp_path, app=write(tmp_path, nameless)))


def test_settings_and_program_run_in_turn_within_one_budget(tmp_path, app):
    proof = proof_of(tmp_path, app)
    plan = plan_of(proof)
    first = plan.trials([])
    assert [trial.part for trial in first[:2]] == ["none", BASELINE]
    runs = [held("none"), program_run(BASELINE, first[1].run_id)]
    following = plan.trials(runs)
    assert [trial.run_id in plan._of_program for trial in following[:4]] == [False, True, False, True]
    broken = [runs[0], program_run(BASELINE, first[1].run_id, "inconclusive")]
    assert not plan.is_over(broken)  # the settings go on
    assert not any(trial.run_id in plan._of_program for trial in plan.trials(broken))


def test_one_answer_for_both_names_what_the_program_loses_and_where_its_settings_differ(tmp_path, app):
    proof = proof_of(tmp_path, app)
    plan = plan_of(proof)
    first = plan.trials([])[1]
    runs = [*map(held, [s.id for s in proof.judge.plan.sets]), program_run(BASELINE, first.run_id)]
    window = next(t for t in plan.trials(runs) if t.run_id in plan._of_program)
    store_wire(Run(proof.folder.path / first.run_id))
    good = judged(proof, [*runs, program_run(window.part, window.run_id)])
    assert (
        good.verdict == "pass" and good.sentence.startswith("Settings: No set") and "Program: 0 of 1" in good.sentence
    )
    assert "producer.acks: all (app.yaml:3), on the wire 1" in good.sentence

    lost = program_run(window.part, window.run_id, "fail", **{"effect_missing invoices": "offsets first"})
    result = judged(proof, [*runs, lost])
    assert (
        result.verdict == "fail" and result.program is not None and result.program.windows[0].states == {"kill": "lost"}
    )
    write_pages(result, tmp_path)
    page, summary = (tmp_path / "report.html").read_text(), (tmp_path / "summary.md").read_text()
    for text in ("The program itself", "offsets first", "care"):
        assert text in page and text in summary
    assert "On the wire" in page and "producer.acks" in summary.replace("\\", "")


def test_settings_on_the_wire_are_compared_with_those_of_the_file(tmp_path, app):
    store_wire(run := Run(tmp_path / "run"))
    found = {setting.setting: setting for setting in announced(run, "billing", read(tmp_path, app).facts)}
    same = {name for name, setting in found.items() if not setting.differs}
    assert same == {
        *("producer.client", "consumer.client", "producer.transactional"),
        *("consumer.isolation.level", "consumer.max.poll.interval.ms"),
    }
    assert found["producer.acks"].seen == ["1"] and found["producer.enable.idempotence"].seen == ["false"]
    assert found["consumer.session.timeout.ms"].given == "45000" and found["consumer.session.timeout.ms"].seen == [
        "6000"
    ]
    assert announced(Run(tmp_path / "other"), "billing", read(tmp_path, app).facts) == []
