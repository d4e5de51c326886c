"""`prove` as a user runs it: its plan, its errors, its folder, and the comparison with an earlier proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from chaos.cli import app
from chaos.errors import AftershockError, RunDirError, UsageError
from chaos.lab.lab import FinishedRun
from chaos.lab.progress import ProgressListener
from chaos.prove import against
from chaos.prove.folder import Plan, ProofFolder
from chaos.prove.prove import ProofRequest, open_proof, plan_proof
from chaos.prove.runner import Crew, Queue
from chaos.prove.task import Task, task
from chaos.run.directory import Run
from chaos.run.outcome import RunOutcome
from tests.chaos.prove.apps import APPS, CAREFUL, STRONG, TOPIC, read, sets, write
from tests.chaos.prove.test_judge import all_held, anomaly, judge_of, run

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
    assert "--for: " in error_of(write(tmp_path, APPS["acks-1"]), "--for", "soon")
    assert not (tmp_path / "runs").exists()


def test_a_missing_file_and_nothing_at_all_are_refused(tmp_path: Path) -> None:
    assert "cannot be read" in error_of(tmp_path / "none.yaml")
    assert "give an app.yaml" in error_of()


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    found = prove(write(tmp_path, {"producer": STRONG}), "--bootstrap", "127.0.0.1:9", "--topic", "orders").exception
    assert isinstance(found, AftershockError)
    assert "127.0.0.1:9" in str(found)
    assert "\n" not in str(found)


def opened(folder: Path, **values: object) -> ProofRequest:
    return ProofRequest(write(folder, APPS["acks-1"]), folder / "runs", **values)  # type: ignore[arg-type]


def test_a_proof_is_continued_with_its_seed_and_its_sets(tmp_path: Path) -> None:
    request = opened(tmp_path, into=tmp_path / "proof", most=1, seed=7)
    open_proof(plan_proof(request), request)
    again = ProofRequest(None, tmp_path / "runs", resume=tmp_path / "proof")
    judge = plan_proof(again)
    assert (judge.seed, max(len(s.faults) for s in judge.plan.sets)) == (7, 1)
    place = open_proof(judge, again).folder
    place.store(run("none"))
    assert [r.set for r in ProofFolder.open(place.path).runs()] == ["none"]


def test_a_continued_proof_of_a_changed_application_is_refused_in_one_line(tmp_path: Path) -> None:
    request = opened(tmp_path, into=tmp_path / "proof")
    open_proof(plan_proof(request), request)
    write(tmp_path, {"producer": STRONG, "topic": TOPIC})
    message = error_of(tmp_path / "app.yaml", "--resume", tmp_path / "proof")
    assert "is not as it was when the proof" in message
    assert "\n" not in message


def test_a_changed_properties_file_counts_as_a_change(tmp_path: Path) -> None:
    (tmp_path / "p.properties").write_text("acks=all\n")
    path = write(tmp_path, {"producer": {"client": "java", "properties": "p.properties"}, "topic": TOPIC})
    request = ProofRequest(path, tmp_path, into=tmp_path / "proof")
    open_proof(plan_proof(request), request)
    (tmp_path / "p.properties").write_text("acks=all\n# a comment\n")
    assert "is not as it was" in error_of(path, "--resume", tmp_path / "proof")


def test_a_broken_or_absent_state_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, APPS["acks-1"])
    assert "is not the folder of a proof" in error_of(path, "--resume", tmp_path / "nothing")
    request = opened(tmp_path, into=tmp_path / "proof")
    place = open_proof(plan_proof(request), request).folder
    (place.path / "runs.jsonl").write_text("{broken\n")
    with pytest.raises(RunDirError, match="is damaged"):
        place.runs()
    (place.path / "plan.json").write_text("{")
    assert "is damaged" in error_of(path, "--resume", place.path)
    assert "leave --into out" in error_of(path, "--resume", place.path, "--into", tmp_path)


def test_a_plan_of_another_version_is_refused(tmp_path: Path) -> None:
    request = opened(tmp_path, into=tmp_path / "proof")
    place = open_proof(plan_proof(request), request).folder
    other = Plan.model_validate({**place.plan.model_dump(), "sets": ["none"]})
    (place.path / "plan.json").write_text(other.model_dump_json())
    assert "another version" in error_of(tmp_path / "app.yaml", "--resume", place.path)


def tasks(folder: Path, *names: str) -> list[Task]:
    application = read(folder, {"producer": STRONG, "consumer": CAREFUL, "topic": TOPIC})
    found = sets(application)
    return [task(application, found[name], 1) for name in names]


def test_a_worker_takes_runs_that_fit_its_cluster_among_equals_only(tmp_path: Path) -> None:
    queue = Queue(tasks(tmp_path, "none", "leader-isolated", "leader-crash", "all-power"), None)
    first = queue.take(switched=False)
    assert first is not None and first.faults.id == "none"
    fitting, switched = queue.take(switched=False), queue.take(switched=True)
    assert fitting is not None and switched is not None
    assert (fitting.faults.id, switched.faults.id) == ("leader-crash", "leader-isolated")


def test_runs_that_follow_come_first_and_once(tmp_path: Path) -> None:
    crash, stop = tasks(tmp_path, "leader-crash", "leader-stop")
    queue = Queue([crash, stop], None)
    assert queue.take(None) == crash
    queue.finish([crash, stop])
    assert [queue.take(None), queue.take(None)] == [stop, stop]  # the one that follows, and the planned one
    queue.finish([])
    queue.finish([])
    assert queue.take(None) is None


def test_no_run_begins_when_the_time_is_over(tmp_path: Path) -> None:
    assert Queue(tasks(tmp_path, "none"), deadline=0.0).take(None) is None
    stopped = Queue(tasks(tmp_path, "none"), None)
    stopped.stop()
    assert stopped.take(None) is None


def test_a_later_proof_names_what_became_worse_and_what_was_not_tried_again(tmp_path: Path) -> None:
    judge = judge_of(tmp_path)
    before = judge.result(all_held(judge), 60)
    lost = [run(s.id, "broken", anomaly()) if s.id == "leader-crash" else run(s.id) for s in judge.plan.sets]
    after = judge.result(lost, 60)
    found = {change.title: change for change in against.changes(before, after)}
    assert found["An acknowledged record stays in the log"].worse
    assert found["lost_write under a crash of the leader"].now == "seen"
    back = against.changes(after, before)
    assert not any(change.worse for change in back)
    assert any(change.now == "not seen" for change in back)
    short = judge.result([run("none")], 60)
    assert not any("lost_write" in change.title for change in against.changes(after, short))
    assert against.changes(before, before) == []


def test_an_earlier_card_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps({"verdict": "pass"}))
    with pytest.raises(UsageError, match="--against: "):
        against.read(tmp_path / "card.json")
    with pytest.raises(UsageError, match="--against: "):
        against.read(tmp_path / "none.json")


class Interrupted:
    """A lab of which the judge ends without a result."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def finish(self) -> FinishedRun:
        return FinishedRun(self.run, 1, RunOutcome.missing("the judge ended first"), 1.0)


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_run_that_an_interruption_ended_is_not_stored_and_runs_again(tmp_path: Path, interrupted: bool) -> None:
    request = opened(tmp_path, into=tmp_path / "proof", most=1)
    proof = open_proof(plan_proof(request), request)
    crew = Crew(proof.folder, proof.judge.follow_up, ProgressListener(), lambda stored: None, jobs=1)
    crew._interrupted = interrupted
    (one,) = tasks(tmp_path, "leader-crash")
    crew._finish(one, Interrupted(Run(tmp_path / "none")), Queue([one], None))  # type: ignore[arg-type]
    assert [stored.state for stored in proof.folder.runs()] == ([] if interrupted else ["unknown"])
    assert crew._errors == []


@pytest.mark.parametrize("enough", [True, False])
def test_no_run_begins_after_a_report_that_has_enough(tmp_path: Path, enough: bool) -> None:
    request = opened(tmp_path, into=tmp_path / "proof", most=1)
    proof = open_proof(plan_proof(request), request)
    crew = Crew(proof.folder, proof.judge.follow_up, ProgressListener(), lambda stored: enough, jobs=1)
    one, other = tasks(tmp_path, "leader-crash", "all-power")
    queue = Queue([one, other], None)
    assert queue.take(None) == one
    crew._finish(one, Interrupted(Run(tmp_path / "none")), queue)  # type: ignore[arg-type]
    assert (queue.take(None) is None) == enough
