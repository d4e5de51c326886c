"""Consumer entries that are refused when the scenario is loaded, and offset tracking, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.clients.protocol import GroupConsumerSpec, ProducerSpec
from chaos.clients.python.group import Tracking
from chaos.errors import ScenarioError
from chaos.fleet.specs import SpecBuilder, process_mates, steady
from chaos.run.directory import Run
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import resolve
from checks.audit.facts.readers import readers_of

HEAD = """
title: t
cluster: {kafka: KAFKA}
topics: [{name: orders-a}, {name: orders-b}, {name: stock}]
producers: [{name: shop, topic: stock}]
consumers:
"""


def scenario(consumer: str, kafka: str = "4.3.1", rest: str = "") -> Scenario:
    return parse(f"{HEAD.replace('KAFKA', kafka)}  - {{name: c, {consumer}}}\n{rest}", "test.yaml")


@pytest.mark.parametrize(
    ("consumer", "message"),
    [
        ("mode: subscribe, group: g", "exactly one of topics, pattern"),
        ("mode: subscribe, group: g, topics: [stock], pattern: stock", "exactly one of topics, pattern"),
        ("mode: subscribe, group: g, pattern: nothing-.*", "matches none of the topics"),
        ("mode: subscribe, group: g, pattern: a|b", "does not fit: letters"),
        ("mode: subscribe, group: g, pattern: '*a'", "not a regular expression"),
        ("mode: subscribe, group: g, topics: [stock], members: 2, admitted: 3", "more than the 2 members"),
        ("mode: subscribe, group: g, topics: [stock], commit: {when: periodic}", "every"),
        ("mode: subscribe, group: g, topics: [stock], commit: {every: 5s}", "every"),
        (
            "mode: subscribe, group: g, topics: [stock], commit: {when: periodic, every: 5s, kind: auto}",
            "auto is periodic already",
        ),
        ("mode: subscribe, group: g, topics: [stock], commit: {on_revoke: true, kind: auto}", "already does that"),
        (
            "mode: subscribe, group: g, topics: [stock], commit: {on_revoke: true, when: before_processing}",
            "committed before processing",
        ),
        ("mode: subscribe, group: g, topics: [stock], workers: {}, commit: {kind: auto}", "workers"),
        ("mode: assign, topics: [stock], group: g, commit: {on_revoke: true}", "assign mode has no revocations"),
        ("mode: assign, topics: [stock], group: g, no_group_id: empty", "does not go with a group"),
        (
            "mode: subscribe, group: g, topics: [stock], config: {group.protocol: consumer, session.timeout.ms: 6000}",
            "the broker decides",
        ),
    ],
)
def test_an_inconsistent_consumer_is_refused_with_the_reason(consumer: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        scenario(consumer)


def test_the_consumer_protocol_needs_brokers_that_support_it() -> None:
    protocol = "mode: subscribe, group: g, topics: [stock], config: {group.protocol: consumer}"
    assert scenario(protocol)
    with pytest.raises(ScenarioError, match=r"needs Kafka 4.0, not 3.9.2"):
        scenario(protocol, kafka="3.9.2")


def test_a_pattern_matches_whole_names() -> None:
    consumer = scenario("mode: subscribe, group: g, pattern: 'orders-.'").consumers[0]
    assert consumer.topics_among(["orders-a", "orders-b", "stock", "my-orders-a", "orders-ab"]) == [
        "orders-a",
        "orders-b",
    ]
    (reader,) = readers_of(scenario("mode: subscribe, group: g, pattern: 'orders-.'"))
    assert reader.topics == ("orders-a", "orders-b")


def test_commits_on_revocation_alone_count_as_commits() -> None:
    assert readers_of(scenario("mode: subscribe, group: g, topics: [stock], commit: {when: never, on_revoke: true}"))[
        0
    ].commits


def test_members_of_one_process_have_consecutive_numbers() -> None:
    entry = scenario("mode: subscribe, group: g, topics: [stock], members: 5, threads: 2").consumers[0]
    assert [process_mates(entry, f"c/{n}") for n in (1, 2, 3, 5)] == [
        ["c/1", "c/2"],
        ["c/1", "c/2"],
        ["c/3", "c/4"],
        ["c/5"],
    ]


def test_redelivered_records_after_a_seek_count_for_triggers() -> None:
    seek = "faults: [{name: s, kind: consumer.seek, target: {member: c/1}, ago: 1h, when: {delivered: WHEN}}]"
    rest = seek.replace("WHEN", "{consumer: c, records: 30000}")
    assert scenario("mode: subscribe, group: g, topics: [stock]", rest=rest)
    with pytest.raises(ScenarioError, match="exactly one of offsets, ago"):
        scenario("mode: subscribe, group: g, topics: [stock]", rest=rest.replace("ago: 1h, ", ""))


def test_a_window_ends_before_the_first_unfinished_record() -> None:
    t = Tracking()
    for offset in (5, 6, 9, 10):  # 7 and 8 are markers: no gap
        t.polled(offset)
    t.finish(6)
    assert (t.prefix, t.highest) == (None, 7)
    t.finish(5)
    assert (t.prefix, t.highest) == (7, 7)
    t.finish(10)
    assert (t.prefix, t.highest) == (7, 11)
    t.finish(9)
    assert (t.prefix, t.highest, t.unfinished) == (11, 11, t.unfinished.__class__())


def test_durations_reach_the_spec_in_seconds(tmp_path: Path) -> None:
    consumer = "mode: subscribe, group: g, topics: [stock], workers: {straggle: 1500ms}"
    producer = "producers: [{name: shop, topic: stock, transactions: {timeout: 1m, hold: 2s}}]"
    every = "mode: subscribe, group: g, topics: [stock], commit: {when: periodic, every: 1h}"
    parsed = parse(
        HEAD.replace("KAFKA", "4.3.1").replace("producers: [{name: shop, topic: stock}]", producer)
        + f"  - {{name: c, {consumer}}}\n  - {{name: d, {every.replace('group: g', 'group: h')}}}\n",
        "test.yaml",
    )
    resolved = resolve(parsed, run_id="r", name="test", created_us=0, seed=1, overrides=[])
    builder = SpecBuilder(Run(tmp_path), resolved, lambda _: "127.0.0.1:1")
    pooled, periodic = (builder.build(entry, f"{entry.name}/1", 1, 0) for entry in parsed.consumers)
    sender = builder.build(parsed.producers[0], "shop/1", 1, 0)
    assert isinstance(pooled, GroupConsumerSpec) and pooled.workers and pooled.workers.straggle_s == 1.5
    assert isinstance(periodic, GroupConsumerSpec) and periodic.commit.every_s == 3600
    assert isinstance(sender, ProducerSpec) and sender.transactions
    assert (sender.transactions.timeout_s, sender.transactions.hold_s) == (60, 2)


def test_a_fault_that_changes_a_topic_makes_its_settings_and_limits_unsteady() -> None:
    change = "{name: f, kind: topic.config, target: {topic: stock}, settings: {retention.ms: 1}, when: {acked: 1}}"
    changed = scenario("mode: subscribe, group: g, topics: [stock]", rest=f"faults: [{change}]\n")
    assert steady(changed, "stock") == ["rights"]
    assert steady(changed, "orders-a") == ["settings", "limits", "rights"]
    limit = "{name: f, kind: broker.config, target: {broker: 1}, settings: {message.max.bytes: 500}, when: {at: 1s}}"
    reader = "mode: subscribe, group: g, topics: [stock]"
    assert steady(scenario(reader, rest=f"faults: [{limit}]\n"), "stock") == ["rights"]
    other = limit.replace("message.max.bytes", "max.connections")
    assert "limits" in steady(scenario(reader, rest=f"faults: [{other}]\n"), "stock")


def test_on_an_attached_cluster_only_what_the_topic_sets_is_steady() -> None:
    base = scenario("mode: subscribe, group: g, topics: [stock]")
    attached = base.model_copy(update={"cluster": base.cluster.model_copy(update={"driver": "attached"})})
    assert steady(attached, "stock") == ["settings"]
    attached.topic("stock").config["max.message.bytes"] = 4096
    assert steady(attached, "stock") == ["settings", "limits"]
