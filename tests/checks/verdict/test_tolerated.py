from __future__ import annotations

from chaos.run.result import Count, Counts
from chaos.scenario.model import Scenario
from checks.verdict.sentence import tolerated


def scenario(**expect: object) -> Scenario:
    return Scenario.model_validate(
        {
            "title": "t",
            "cluster": {"brokers": 3},
            "topics": [{"name": "orders"}],
            "producers": [{"name": "shop", "topic": "orders", "records": 10}],
            "expect": expect,
        }
    )


def total(check: str, count: int, split: str = "", scope: str = "orders") -> Count:
    return Count(check=check, split=split, scope=scope, count=count, examined=1000)


def test_optional_findings_are_listed_with_their_reason_over_all_scopes():
    seen = [total("duplicate_delivery", 40, "legal", "billing"), total("duplicate_delivery", 2, "legal", "audit")]
    seen += [total("duplicate_delivery", 7, "illegal", "audit")]
    (line,) = tolerated(scenario(duplicate_delivery={"illegal": 0}), seen, Counts())
    assert line.startswith("duplicate_delivery: legal, 42 (any number allowed by `expect`): a group resumes at its")


def test_a_finding_that_the_settings_allow_has_their_reason():
    kill = {"name": "kill", "kind": "broker.kill", "target": {"leader_of": "orders/0"}, "when": {"acked": 1}}
    weak = scenario(promised=True).model_dump() | {"faults": [kill]}
    weak["producers"][0]["config"] = {"acks": 1, "enable.idempotence": False}
    (line,) = tolerated(Scenario.model_validate(weak), [total("lost_write", 7), total("dirty_read", 1)], Counts())
    assert line.startswith("lost_write, 7 (any number allowed by the settings): the leader alone acknowledges")
    assert "acks=1" in line
    assert "kill (broker.kill)" in line


def test_demanded_forbidden_and_absent_kinds_are_not_tolerated():
    contract = scenario(lost_write={"min": 1}, duplicate_write={"max": 3}, hanging_transaction={"min": 0})
    seen = [total("lost_write", 7), total("duplicate_write", 4), total("hanging_transaction", 0), total("poll_skip", 1)]
    assert tolerated(contract, seen, Counts()) == []
    (line,) = tolerated(contract, [total("duplicate_write", 3)], Counts())
    assert line == "duplicate_write, 3 (at most 3 allowed by `expect`): the scenario may cause it."


def test_writes_of_unknown_outcome_are_listed():
    (line,) = tolerated(scenario(), [], Counts(unknown=1200))
    assert line.startswith("Writes of unknown outcome, 1,200: the producer got no response")
