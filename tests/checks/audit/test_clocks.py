"""Faults of clocks: what retention deleted before its time is lost, or undecided where it may have been due."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from chaos.ledger.schemas import COMMIT_LOG
from chaos.scenario.cluster_rules import stamped_topics
from chaos.scenario.load import parse
from checks.audit import audit
from checks.audit.facts.commit_log import SKEWED_BROKERS, CommitLog
from tests.checks.audit.story import Story, make_run, read_audit, resolved_of

JUMP = {
    "name": "jump",
    "kind": "clock.jump",
    "by": "+2h",
    "target": {"broker": 1},
    "when": {"acked": 1},
}


def evicted(number: int, name: str, config: dict[str, Any]) -> Story:
    story = Story(name, number, now=1_000_000 * number)
    story.log_start, story.topic_config = 1, config
    return story.send(0, 0).wrote(1)


@pytest.fixture(scope="module")
def tables(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    stories = [
        evicted(1, "kept-for-an-hour", {"retention.ms": 3_600_000}),
        evicted(2, "kept-for-a-second", {"retention.ms": 1_000}),
        evicted(3, "kept-by-size", {"retention.bytes": 1_000}),
    ]
    resolved = resolved_of(stories)
    values = resolved.scenario.model_dump(mode="json", exclude_unset=True) | {"faults": [JUMP], "expect": {}}
    scenario = type(resolved.scenario).model_validate(values)
    run = make_run(tmp_path_factory.mktemp("clocks") / "run", stories)
    audit(spark, run, resolved.model_copy(update={"scenario": scenario}))
    return {table: read_audit(run, table) for table in ("summary", "anomalies", "counts", "undecided")}


@pytest.mark.slow
def test_what_a_wrong_clock_let_retention_delete_is_lost_where_it_was_not_due(tables: Any) -> None:
    (lost,) = [a for a in tables["anomalies"] if a["check"] == "lost_write"]
    assert lost["scope"] == "kept-for-an-hour"
    found = {r["scope"]: r for r in tables["summary"] if r["check"] == "lost_write"}
    assert (found["kept-for-an-hour"]["count"], found["kept-for-an-hour"]["undecided"]) == (1, 0)


def test_it_is_undecided_where_it_may_have_been_due_and_never_counts_as_evicted(tables: Any) -> None:
    found = {r["scope"]: r for r in tables["summary"] if r["check"] == "lost_write"}
    for topic in ("kept-for-a-second", "kept-by-size"):
        assert (found[topic]["count"], found[topic]["undecided"]) == (0, 1)
    assert not [r for r in tables["counts"] if r["name"] == "evicted" and r["value"]]
    reasons = {r["why"] for r in tables["undecided"] if r["check"] == "lost_write"}
    assert reasons == {
        "they are below the start of the log, and a fault changed a clock by which retention deletes records"
    }


def test_the_log_of_commits_decides_nothing_if_its_brokers_had_wrong_clocks() -> None:
    empty = pa.Table.from_pylist([], COMMIT_LOG)
    read = [{"group": "billing", "whole": True, "error": None}]
    assert CommitLog(empty, read).why_unread("billing") is None
    assert CommitLog(empty, read, skewed=True).why_unread("billing") == SKEWED_BROKERS


@pytest.mark.parametrize(
    ("cluster", "topic", "faults", "stamped"),
    [
        ("", "", "", []),
        ("", "{message.timestamp.type: LogAppendTime}", "", ["orders"]),
        ("{config: {log.message.timestamp.type: LogAppendTime}}", "", "", ["orders"]),
        ("{config: {log.message.timestamp.type: LogAppendTime}}", "{message.timestamp.type: CreateTime}", "", []),
        ("", "", "{message.timestamp.type: LogAppendTime}", ["orders"]),
    ],
)
def test_the_topics_that_brokers_stamp(cluster: str, topic: str, faults: str, stamped: list[str]) -> None:
    change = f"{{name: c, kind: topic.config, target: {{topic: orders}}, settings: {faults}, when: {{at: 0s}}}}"
    scenario = parse(
        f"""title: t
cluster: {cluster or "{}"}
topics: [{{name: orders, config: {topic or "{}"}}}]
producers: [{{name: shop, topic: orders}}]
faults: [{change if faults else ""}]
""",
        "x",
    )
    assert stamped_topics(scenario, scenario.faults) == stamped
