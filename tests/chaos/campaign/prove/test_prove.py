"""`prove` as a user runs it: its plan, its errors, its folder, and the comparison with an earlier proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from chaos.campaign.engine import Budget, Queue
from chaos.campaign.folder import Folder
from chaos.campaign.prove.judge import changes, read_earlier
from chaos.campaign.prove.plan import task
from chaos.campaign.prove.prove import ProofRequest, Proving, open_proof, plan_proof, proven
from chaos.cli import app
from chaos.errors import AftershockError, RunDirError, UsageError
from chaos.lab.lab import FinishedRun
from chaos.run.campaign import ProofRun, TrialRun
from chaos.run.directory import Run
from chaos.run.result import RunOutcome
from tests.chaos.campaign.prove.apps import APPS, STRONG, TOPIC, read, write
from tests.chaos.campaign.prove.test_judge import all_held, anomaly, judge_of, run

SECRET = "hunter2-never-shown"


def prove(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["prove", *map(str, arguments)], env={"COLUMNS": "300"})


def error_of(*arguments: str | Path) -> str:
    """Return the error that the command ends with: one line, exit code 2."""
    found = prove(*arguments).exception
    assert isinstance(found, AftershockError), found
    assert found.exit_code == 2
    return str(found)


def test_the_plan_shows_the_sets_in_their_order_and_starts_nothing(tmp_path: Path) -> None:
    done = prove(write(tmp_path, APPS["acks-1"]), "--plan", "--runs-dir", tmp_path / "runs")
    assert done.exit_code == 0
    lines = [line.split()[0] for line in done.stdout.splitlines()]
    assert lines.index("none") < lines.index("leader-isolated") < lines.index("followers-freeze+leader-crash")
    assert not (tmp_path / "runs").exists()


def test_no_output_has_a_secret(tmp_path: Path) -> None:
    producer = {"client": "java", "config": {"sasl.jaas.config": SECRET, "ssl.key.password": SECRET}}
    done = prove(write(tmp_path, {"producer": producer, "topic": TOPIC}), "--plan")
    assert done.exit_code == 0
    assert SECRET not in done.output


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ({"acks": "${ACKS}"}, "acks has a placeholder"),
        ({"acks": 2}, "the values are all"),
        ({"max.request.size": 1}, "it is called message.max.bytes there"),
    ],
)
def test_bad_settings_are_one_clear_message(tmp_path: Path, config: dict[str, object], part: str) -> None:
    producer = {"client": "confluent", "config": config}
    message = error_of(write(tmp_path, {"producer": producer, "topic": TOPIC}), "--plan")
    assert part in message
    assert "${" not in message


def test_a_setting_of_the_other_client_that_only_warns_is_left_out(tmp_path: Path) -> None:
    application = read(tmp_path, {"producer": {"client": "java", "config": {"batch.num.messages": 1}}, "topic": TOPIC})
    assert any("it is called batch.size there" in note for note in application.promises.notes)
    assert application.raw["producers"][0]["config"] == {}
    assert any(text.startswith("batch.num.messages") for text in application.left_out)


def test_a_budget_too_small_for_one_run_is_refused(tmp_path: Path) -> None:
    message = error_of(write(tmp_path, APPS["acks-1"]), "--for", "20s", "--runs-dir", tmp_path / "runs")
    assert message.startswith("--for 20s is too small for one run")
    assert "--for soon is not understood" in error_of(write(tmp_path, APPS["acks-1"]), "--for", "soon")
    assert not (tmp_path / "runs").exists()


def test_a_missing_file_and_nothing_at_all_are_refused(tmp_path: Path) -> None:
    assert "cannot be read" in error_of(tmp_path / "none.yaml")
    assert "give an app.yaml" in error_of()


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    found = prove(write(tmp_path, {"producer": STRONG}), "--bootstrap", "127.0.0.1:9", "--topic", "orders").exception
    assert isinstance(found, AftershockError)
    assert "127.0.0.1:9" in str(found)
    assert "\n" not in str(found)


def opened(folder: Path, **values: Any) -> ProofRequest:
    return ProofRequest(app=write(folder, APPS["acks-1"]), runs_dir=folder / "runs", **values)


def test_a_proof_is_continued_with_its_seed_and_its_sets(tmp_path: Path) -> None:
    request = opened(tmp_path, into=tmp_path / "proof", most=1, seed=7)
    open_proof(*plan_proof(request))
    judge, again = plan_proof(ProofRequest(runs_dir=tmp_path / "runs", resume=tmp_path / "proof"))
    assert (judge.seed, max(len(s.faults) for s in judge.plan.sets)) == (7, 1)
    assert judge.command.endswith("app.yaml --most 1 --seed 7")
    place = open_proof(judge, again).folder
    place.store(stored(run("none")))
    assert [r.set for r in proven(Folder.open(place.path, "proof").runs())] == ["none"]


def test_a_continued_proof_of_a_changed_application_is_refused_in_one_line(tmp_path: Path) -> None:
    request = opened(tmp_path, into=tmp_path / "proof")
    open_proof(*plan_proof(request))
    write(tmp_path, {"producer": STRONG, "topic": TOPIC})
    message = error_of(tmp_path / "app.yaml", "--resume", tmp_path / "proof")
    assert "was begun with other content" in message
    assert "\n" not in message


def test_a_changed_properties_file_counts_as_a_change(tmp_path: Path) -> None:
    (tmp_path / "p.properties").write_text("acks=all\n")
    path = write(tmp_path, {"producer": {"client": "java", "properties": "p.properties"}, "topic": TOPIC})
    request = ProofRequest(app=path, runs_dir=tmp_path, into=tmp_path / "proof")
    open_proof(*plan_proof(request))
    (tmp_path / "p.properties").write_text("acks=all\n# a comment\n")
    assert "was begun with other content" in error_of(path, "--resume", tmp_path / "proof")


def test_a_broken_or_absent_state_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, APPS["acks-1"])
    assert "is no campaign of kind proof" in error_of(path, "--resume", tmp_path / "nothing")
    request = opened(tmp_path, into=tmp_path / "proof")
    place = open_proof(*plan_proof(request)).folder
    (place.path / "runs.jsonl").write_text("{broken\n")
    with pytest.raises(RunDirError, match="is damaged"):
        place.runs()
    (place.path / "plan.json").write_text("{")
    assert "is damaged" in error_of(path, "--resume", place.path)
    assert "leave --into out" in error_of(path, "--resume", place.path, "--into", tmp_path)


def stored(proof: ProofRun) -> TrialRun:
    same = proof.model_dump(include={"run_id", "n", "seed", "verdict", "sentence", "bundle"})
    return TrialRun(**same, part=proof.set, proof=proof)


def proving(folder: Path, *names: str) -> Proving:
    judge = judge_of(folder)
    return Proving([task(judge.application, judge.follow_up.sets[name], 7) for name in names], judge.follow_up)


def test_a_worker_takes_runs_that_fit_its_cluster_among_equals_only(tmp_path: Path) -> None:
    queue = Queue(proving(tmp_path, "none", "leader-isolated", "leader-crash", "all-power"), [], Budget())
    taken = [queue.take("switched False"), queue.take("switched False"), queue.take("switched True")]
    assert [t.part for t in taken if t is not None] == ["none", "leader-crash", "leader-isolated"]


def test_runs_that_follow_come_first_and_once(tmp_path: Path) -> None:
    plan = proving(tmp_path, "leader-crash", "leader-stop")
    unsure = stored(run("leader-crash", "unknown"))
    first, *others = plan.trials([unsure])
    assert (first.run_id, first.tier[0]) == ("leader-crash-again-2", "urgent")
    ids = [trial.run_id for trial in others]
    assert "leader-stop-first-1" in ids and len(ids) == len(set(ids))


def test_a_proof_is_over_if_nothing_works_without_faults(tmp_path: Path) -> None:
    plan, none = proving(tmp_path, "none"), stored(run("none", "unknown"))
    assert not plan.is_over([none])
    assert plan.is_over([none, stored(run("none", "unknown", purpose="again", n=2))])
    assert not plan.is_over([none, stored(run("none", purpose="again", n=2))])


def test_a_run_without_a_result_is_stored_as_unknown(tmp_path: Path) -> None:
    proof = open_proof(*plan_proof(opened(tmp_path, into=tmp_path / "proof", most=1)))
    plan = proving(tmp_path, "leader-crash")
    (trial,) = [t for t in plan.trials([]) if t.part == "leader-crash"]
    finished = FinishedRun(Run(tmp_path / "none"), 1, RunOutcome.missing("the judge ended first"), 1.0)
    found = plan.observe(trial, finished, proof.folder)
    assert found.proof is not None and found.proof.state == "unknown"
    assert plan.describe(found) == "unknown: the judge ended first"


def test_a_later_proof_names_what_became_worse_and_what_was_not_tried_again(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    before = judge.result(all_held(judge), 60)
    lost = [run(s.id, "broken", anomaly()) if s.id == "leader-crash" else run(s.id) for s in judge.plan.sets]
    after = judge.result(lost, 60)
    found = {change.title: change for change in changes(before, after)}
    assert found["An acknowledged record stays in the log"].regression
    assert found["lost_write under a crash of the leader"].now == "seen"
    back = changes(after, before)
    assert not any(change.regression for change in back)
    assert any(change.now == "not seen" for change in back)
    short = judge.result([run("none")], 60)
    assert not any("lost_write" in change.title for change in changes(after, short))
    assert changes(before, before) == []


def test_an_earlier_card_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps({"verdict": "pass"}))
    with pytest.raises(UsageError, match="--baseline: "):
        read_earlier(tmp_path / "card.json")
    with pytest.raises(UsageError, match="--baseline: "):
        read_earlier(tmp_path / "none.json")
