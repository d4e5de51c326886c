"""Proofs of the applications of published bugs: the application, the score, and the pages."""

import json

import pytest

from chaos.contract import contract
from chaos.corpus.application import application_of
from chaos.corpus.unaided import UNAIDED, Timed, anomalies_of, score
from chaos.errors import RunDirError, UsageError
from chaos.promise.inputs import Options
from chaos.prove import application
from chaos.prove.settings import dump
from chaos.reference.bugs import cases
from chaos.run.corpus_result import UnaidedCase, UnaidedResult
from chaos.run.proof_result import FoundAnomaly, ProofResult, ProofRun
from chaos.scenario.load import find, load, parse
from checks.report import unaided
from tests.support.platform import chaos

EXPRESSED = [
    *("KAFKA-14402", "KAFKA-17754", "librdkafka-4637", "sarama-retry-order"),
    *("franz-go-auto-commit-loss", "kafka-python-offset-reset"),
]
BUG = {"torn_transaction", "duplicate_delivery.illegal"}


def affected(name):
    return load(find(name), variant="affected")


def proven(folder, name):
    """Return the scenario of a bug's application in a proof."""
    file = folder / "app.yaml"
    file.write_text(dump(application_of(affected(name))))
    return parse(dump(application.read(Options(app=file)).raw), name)


@pytest.mark.parametrize("name", EXPRESSED)
def test_a_proof_knows_the_application_of_a_bug(tmp_path, name):
    file = tmp_path / "app.yaml"
    file.write_text(dump(application_of(affected(name))))
    app = application.read(Options(app=file))
    scenario, bug = parse(dump(app.raw), name), affected(name)
    assert not app.left_out
    assert not scenario.faults
    assert scenario.cluster.kafka == bug.cluster.kafka
    assert scenario.producers[0].client.describe() == bug.producers[0].client.describe()
    for found, reader in zip(scenario.consumers, bug.consumers, strict=False):
        assert (found.client.describe(), found.commit.kind) == (reader.client.describe(), reader.commit.kind)
    assert scenario.producers[0].records / (scenario.producers[0].rate or 1) <= 20


def test_a_transaction_and_its_reader_stay_as_they_are():
    app = application_of(affected("KAFKA-14402"))
    assert app["producer"]["config"]["transactional.id"] == "shop"
    assert app["traffic"]["transaction"] == 20
    assert app["consumer"]["config"]["isolation.level"] == "read_committed"


def test_the_controllers_and_features_of_a_cluster_stay_as_they_are(tmp_path):
    cluster = proven(tmp_path, "eligible-leader-replicas").cluster
    assert (cluster.controllers, cluster.features) == (1, {"eligible.leader.replicas.version": 0})


def test_a_feature_that_the_release_does_not_have_is_refused_in_one_line(tmp_path):
    file = tmp_path / "app.yaml"
    file.write_text("producer: {}\ncluster: {kafka: 3.6.2, features: {share.version: 0}}\n")
    with pytest.raises(UsageError, match=r"cluster\.features: Kafka 3\.6\.2 has none"):
        application.read(Options(app=file))


def test_the_anomalies_of_a_bug_are_those_that_it_must_show():
    assert anomalies_of(affected("librdkafka-4637")) == {"duplicate_delivery.illegal", "nonmonotonic_poll"}


def test_the_names_of_a_bugs_anomalies_are_those_of_the_runs_of_a_proof():
    for name in cases():
        known = {line.name for line in contract(affected(name)).lines}
        assert anomalies_of(affected(name)) <= known


def anomaly(name, state):
    return FoundAnomaly(name=name, count=1, state=state, reason="", text=name)


def run(run_id, *anomalies, state="held", faults="leader-crash"):
    return ProofRun(
        set=faults, seed=1, verdict="pass", state=state, sentence="s.", anomalies=list(anomalies), run_id=run_id
    )


def scored(tmp_path, *runs, seconds=()):
    result = ProofResult.model_construct(runs=list(runs), tried=[2, 0], planned=[30, 76], seconds=600.0)
    head = UnaidedCase(name="b", title="t", bug="B 1", shows=[], answer="not applicable")
    return score(head, BUG, Timed(result, tmp_path / "b", dict(seconds)), tmp_path)


