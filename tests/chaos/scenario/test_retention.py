"""The topics from which retention may delete records during a run."""

import pytest

from chaos.scenario.load import parse

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def retained(run_ms: int, topic: str = "", cluster: str = "", faults: str = "") -> bool:
    text = f"""
title: t
cluster: {{{cluster}}}
topics: [{{name: orders, config: {{{topic}}}}}]
producers: [{{name: shop, topic: orders, keys: 9}}]
faults: [{faults}]
"""
    return parse(text, "mine.yaml").retained(run_ms) == {"orders"}


@pytest.mark.parametrize(
    ("topic", "cluster", "expected"),
    [
        ("", "", False),
        ("retention.ms: 60000", "", True),
        ("retention.ms: -1", "config: {log.retention.ms: 1000}", False),
        ("retention.ms: 86400000", "", False),
        ("retention.bytes: 1000000", "", True),
        ("retention.bytes: -1", "config: {log.retention.bytes: 1000}", False),
        ("", "config: {log.retention.bytes: 1000}", True),
        ("", "config: {log.retention.minutes: 30}", True),
        ("", "config: {log.retention.hours: 1}", True),
        ("", "config: {log.retention.ms: 86400000, log.retention.minutes: 1}", False),
        ("", "config: {log.retention.minutes: 600, log.retention.hours: 1}", False),
        ("cleanup.policy: compact, retention.ms: 1000", "", False),
        ("cleanup.policy: 'compact,delete', retention.ms: 1000", "", True),
        ("retention.ms: 1000", "config: {log.cleanup.policy: compact}", False),
        ("cleanup.policy: delete, retention.ms: 1000", "config: {log.cleanup.policy: compact}", True),
    ],
)
def test_a_run_of_an_hour(topic: str, cluster: str, expected: bool) -> None:
    assert retained(HOUR_MS, topic, cluster) is expected


def test_the_default_of_a_week_deletes_in_a_run_that_lasts_longer() -> None:
    assert not retained(6 * DAY_MS)
    assert retained(8 * DAY_MS)


def test_a_fault_may_set_the_retention() -> None:
    fault = "{name: f, kind: topic.config, target: {topic: orders}, when: {acked: 9}, settings: {retention.ms: 1000}}"
    assert retained(HOUR_MS, faults=fault)
    assert not retained(HOUR_MS, faults=fault.replace("retention.ms", "segment.ms"))


def test_a_fault_may_set_the_retention_of_brokers_which_topics_without_their_own_have() -> None:
    fault = "{name: f, kind: broker.config, target: {broker: 1}, when: {acked: 9}, settings: {log.retention.ms: 1000}}"
    assert retained(HOUR_MS, faults=fault)
    assert not retained(HOUR_MS, topic="retention.ms: 86400000", faults=fault)
    assert not retained(HOUR_MS, faults=fault.replace("log.retention.ms: 1000", "log.segment.bytes: 1048576"))


def test_anyone_may_delete_from_a_cluster_that_exists_already() -> None:
    attached = "driver: attached, bootstrap: 'localhost:9092'"
    assert retained(HOUR_MS, cluster=attached)
    assert not retained(HOUR_MS, cluster=f"{attached}, asked: true, config: {{log.retention.hours: 168}}")
    assert retained(HOUR_MS, cluster=f"{attached}, asked: true, config: {{log.retention.minutes: 60}}")
