"""The registry: every anomaly has a rule with scopes, rows examined, applicability, a judgement and an explanation."""

from __future__ import annotations

import pytest
import yaml

from chaos.anomalies import ANOMALIES, PHRASES
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from checks.audit.rules.registry import NEED_CLOCK, NEED_LOG_TIMES, RULES, nothing_to_examine
from checks.audit.rules.rule import Parties
from tests.checks.audit import stories

FULL = """title: t
cluster: {kafka: 4.2.1, controllers: 3, config: {log.retention.check.interval.ms: 1000}}
topics:
  - {name: orders, config: {retention.ms: 1000}}
  - {name: prices, config: {cleanup.policy: compact}}
  - {name: out}
producers:
  - {name: shop, topic: orders, count: 2, keys: 9, transactions: {}, partitioner: round_robin}
  - {name: till, topic: prices, keys: 9, tombstone_every: 5}
  - {name: log, topic: orders, keys: 9, mode: fire_and_forget}
consumers:
  - {name: group, mode: subscribe, group: group, topics: [orders]}
  - {name: job, mode: assign, topics: [orders], config: {isolation.level: read_uncommitted}}
  - {name: pool, mode: share, group: pool, topics: [orders], client: "java:4.2.1",
     settings: {share.isolation.level: read_committed}}
processors: [{name: billing, group: billing, topics: [orders], to: out, state: count, client: streams}]
faults: [{name: cut, kind: topic.delete_records, target: {topic: orders}, leave: 1, when: {at: 5s}}]
"""
"""A scenario that gives every rule something to examine."""
BARE = "title: t\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders}]\n"


def test_every_anomaly_has_one_rule_and_phrases() -> None:
    assert set(RULES) == set(ANOMALIES) == {check for check, _ in PHRASES}


@pytest.mark.parametrize("check", ANOMALIES)
def test_a_rule_is_complete(check: str) -> None:
    rule = RULES[check]
    assert rule.examines, "it says which rows it examines"
    assert isinstance(rule.explain, str) or callable(rule.explain)
    of_rows = (rule.rows, rule.writes, rule.reader, rule.reads, rule.shares, rule.commits, rule.keys, rule.counts)
    assert any((*of_rows, rule.run)), "it judges somewhere"
    scopes, missing = rule.scopes.of(Parties.of(parse(FULL, "x")))
    every = {
        "write": {"orders", "out", "prices"},
        "read": {"billing", "group", "job/1"},
        "group": {"billing", "group"},
        "share": {"pool"},
        "quorum": {"controllers"},
    }
    assert scopes and set(scopes) <= every[ANOMALIES[check].path] and not missing


@pytest.mark.parametrize("check", ANOMALIES)
def test_a_scenario_without_readers_and_transactions_gives_most_rules_nothing(check: str) -> None:
    assert bool(nothing_to_examine(parse(BARE, "x"), check)) == (check not in stories.APPLY_TO_EVERY_SCENARIO)


def test_the_checks_that_compare_times() -> None:
    assert stories.COMPARE_TIMES == NEED_CLOCK
    assert stories.COMPARE_LOG_TIMES == NEED_LOG_TIMES


def test_what_needs_offsets_of_sends_has_nothing_to_examine_if_no_library_reports_them() -> None:
    reader = "{name: billing, mode: subscribe, group: billing, topics: [orders]}"
    flink = f"""title: t
topics: [{{name: orders}}]
consumers: [{reader}]
producers:
  - {{name: shop, topic: orders, client: flink, transactions: {{}}}}
"""
    both = f"{flink}  - {{name: till, topic: orders, transactions: {{}}}}\n"
    for check in ("misplaced_write", "precommitted_read"):
        assert "learns the offset" in nothing_to_examine(parse(flink, "x"), check)
        assert nothing_to_examine(parse(both, "x"), check) == ""


COMPACT = "[{name: orders, config: {cleanup.policy: compact}}]"
READER = "[{name: a, mode: subscribe, group: a, topics: [orders]}]"
UNANSWERED = "[{name: shop, topic: orders, config: {acks: 0}}]"
BILLS = "[{name: shop, topic: bills, transactions: {}}]"


@pytest.mark.parametrize(
    ("check", "more", "reason"),
    [
        ("lost_write", f"topics: {COMPACT}\nproducers: [{{name: shop, topic: orders, keys: 9}}]", "lost_key judges"),
        ("backdated_write", f"producers: {UNANSWERED}", "no producer learns"),
        ("backdated_write", f"producers: {UNANSWERED}\nconsumers: {READER}", ""),
        (
            "aborted_read",
            f"topics: [{{name: orders}}, {{name: bills}}]\nproducers: {BILLS}\nconsumers: {READER}",
            "reads a",
        ),
        (
            "aborted_read",
            f"{{topics: [{{name: bills}}], producers: {BILLS}, consumers: {READER.replace('orders', 'bills')}}}",
            "",
        ),
    ],
)
def test_what_the_audit_leaves_out_is_not_applicable(check: str, more: str, reason: str) -> None:
    found = nothing_to_examine(Scenario.model_validate(yaml.safe_load(BARE) | yaml.safe_load(more)), check)
    assert reason in found and bool(reason) == bool(found)


def test_records_may_return_to_the_partition_from_which_a_fault_deletes_them() -> None:
    fault = "{name: cut, kind: topic.delete_records, leave: 1, when: {at: 5s}, target: {partition: orders/0}}"
    assert nothing_to_examine(parse(f"{BARE}faults: [{fault}]\n", "x"), "returned_record") == ""


@pytest.mark.parametrize(
    ("values", "topics"),
    [
        (["{}", "{}"], {"orders"}),
        (["{value: {samples: orders.jsonl, id: $.n, mark: none}}"], set()),
        (
            ["{value: {samples: orders.jsonl, id: $.n, mark: none}}", "{}"],
            {"orders"},
        ),  # one of two producers seals its records
    ],
)
def test_a_topic_has_checksums_if_one_of_its_producers_writes_them(values: list[str], topics: set[str]) -> None:
    producers = [{"name": f"p{n}", "topic": "orders"} | yaml.safe_load(value) for n, value in enumerate(values)]
    scenario = Scenario.model_validate(yaml.safe_load(BARE) | {"producers": producers})
    assert set(RULES["corrupt_record"].scopes.of(Parties.of(scenario))[0]) == topics


def test_no_rule_about_topics_applies_if_only_applications_write_to_topics():
    scenario = parse(FULL, "x").model_copy(update={"topics": []})
    assert RULES["duplicate_write"].scopes.of(Parties.of(scenario)) == (
        [],
        "no client of the run writes to a topic",
    )


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("", "the scenario has no consumers"),
        (
            "consumers: [{name: pool, mode: share, group: pool, topics: [orders], client: 'java:4.2.1'}]\n"
            "cluster: {kafka: 4.2.1}\n",
            "only share groups read",
        ),
        ("consumers: [{name: group, mode: subscribe, group: group, topics: [orders]}]\n", ""),
    ],
    ids=["none", "share group", "group"],
)
def test_why_a_rule_about_readers_does_not_apply(more: str, reason: str) -> None:
    scopes, said = RULES["skipped_delivery"].scopes.of(Parties.of(parse(BARE + more, "x")))
    assert (scopes, said) == ([] if reason else ["group"], reason)
    if reason:
        of_transactions = RULES["aborted_read"].scopes.of(Parties.of(parse(BARE + more, "x")))
        assert of_transactions == ([], reason), "the first condition that is not met"
