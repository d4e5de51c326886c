"""The table of guarantees: each answer by settings that it is for, by settings that just miss it, and by a scenario.

Also its evaluator, and the links between its sections.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from chaos.faults import SPECS
from chaos.guarantees import faults, table
from chaos.guarantees.promises import facts_of
from chaos.guarantees.supports import attacks
from chaos.guarantees.table import (
    ASPECTS,
    Anomaly,
    AnomalyRule,
    PromiseRule,
    Question,
    anomalies,
    contradictions,
    decide,
    facts_in,
    match,
    questions,
    requirements,
    source,
    supported,
)
from chaos.guarantees.values import Problems, Setting
from chaos.scenario.load import load
from chaos.scenario.shipped import shipped
from tests.support.promised import parts_of, rows_of

ROWS = [
    (f"{aspect}/{question.id}", question, row)
    for aspect in ASPECTS
    for question in questions(aspect)
    for row in question.rules
]
"""Every row of the table, with its question and the name of the question."""

App = dict[str, dict[str, Any] | None]

RELIABLE: App = {
    "producer": {"client": "java:4.3.1", "config": {"acks": "all"}},
    "consumer": {
        "client": "java:4.3.1",
        "config": {"enable.auto.commit": False, "auto.offset.reset": "earliest"},
        "commit": "after_processing",
    },
    "topic": {"replication_factor": 3, "config": {"min.insync.replicas": 2}},
    "cluster": {"brokers": 3, "kafka": "4.3.1", "config": {"min.insync.replicas": 2}},
}


def changed(**changes: Any) -> App:
    """Return the reliable application with changes such as `producer={"acks": 1}`; other keys replace a field."""
    fields = ("client", "commit", "replication_factor", "brokers")
    app: App = {}
    for part, entry in RELIABLE.items():
        change = changes.get(part, {})
        if change is None:
            continue
        own = {key: value for key, value in change.items() if key in fields}
        config = {key: value for key, value in change.items() if key not in fields}
        app[part] = {**(entry or {}), **own, "config": {**(entry or {})["config"], **config}}
    return app


def producer(**settings: Any) -> App:
    return changed(producer={name.replace("_", "."): value for name, value in settings.items()})


def servers(brokers: int) -> App:
    """Return the brokers alone: clients are refused where the internal topics cannot be created."""
    return changed(producer=None, consumer=None, topic=None, cluster={"brokers": brokers})


PLAIN = {"enable.idempotence": False}
FLIGHT = "max.in.flight.requests.per.connection"
UNCLEAN = {"unclean.leader.election.enable": True}
CASES: dict[str, dict[str, tuple[App, App, str]]] = {
    "durability/brokers-fail": {
        "acks-0": (producer(acks=0), producer(acks=1), "acks-1"),
        "no-replica": (
            changed(topic={"replication_factor": 1, "min.insync.replicas": 1}),
            changed(topic={"replication_factor": 2, "min.insync.replicas": 1}),
            "alone",
        ),
        "acks-1": (producer(acks=1), producer(acks="-1"), "min-isr"),
        "min-isr-above-replicas": (
            changed(topic={"min.insync.replicas": 2, "replication_factor": 1}),
            changed(topic={"min.insync.replicas": 1, "replication_factor": 1}),
            "no-replica",
        ),
        "alone-unclean": (
            changed(topic={"min.insync.replicas": 1, **UNCLEAN}),
            changed(topic={"min.insync.replicas": 2, **UNCLEAN}),
            "unclean",
        ),
        "alone": (changed(topic={"min.insync.replicas": 1}), changed(), "min-isr"),
        "unclean": (changed(topic=UNCLEAN), changed(), "min-isr"),
        "min-isr": (changed(), changed(topic={"min.insync.replicas": 1}), "alone"),
    },
    "durability/power": {
        "flushed": (changed(topic={"flush.messages": 1}), changed(topic={"flush.messages": 2}), "page-cache"),
        "not-acknowledged-by-all": (
            changed(producer={"acks": 1}, topic={"flush.messages": 1}),
            changed(topic={"flush.messages": 1}),
            "flushed",
        ),
        "page-cache": (changed(), changed(cluster={"log.flush.interval.messages": 1}), "flushed"),
    },
    "durability/commits": {
        "uncreated": (servers(2), servers(3), "min-isr"),
        "one-replica": (
            changed(cluster={"offsets.topic.replication.factor": 1}),
            changed(cluster={"offsets.topic.replication.factor": 2}),
            "min-isr",
        ),
        "unclean": (changed(cluster=UNCLEAN), changed(), "min-isr"),
        "replicas": (changed(cluster={"min.insync.replicas": 1}), changed(), "min-isr"),
        "min-isr": (changed(), changed(cluster={"min.insync.replicas": 4}), "min-isr-above-replicas"),
        "min-isr-above-replicas": (
            changed(cluster={"min.insync.replicas": 4}),
            changed(cluster={"min.insync.replicas": 3}),
            "min-isr",
        ),
    },
    "durability/transactions": {"uncreated": (servers(2), servers(3), "min-isr")}
    | {
        name: (
            changed(producer={"transactional.id": "t"}, cluster=first),
            changed(producer={"transactional.id": "t"}, cluster=second),
            other,
        )
        for name, first, second, other in (
            (
                "one-replica",
                {"transaction.state.log.replication.factor": 1},
                {"transaction.state.log.replication.factor": 2},
                "min-isr",
            ),
            ("unclean", UNCLEAN, {}, "min-isr"),
            ("replicas", {"transaction.state.log.min.isr": 1}, {}, "min-isr"),
            ("min-isr", {}, {"transaction.state.log.min.isr": 1}, "replicas"),
            (
                "min-isr-above-replicas",
                {"transaction.state.log.min.isr": 4},
                {"transaction.state.log.min.isr": 3},
                "min-isr",
            ),
        )
    },
    "duplication/retries": {
        "librdkafka": (
            changed(producer={"client": "confluent", "enable.idempotence": True}),
            changed(producer={"client": "confluent", "enable.idempotence": True, FLIGHT: 1}),
            "idempotent",
        ),
        "idempotent": (changed(), changed(producer=PLAIN), "plain"),
        "unanswered": (producer(acks=0), producer(acks=1), "plain"),
        "no-retries": (producer(retries=0), producer(retries=1), "idempotent"),
        "plain": (changed(producer={"client": "java:2.8.2"}), changed(producer={"client": "java:3.0.1"}), "idempotent"),
    },
    "duplication/restart": {
        "transactional": (changed(producer={"transactional.id": "t"}), changed(), "session"),
        "session": (
            changed(producer={"transactional.id": ""}),
            changed(producer={"transactional.id": "t"}),
            "transactional",
        ),
    },
    "order/partition": {
        "idempotent": (changed(producer={FLIGHT: 5}), changed(producer={FLIGHT: 5, **PLAIN}), "pipelined"),
        "unanswered": (producer(acks=0), producer(acks=1), "pipelined"),
        "pipelined": (
            changed(producer={FLIGHT: 2, **PLAIN}),
            changed(producer={FLIGHT: 1, **PLAIN}),
            "one-in-flight",
        ),
        "librdkafka": (
            changed(producer={"client": "confluent", FLIGHT: 1}),
            changed(producer={"client": "confluent", FLIGHT: 1, "enable.idempotence": True}),
            "idempotent",
        ),
        "no-retries": (
            changed(producer={"retries": 0, **PLAIN}),
            changed(producer={"retries": 1, **PLAIN}),
            "pipelined",
        ),
        "sarama": (
            changed(producer={"client": "sarama", "Net.MaxOpenRequests": 1}),
            changed(producer={"client": "sarama", "Net.MaxOpenRequests": 1, "Producer.Retry.Max": 0}),
            "no-retries",
        ),
        "one-in-flight": (
            changed(producer={FLIGHT: 1, **PLAIN}),
            changed(producer={FLIGHT: 1, "retries": 0, **PLAIN}),
            "no-retries",
        ),
    },
    "order/key": {
        "hashed": (changed(), producer(partitioner_ignore_keys=True), "spread"),
        "own": (
            producer(partitioner_class="com.example.ByCountry"),
            producer(partitioner_class="org.apache.kafka.clients.producer.RoundRobinPartitioner"),
            "spread",
        ),
        "spread": (
            changed(producer={"client": "confluent", "partitioner": "random"}),
            changed(producer={"client": "confluent", "partitioner": "murmur2_random"}),
            "hashed",
        ),
    },
    "delivery/processing": {
        "exactly-once": (
            changed(
                producer={"transactional.id": "t"},
                consumer={"commit": "in_transaction", "isolation.level": "read_committed"},
            ),
            changed(producer={"transactional.id": "t"}, consumer={"commit": "in_transaction"}),
            "exactly-once-of-dirty-input",
        ),
        "exactly-once-of-dirty-input": (
            changed(producer={"transactional.id": "t"}, consumer={"commit": "in_transaction"}),
            changed(
                producer={"transactional.id": "t"},
                consumer={"commit": "in_transaction", "client": "confluent"},
            ),
            "exactly-once",
        ),
        "checkpoint": (
            {"consumer": {"client": "flink", "config": {}}},
            {"consumer": {"client": "java", "config": {}}},
            "auto-polled",
        ),
        "before": (changed(consumer={"commit": "before_processing"}), changed(), "after"),
        "auto-stored": (
            changed(consumer={"client": "confluent", "enable.auto.commit": True}),
            changed(consumer={"client": "confluent", "enable.auto.commit": True, "enable.auto.offset.store": False}),
            "after",
        ),
        "auto-polled": (changed(consumer={"enable.auto.commit": True}), changed(), "after"),
        "after": (changed(), changed(consumer={"enable.auto.commit": True}), "auto-polled"),
        "never": (changed(consumer={"commit": "never"}), changed(), "after"),
    },
    "delivery/start": {
        "earliest": (changed(), changed(consumer={"auto.offset.reset": "latest"}), "latest"),
        "latest": (
            changed(consumer={"auto.offset.reset": "latest"}),
            changed(consumer={"auto.offset.reset": "none"}),
            "none",
        ),
        "none": (
            changed(consumer={"client": "confluent", "auto.offset.reset": "error"}),
            changed(consumer={"client": "confluent", "auto.offset.reset": "smallest"}),
            "earliest",
        ),
        "duration": (
            changed(consumer={"auto.offset.reset": "by_duration:P1D"}),
            changed(consumer={"auto.offset.reset": "latest"}),
            "latest",
        ),
    },
    "delivery/lag": {
        "compact": (changed(topic={"cleanup.policy": "compact"}), changed(topic={"cleanup.policy": "delete"}), "time"),
        "compact-and-delete": (
            changed(topic={"cleanup.policy": "compact, delete"}),
            changed(topic={"cleanup.policy": "compact"}),
            "compact",
        ),
        "size": (changed(topic={"retention.bytes": 1000}), changed(topic={"retention.bytes": -1}), "time"),
        "kept": (
            changed(topic={"retention.ms": -1}),
            changed(topic={"retention.ms": -1, "retention.bytes": 5}),
            "size",
        ),
        "time": (changed(cluster={"log.retention.hours": 1}), changed(cluster={"log.retention.hours": -1}), "kept"),
    },
    "delivery/idle": {
        "expire": (changed(), changed(cluster={"offsets.retention.minutes": 1}), "expire"),
    },
    "isolation/transactions": {
        "committed": (
            changed(producer={"transactional.id": "t"}, consumer={"client": "confluent"}),
            changed(producer={"transactional.id": "t"}),
            "uncommitted",
        ),
        "uncommitted": (
            changed(producer={"transactional.id": "t"}),
            changed(producer={"transactional.id": "t"}, consumer={"isolation.level": "read_committed"}),
            "committed",
        ),
        "plain": (changed(), changed(producer={"transactional.id": "t"}), "uncommitted"),
    },
    "availability/writes": {
        "no-replica": (
            changed(topic={"replication_factor": 1, "min.insync.replicas": 1}),
            changed(topic={"replication_factor": 2, "min.insync.replicas": 1}),
            "in-sync-replica",
        ),
        "min-isr-above-replicas": (
            changed(topic={"min.insync.replicas": 4}),
            changed(topic={"min.insync.replicas": 3}),
            "no-spare",
        ),
        "no-spare": (changed(topic={"min.insync.replicas": 3}), changed(), "spare"),
        "spare": (changed(), changed(topic={"min.insync.replicas": 1}), "in-sync-replica"),
        "any-replica": (
            changed(topic={"min.insync.replicas": 1, **UNCLEAN}),
            changed(topic=UNCLEAN),
            "spare",
        ),
        "in-sync-replica": (
            changed(producer={"acks": 1}, topic={"min.insync.replicas": 3}),
            changed(topic={"min.insync.replicas": 3}),
            "no-spare",
        ),
    },
    "availability/outage": {
        "unanswered": (producer(acks=0), producer(acks=1), "window"),
        "no-retries": (producer(retries=0), producer(retries=1), "short-window"),
        "endless": (
            changed(producer={"client": "confluent", "message.timeout.ms": 0}),
            changed(producer={"client": "confluent", "message.timeout.ms": 1}),
            "short-window",
        ),
        "window": (changed(), producer(delivery_timeout_ms=29_999, request_timeout_ms=5_000), "short-window"),
        "short-window": (
            changed(producer={"client": "sarama"}),
            changed(producer={"client": "sarama", "Producer.Retry.Max": 300}),
            "window",
        ),
    },
    "availability/reads": {
        "no-replica": (
            changed(topic={"replication_factor": 1, "min.insync.replicas": 1}),
            changed(topic={"replication_factor": 2, "min.insync.replicas": 1}),
            "replicas",
        ),
        "replicas": (
            changed(),
            changed(topic={"replication_factor": 1, "min.insync.replicas": 1}),
            "no-replica",
        ),
    },
    "availability/groups": {
        "uncreated": (servers(2), servers(3), "replicas"),
        "one-replica": (
            changed(cluster={"offsets.topic.replication.factor": 1}),
            changed(cluster={"offsets.topic.replication.factor": 2}),
            "replicas",
        ),
        "replicas": (changed(), changed(cluster={"offsets.topic.replication.factor": 1}), "one-replica"),
    },
}
"""By question and row: settings that the row is for, settings that just miss it, and the row of those."""


def without_client_settings(app: App) -> App:
    """Leave out what another client would refuse: settings of Java where the client is sarama."""
    entry = app.get("producer") or {}
    if entry.get("client") == "sarama":
        config = {name: value for name, value in entry["config"].items() if name != "acks"}
        return {**app, "producer": {**entry, "config": config}}
    return app


@pytest.mark.parametrize(("question", "row"), [(name, row.id) for name, _, row in ROWS])
def test_each_row_answers_for_its_settings_and_not_for_those_that_just_miss_it(
    question: str, row: str, tmp_path: Path
) -> None:
    settings, near, other = CASES[question][row]
    assert rows_of(tmp_path, **without_client_settings(settings))[question] == row
    assert rows_of(tmp_path, **without_client_settings(near))[question] == other


def test_the_cases_are_those_of_the_table() -> None:
    assert {name: set(rows) for name, rows in CASES.items()} == {
        name: {row.id for other, _, row in ROWS if other == name} for name, _, _ in ROWS
    }


@cache
def facts_of_scenario(shown: str) -> list[dict[str, Any]]:
    name, _, variant = shown.partition("/")
    scenario = load(shipped()[name], variant=variant)
    assert variant or not scenario.variants, f"{shown}: name one of {', '.join(scenario.variants)}"
    return [facts_of(parts, Problems()) for parts in parts_of(scenario)]


SHOWN = [(name, question, row, shown) for name, question, row in ROWS for shown in row.shown]


@pytest.mark.parametrize(
    ("question", "row", "shown"),
    [(question, row, shown) for _, question, row, shown in SHOWN],
    ids=[f"{name}/{row.id}={shown}" for name, _, row, shown in SHOWN],
)
def test_each_scenario_of_a_row_has_the_settings_of_the_row(question: Question, row: PromiseRule, shown: str) -> None:
    def answered(facts: dict[str, Any]) -> str:
        return next((r.id for r in question.rules if match(r.when, facts).holds), "")

    assert row.id in {answered(facts) for facts in facts_of_scenario(shown) if match(question.when, facts).holds}


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, _, row in ROWS], ids=lambda value: str(value)[:40])
def test_a_row_is_shown_by_a_scenario_or_says_why_not(name: str, row: PromiseRule) -> None:
    assert bool(row.shown) != bool(row.not_shown)


def test_every_source_has_a_name_and_every_rule_a_source() -> None:
    shorts = {short for _, _, row in ROWS for short in row.sources}
    shorts |= {short for rule in (*contradictions(), *requirements(), *anomalies().values()) for short in rule.sources}
    assert all(source(short).name for short in shorts)
    assert [short for short in shorts if not source(short).url] == ["page:limits"]
    with pytest.raises(ValueError, match="is no source"):
        source("somewhere")


def test_every_fact_of_the_table_is_one_that_some_settings_have() -> None:
    asked = {fact for _, question, row in ROWS for fact in (*facts_in(question.when), *facts_in(row.when), *row.by)}
    asked |= {fact for rule in (*contradictions(), *requirements()) for fact in facts_in(rule.when)}
    known = {
        fact for name in ("leader-kill", "java-leader-kill") for facts in facts_of_scenario(name) for fact in facts
    }
    assert asked - known == {"cluster.offsets.uncreated", "cluster.transactions.uncreated"}  # with too few brokers


KNOWN: dict[str, Setting] = {"known": Setting("known", "1", "test")}


def rule(then: str, **when: int) -> AnomalyRule:
    return AnomalyRule.model_validate({"when": when, "then": then, "because": then})


@pytest.mark.parametrize(
    ("rules", "then", "missing"),
    [
        ([], None, ()),
        ([rule("allowed", known=2)], None, ()),
        ([rule("allowed", known=1), rule("forbidden", known=1)], "allowed", ()),
        ([rule("forbidden", known=1), rule("allowed", known=1)], "forbidden", ()),
        ([rule("allowed", other=1)], "allowed", ("other",)),
        ([rule("allowed", other=1, known=2)], None, ()),  # one that does not hold decides
        ([rule("not decided", other=1), rule("forbidden", known=1)], "not decided", ("other",)),
        ([rule("not decided", other=1), rule("allowed", known=1)], "allowed", ()),  # certain in any case
        ([rule("forbidden", other=1), rule("allowed", known=1)], "allowed", ()),
        ([rule("forbidden", other=1)], None, ()),
        ([rule("allowed", first=1), rule("not decided", second=1)], "allowed", ("first",)),
        # a rule that holds ends the search, so that the last one is not reached whatever the first one is
        ([rule("allowed", other=1), rule("forbidden", known=1), rule("allowed", known=1)], "allowed", ("other",)),
        ([rule("allowed", other=1), rule("not decided", known=1), rule("allowed", known=1)], "allowed", ("other",)),
        ([rule("allowed", other=1), rule("forbidden", known=2), rule("allowed", known=1)], "allowed", ()),
    ],
)
def test_a_rule_decides_if_it_holds_and_none_before_it_is_unknown(
    rules: list[AnomalyRule], then: str | None, missing: tuple[str, ...]
) -> None:
    found = decide(rules, KNOWN)
    assert (found.rule and found.rule.then, found.missing) == (then, missing)


def test_a_rule_with_an_effect_that_no_fault_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {"of": "write", "promised": "p", "sources": ["producer:acks"]}
    rule = {"when": {"fault": ["elections", "election"]}, "then": "allowed", "because": "b"}
    near = {"lost_write": {**raw, "rules": [rule]}}
    monkeypatch.setattr(table, "_aspect", lambda aspect: {"anomalies": near if aspect == "durability" else {}})
    anomalies.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"durability\.yaml: lost_write: no fault has the effect fault\.election"):
            anomalies()
    finally:
        anomalies.cache_clear()


def test_a_kind_of_fault_has_an_attack_or_a_reason_for_none_and_not_both(monkeypatch: pytest.MonkeyPatch) -> None:
    kill, seek = SPECS["broker.kill"], SPECS["consumer.seek"]
    for name, spec, left_out in (("broker.melt", kill, ""), ("broker.kill", kill, "why"), ("consumer.seek", seek, "")):
        with monkeypatch.context() as changed:
            changed.setattr(spec, "left_out", left_out)
            changed.setitem(SPECS, name, spec)
            attacks.cache_clear()
            try:
                with pytest.raises(ValueError, match=re.escape(name)):
                    attacks()
            finally:
                attacks.cache_clear()
    assert attacks()


def test_a_fact_about_faults_that_no_rule_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rule knows the effect melts"):
        faults.fact("melts", [])


def test_every_section_names_only_what_the_other_sections_have() -> None:
    asked = {f"{aspect}/{question.id}" for aspect in ASPECTS for question in questions(aspect)}
    shown = {name for kind, split in anomalies() for name in (kind, f"{kind}.{split}" if split else kind)}
    for promise in supported().values():
        assert set(promise.answers) <= asked
        assert set(promise.shows) <= shown


def test_one_of_several_effects_is_one_rule_for_each_in_their_order() -> None:
    found: Anomaly = anomalies()["duplicate_write", ""]
    effects = [[fact for fact in rule.when if fact.startswith("fault.")] for rule in found.rules]
    assert effects[4:7] == [["fault.elections"], ["fault.cut"], ["fault.recreates"]]