def test_a_bug_is_found_if_a_promise_breaks_by_one_of_its_anomalies(tmp_path):
    one = run("a-1", anomaly("torn_transaction", "forbidden"), state="broken", faults="link")
    two = run("b-1", anomaly("duplicate_delivery.illegal", "forbidden"), state="broken", faults="crash")
    case = scored(tmp_path, run("none-1", faults="none"), one, two, seconds={"a-1": 90.0, "b-1": 60.0}.items())
    assert (case.answer, case.found_by, case.detection_s) == ("found", "crash", 60.0)
    assert (case.sets, case.planned, case.runs) == (2, 106, 3)


@pytest.mark.parametrize(
    ("runs", "answer"),
    [
        ([run("a", anomaly("duplicate_delivery.legal", "forbidden"), state="broken")], "not found"),
        ([run("a", anomaly("torn_transaction", "allowed"))], "not found"),
        ([run("a", anomaly("torn_transaction", "not decided"), state="undecided")], "not found"),
        ([run("a")], "not found"),
        ([run("a", state="unknown"), run("none-1", faults="none")], "could not tell"),
        ([], "could not tell"),
    ],
)
def test_another_anomaly_or_one_that_breaks_nothing_does_not_find_a_bug(tmp_path, runs, answer):
    assert scored(tmp_path, *runs).answer == answer


def test_a_run_with_the_mending_setting_finds_nothing(tmp_path):
    mended = run("m", anomaly("torn_transaction", "forbidden")).model_copy(update={"purpose": "mended"})
    assert scored(tmp_path, run("a"), mended).answer == "not found"


def test_what_else_the_proof_shows_is_named(tmp_path):
    case = scored(tmp_path, run("a", anomaly("lost_write", "forbidden"), anomaly("torn_transaction", "allowed")))
    assert (case.others, case.seen) == (["lost_write"], ["torn_transaction (allowed)"])
    assert unaided.outcome(case) == (
        "seen and no broken promise: torn_transaction (allowed); other broken promises: lost_write"
    )


def test_the_summary_and_the_table_name_each_answer(tmp_path, capsys):
    cases_ = [
        scored(tmp_path, run("a", anomaly("torn_transaction", "forbidden"), state="broken"), seconds=[("a", 61.0)]),
        UnaidedCase(name="c", title="t", bug="C 2", shows=["lost_write"], answer="not applicable", why="no | clients"),
    ]
    result = UnaidedResult(
        sentence="1 of 1.", command="x", machine={"platform": "p", "cpus": 2}, made_us=1, budget_s=60, cases=cases_
    )
    (tmp_path / UNAIDED).write_text(result.model_dump_json())
    unaided.write(tmp_path)
    summary = (tmp_path / "summary.md").read_text()
    assert "| found |" in summary and "leader-crash, after 1 min 1 s" in summary
    assert "no \\| clients" in summary
    unaided.show(tmp_path)
    assert "not applicable" in capsys.readouterr().out


def test_a_broken_result_is_one_clear_line(tmp_path):
    (tmp_path / UNAIDED).write_text(json.dumps({"format": 1}))
    with pytest.raises(RunDirError, match="run the proofs again"):
        unaided.write(tmp_path)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--for", "5m"], "it goes with --unaided"),
        (["--unaided", "--repeat", 2], "--repeat is for the variants"),
        (["--unaided", "--for", "5s"], "--for 5s is too small for one run"),
        (["--unaided", "--for", "soon"], "--for: "),
    ],
)
def test_bad_options_are_refused_in_one_line(tmp_path, argv, message):
    done = chaos("corpus", "KAFKA-17754", *argv, "--runs-dir", tmp_path)
    assert done.code == 2
    assert message in done.err
    assert not list(tmp_path.iterdir())


def test_every_case_has_an_application_or_a_reason():
    for name in cases():
        try:
            assert application_of(affected(name))["cluster"]["brokers"]
        except UsageError as e:
            assert str(e)
