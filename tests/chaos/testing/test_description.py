"""What a test describes: the scenario that it becomes."""

import json
from types import SimpleNamespace

import pytest

from chaos.errors import UsageError
from chaos.run.result import EffectCount, EffectStory, Expectation
from chaos.scenario.load import parse
from chaos.testing.description import Cluster
from chaos.testing.verdict import Verdict


@pytest.fixture
def kafka(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.jsonl").write_text('{"order_id": "x", "amount": 3}\n{"order_id": "y", "amount": 40}\n')
    asked = []
    return Cluster(lambda scenario, seed: asked.append((scenario, seed)), {"brokers": 3}), asked


def parsed(made):
    return parse(json.dumps(made), "test")


def test_a_test_is_a_scenario_with_its_faults_one_after_another(kafka, tmp_path):
    cluster, asked = kafka
    with cluster, cluster.app(["python", "service.py"], reads="orders", writes="invoices", instances=2) as app:
        cluster.send("orders", samples="orders.jsonl", id="$.order_id", records=2_000)
        cluster.kill(leader_of="orders/0")
        app.kill(1)
        app.slow("50ms", heal="4s")
        cluster.verdict(effects={"invoices": "$.order_id"}, seed=7)
    ((made, seed),) = asked
    scenario = parsed(made)
    assert seed == 7 and [t.name for t in scenario.topics] == ["orders", "invoices"]
    assert {t.replication_factor for t in scenario.topics} == {3}
    leader, crash, slow = scenario.faults
    assert (leader.kind, leader.target.leader_of, leader.when.acked) == ("broker.kill", "orders/0", 500)
    assert (crash.kind, crash.target.app, crash.when.works.after) == ("app.kill", "app/1", f"{leader.name}.healed + 1s")
    assert crash.ends_sessions
    assert (slow.target.app, slow.latency, slow.heal.after) == ("app", 0.05, 4.0)
    (effect,) = scenario.effects
    assert (effect.topics, effect.id, effect.of) == (("invoices",), "$.order_id", "orders")
    assert scenario.apps[0].directory == str(tmp_path) and scenario.apps[0].instances == 2


def test_effects_are_the_written_topics_unless_the_test_names_others(kafka):
    cluster, _ = kafka
    cluster.app("python service.py", reads=["orders"], writes=["invoices", "audits"])
    cluster.send("orders", samples="orders.jsonl", id="$.order_id")
    assert [(e.name, e.id) for e in parsed(cluster.scenario()).effects] == [
        ("invoices", "$.order_id"),
        ("audits", "$.order_id"),
    ]
    calls = {"http": {"path": "/invoices", "slow": "2s", "port": 8099}, "id": "$.order_id"}
    (effect,) = parsed(cluster.scenario({"calls": calls}, {"effects": {"calls": {"missing": 0}}})).effects
    assert (effect.source, effect.http.slow) == ("http", 2.0)


def test_one_broker_and_a_topic_of_the_users_own_form(kafka):
    cluster = Cluster(kafka[0]._run, {"brokers": 1, "kafka": "3.9.2"})
    cluster.topic("orders", partitions=1, min_insync_replicas=1)
    cluster.app("python service.py", reads="orders", writes="invoices")
    cluster.send("orders", samples="orders.jsonl", id="$.order_id")
    scenario = parsed(cluster.scenario())
    orders, invoices = scenario.topics
    assert (orders.partitions, orders.replication_factor, orders.config) == (1, 1, {"min.insync.replicas": 1})
    assert (invoices.partitions, invoices.replication_factor) == (4, 1)
    assert scenario.cluster.kafka == "3.9.2"


def test_a_fault_without_a_heal_is_followed_after_its_proof_and_a_trigger_is_taken_as_it_is(kafka):
    cluster, _ = kafka
    app = cluster.app("python service.py", reads="orders", writes="invoices")
    cluster.send("orders", samples="orders.jsonl", id="$.order_id")
    moment = {"wire": {"app": "app/1", "api": "OffsetCommit", "nth": 3}}
    first = app.kill(1, when=moment, heal=None, ends_sessions=False)
    second = cluster.pause(broker=1)
    made = parsed(cluster.scenario())
    assert not made.faults[0].ends_sessions
    assert made.faults[0].when.wire.nth == 3 and made.faults[1].when.works.after == f"{first}.proven + 1s"
    assert second == made.faults[1].name


def test_a_key_of_the_kind_is_a_parameter_and_no_target(kafka):
    cluster, _ = kafka
    cluster.app("python service.py", reads="orders", writes="invoices")
    cluster.send("orders", samples="orders.jsonl", id="$.order_id")
    cluster.fault("wire.corrupt", all_brokers=True, app="app", share="5 %")
    cluster.fault("coordinator.kill", coordinator_of_app="app")
    corrupt, coordinator = parsed(cluster.scenario()).faults
    assert (corrupt.app, corrupt.target.selector) == ("app", ("all_brokers", True))
    assert coordinator.target.coordinator_of_app == "app"


def test_mistakes_are_said_before_anything_starts(kafka):
    cluster, asked = kafka
    with pytest.raises(UsageError, match=r"'broker.kil' is no fault \(did you mean broker.kill\?\)"):
        cluster.fault("broker.kil", broker=1)
    with pytest.raises(UsageError, match="nothing is sent: call send"):
        cluster.verdict()
    assert asked == []


def test_a_test_that_forgets_its_verdict_fails(kafka):
    cluster, asked = kafka
    with pytest.raises(UsageError, match=r"no verdict\(\) follows the fault app-kill-1; end the test with"), cluster:
        app = cluster.app("python service.py", reads="orders", writes="invoices")
        cluster.send("orders", samples="orders.jsonl", id="$.order_id")
        app.kill(1)
    assert not asked
    with cluster:
        cluster.verdict()
    with pytest.raises(UsageError, match=r"no verdict.* follows the fault broker-kill-2"), cluster:
        cluster.verdict()
        cluster.kill(broker=2)
    with pytest.raises(ZeroDivisionError), cluster:  # the failure of the test is not hidden
        cluster.send("orders", samples="orders.jsonl", id="$.order_id")
        raise ZeroDivisionError


def result(verdict, **fields):
    given = {"sentence": "S.", "expectations": [], "effects": [], "problems": [], "seed": 7, **fields}
    return SimpleNamespace(verdict=verdict, **given)


def test_a_verdict_that_nobody_read_is_asserted_at_the_end(kafka, tmp_path):
    cluster, _ = kafka
    cluster.send("orders", samples="orders.jsonl", id="$.order_id")
    cluster._run = lambda scenario, seed: Verdict(result("fail"), tmp_path, tmp_path)
    with pytest.raises(AssertionError, match="FAIL: S"), cluster:
        cluster.verdict()
    with cluster:  # a test may want a failure
        assert cluster.verdict().verdict == "fail"
    cluster._run = lambda scenario, seed: Verdict(result("pass"), tmp_path, tmp_path)
    with cluster:
        cluster.verdict()


def test_a_failure_shows_the_sentence_what_did_not_hold_the_story_and_how_to_run_it_again(tmp_path):
    bound = {"check": "effects", "name": "no effect is missing", "expected": "0", "seen": "3", "scope": "invoices"}
    told = EffectStory(kind="missing", cause="c", number=3, sentence="x has no invoices", prevents="commit later")
    failed = Verdict(
        result(
            "fail",
            expectations=[Expectation(**bound, verdict="fail"), Expectation(**bound, verdict="pass")],
            effects=[EffectCount(name="invoices", source="topic", counts={"missing": 3}, stories=[told])],
        ),
        tmp_path / "a.yaml",
        tmp_path / "report.html",
    )
    with pytest.raises(AssertionError) as e:
        failed.assert_passed()
    first, held, story, mend, report, again = str(e.value).splitlines()
    assert first == "FAIL: S." and held == "  no effect is missing: expected 0, seen 3"
    assert (story, mend) == ("  x has no invoices", "    what prevents it: commit later")
    assert report == f"report: {tmp_path}/report.html" and again.endswith(f"chaos run {tmp_path}/a.yaml --seed 7")
    with pytest.raises(AssertionError, match="INCONCLUSIVE"):
        Verdict(result("inconclusive"), tmp_path, tmp_path).assert_passed()
    Verdict(result("pass"), tmp_path, tmp_path).assert_passed()
