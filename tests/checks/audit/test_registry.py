"""The registry: every anomaly has a rule with scopes, rows examined, applicability, a judgement and an explanation."""

from __future__ import annotations

import pytest

from chaos.anomalies import ANOMALIES, PHRASES
from chaos.scenario.load import parse
from checks.audit.facts.readers import Reader
from checks.audit.rules.registry import NEED_CLOCK, NEED_LOG_TIMES, RULES, nothing_to_examine

READERS = [
    Reader("billing", "subscribe", "billing", ("orders",), 1, "latest", "", commits=True, processes=True, counts=True),
    Reader("group", "subscribe", "group", ("orders",), 1, "latest", "", commits=True),
    Reader("job/1", "assign", None, ("orders",), 1, "latest", "", commits=False, committed_only=False),
]
BARE = "title: t\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders}]\n"
ALWAYS_APPLICABLE = {
    *("lost_write", "duplicate_write", "reordered_write", "misplaced_write", "phantom_write", "corrupt_record"),
    *("resurrected_write", "offset_reuse", "backdated_write"),
}


def test_every_anomaly_has_one_rule_and_phrases() -> None:
    assert set(RULES) == set(ANOMALIES) == {check for check, _ in PHRASES}


@pytest.mark.parametrize("check", ANOMALIES)
def test_a_rule_is_complete(check: str) -> None:
    rule = RULES[check]
    assert rule.examines, "it says which rows it examines"
    assert isinstance(rule.explain, str) or callable(rule.explain)
    levels = (
        rule.rows,
        rule.writes,
        rule.reader,
        rule.reads,
        rule.shares,
        rule.commits,
        rule.keys,
        rule.counts,
        rule.run,
    )
    assert any(levels), "it judges somewhere"
    scopes = rule.scopes(["orders"], READERS)
    expected = {"write": [["orders"]], "read": [], "group": [["billing", "group"]]}
    expected["read"] = [["billing", "group", "job/1"], ["billing", "group"], ["billing"]]
    expected["share"] = [["orders"]]  # the audit counts them in share groups, which are no readers
    expected["quorum"] = [["controllers"]]
    assert scopes in expected[ANOMALIES[check].path]


@pytest.mark.parametrize("check", ANOMALIES)
def test_a_scenario_without_readers_and_transactions_gives_most_rules_nothing(check: str) -> None:
    assert bool(nothing_to_examine(parse(BARE, "x"), check)) == (check not in ALWAYS_APPLICABLE)


def test_the_checks_that_compare_times() -> None:
    assert {
        *("duplicate_delivery", "lost_processing", "overcommit", "commit_rewind", "foreign_commit"),
        *("zombie_commit", "precommitted_read", "backdated_write", "hanging_transaction"),
        *("returned_record", "expired_commit", "lost_commit"),
        *("redelivered_share", "miscounted_share", "lock_overrun", "competing_controllers", "overdue_record"),
    } == NEED_CLOCK


def test_the_checks_that_compare_times_of_records_in_the_log() -> None:
    assert {
        *("returned_record", "lost_share", "missing_output", "duplicate_output", "unconsumed_output"),
    } == NEED_LOG_TIMES


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
