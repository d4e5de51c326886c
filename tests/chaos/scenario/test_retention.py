"""The topics from which retention may delete records during a run."""

import math
from typing import Any

import pytest

from chaos.errors import ScenarioError
from chaos.kafka.settings import Config
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.scenario.retention import Kept, backdated, refused, refused_topics, steadily_refused
from chaos.setup.timestamps import formula, limits_s

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


NONE = math.inf
HOUR_S = 3_600.0


@pytest.mark.parametrize(
    ("release", "topic", "limits"),
    [
        ("2.8.2", {}, (NONE, NONE)),
        ("3.5.2", {"difference": 1_000}, (1, 1)),
        ("3.5.2", {"after": 1_000, "before": 1_000}, (NONE, NONE)),  # KIP-937 came with 3.6
        ("3.6.0", {"difference": 1_000}, (1, 1)),
        ("3.9.2", {}, (NONE, NONE)),
        ("3.9.2", {"difference": 1_000, "after": 5_000}, (1, 5)),
        ("4.0.0", {}, (NONE, HOUR_S)),
        ("4.3.1", {"difference": 1_000}, (NONE, HOUR_S)),
        ("4.3.1", {"before": 2_000, "after": 5_000}, (2, 5)),
    ],
)
def test_the_limits_of_timestamps_depend_on_the_release(
    release: str, topic: dict[str, int], limits: tuple[float, float]
) -> None:
    config = {f"message.timestamp.{name}.max.ms": value for name, value in topic.items()}
    assert limits_s(release, {}, config) == limits
    assert limits_s(release, {f"log.{name}": value for name, value in config.items()}, {}) == limits


def stamping(timestamps: str = "", kafka: str = "4.3.1", topic: str = "", faults: str = "") -> Scenario:
    text = f"""
title: t
cluster: {{kafka: {kafka}}}
topics: [{{name: orders, config: {{{topic}}}}}]
producers: [{{name: shop, topic: orders{", timestamps: " + timestamps if timestamps else ""}}}]
faults: [{faults}]
"""
    return parse(text, "mine.yaml")


@pytest.mark.parametrize(
    ("scenario", "found"),
    [
        (stamping(), False),
        (stamping("milliseconds"), False),
        (stamping("seconds"), True),
        (stamping("microseconds"), False),
        (stamping("-8d"), True),
        (stamping("-6d"), False),
        (stamping("+8d"), False),
        (stamping("-2h", topic="retention.ms: 3600000"), True),
        (stamping("-2h", topic="retention.ms: 3600000, message.timestamp.before.max.ms: 60000"), False),
        (stamping("seconds", topic="message.timestamp.type: LogAppendTime"), False),
        (stamping("seconds", topic="retention.ms: -1"), False),
        (stamping("seconds", topic="retention.ms: -1, retention.bytes: 9"), True),
        (stamping(faults="{name: f, kind: clock.jump, by: -8d, target: {member: shop/1}, when: {acked: 1}}"), True),
        (stamping(faults="{name: f, kind: clock.jump, by: +8d, target: {member: shop/1}, when: {acked: 1}}"), False),
        (stamping(faults="{name: f, kind: clock.jump, by: -8d, target: {broker: 1}, when: {acked: 1}}"), False),
    ],
)
def test_timestamps_that_are_behind_let_retention_delete(scenario: Scenario, found: bool) -> None:
    assert bool(backdated(scenario, scenario.faults, "orders", 60_000)) is found
    assert (scenario.retained(60_000) == {"orders"}) is found


@pytest.mark.parametrize(
    ("scenario", "ahead_s", "expected"),
    [
        (stamping(), 7_200, True),
        (stamping(), 1_800, False),
        (stamping(), -7_200, False),
        (stamping(kafka="3.9.2"), 7_200, False),
        (stamping(topic="message.timestamp.type: LogAppendTime"), 7_200, False),
        (stamping(topic="message.timestamp.before.max.ms: 1000"), -7_200, True),
    ],
)
def test_brokers_refuse_times_beyond_their_limits(scenario: Scenario, ahead_s: float, expected: bool) -> None:
    assert refused(scenario, scenario.faults, "orders", ahead_s) is expected


@pytest.mark.parametrize(
    ("scenario", "found"),
    [
        (stamping(), False),
        (stamping("+2h"), True),
        (stamping("+2h", "3.9.2"), False),
        (stamping(faults="{name: f, kind: clock.jump, by: +2h, target: {member: shop/1}, when: {acked: 1}}"), True),
        (stamping("seconds", topic="message.timestamp.before.max.ms: 1000"), True),
    ],
)
def test_the_topics_of_which_brokers_refuse_timestamps(scenario: Scenario, found: bool) -> None:
    assert bool(refused_topics(scenario, scenario.faults)) is found


JUMP = "{name: f, kind: clock.jump, by: %s, target: {member: shop/1}, when: {acked: 1}}"


@pytest.mark.parametrize(
    ("scenario", "steady"),
    [
        (stamping("+2h"), True),
        (stamping(faults=JUMP % "+2h"), True),
        (stamping("-2h", topic="message.timestamp.before.max.ms: 60000"), True),
        (stamping("-2h", topic="message.timestamp.before.max.ms: 7500000"), False),  # a retry may cross it
        (stamping("-2h", topic="message.timestamp.before.max.ms: 86400000"), True),
        (
            stamping(
                faults=JUMP % "+1s" + ", {name: g, kind: clock.jump, by: +1h, target: {broker: 1}, when: {at: 1s}}"
            ),
            False,
        ),
        (
            stamping(faults="{name: f, kind: clock.drift, gains: +1s, target: {member: shop/1}, when: {acked: 1}}"),
            False,
        ),
    ],
)
def test_a_refused_timestamp_was_refused_in_every_attempt(scenario: Scenario, steady: bool) -> None:
    assert steadily_refused(scenario, scenario.faults, "shop", "orders") is steady


@pytest.mark.parametrize(
    ("topic", "cluster", "expected"),
    [
        ("retention.ms: 4000", "", Kept(4_000, 7 * DAY_MS, 2**30 // 128 + 1, 300_000, 30_000)),
        (
            "retention.ms: 4000, segment.ms: 1000, segment.bytes: 1280",
            "kafka: 3.9.2",
            Kept(4_000, 1_000, 11, 300_000, 30_000),
        ),
        (
            "segment.bytes: 1280, compression.type: zstd",
            "kafka: 3.9.2",
            Kept(7 * DAY_MS, 7 * DAY_MS, 321, 300_000, 30_000),
        ),
        ("retention.ms: -1", "", None),
        ("cleanup.policy: compact", "", None),
        ("", "driver: attached, bootstrap: 'localhost:9092'", None),
    ],
)
def test_how_long_a_topic_keeps_a_record(topic: str, cluster: str, expected: Any) -> None:
    text = f"""
title: t
cluster: {{{cluster}}}
topics: [{{name: orders, config: {{{topic}}}}}]
producers: [{{name: shop, topic: orders, keys: 9}}]
"""
    assert parse(text, "mine.yaml").kept("orders") == expected


def test_a_first_check_comes_30_s_after_the_start_of_a_broker_before_kafka_3_8() -> None:
    text = """
title: t
cluster: {kafka: %s, config: {log.retention.check.interval.ms: 700%s}}
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
"""
    new = parse(text % ("3.8.0", ", log.initial.task.delay.ms: 500"), "x").kept("orders")
    old = parse(text % ("3.7.2", ""), "x").kept("orders")
    assert new is not None and (new.check_ms, new.delay_ms) == (700, 500)
    assert old is not None and (old.check_ms, old.delay_ms) == (700, 30_000)


def test_a_topic_keeps_records_for_as_long_as_any_of_its_settings_says() -> None:
    change = "{name: f, kind: topic.config, target: {topic: orders}, when: {acked: 9}, settings: {retention.ms: 1000}}"
    kept = stamping(faults=change).kept("orders")
    assert kept is not None and kept.retention_ms == 7 * DAY_MS


BROKER = "{name: f, kind: broker.config, target: {broker: 1}, when: {acked: 9}, settings: {%s}}"


@pytest.mark.parametrize(
    ("cluster", "topic", "settings", "expected"),
    [
        ("log.retention.hours: 1", "", "", (HOUR_MS, 7 * DAY_MS, 2**30)),
        ("log.retention.minutes: 1, log.retention.hours: 1", "", "", (60_000, 7 * DAY_MS, 2**30)),
        ("log.retention.ms: 5000", "", "log.retention.ms: 60000", (60_000, 7 * DAY_MS, 2**30)),
        ("log.retention.ms: 5000", "", "log.retention.ms: 1000", (5_000, 7 * DAY_MS, 2**30)),
        ("log.retention.ms: 5000", "retention.ms: 7000", "log.retention.ms: 60000", (7_000, 7 * DAY_MS, 2**30)),
        ("log.retention.ms: 5000, log.roll.ms: 1000", "", "log.roll.ms: 60000", (5_000, 60_000, 2**30)),
        ("log.retention.ms: 5000, log.roll.ms: 1000", "segment.ms: 2000", "log.roll.ms: 60000", (5_000, 2_000, 2**30)),
        ("log.segment.bytes: 1048576", "", "log.segment.bytes: 2097152", (7 * DAY_MS, 7 * DAY_MS, 2**21)),
        ("log.retention.ms: 5000", "", "log.retention.ms: -1", None),
        ("log.retention.ms: 5000", "", "log.cleanup.policy: compact", None),
    ],
)
def test_settings_of_brokers_and_their_changes_decide_how_long_a_topic_keeps_a_record(
    cluster: str, topic: str, settings: str, expected: tuple[int, int, int] | None
) -> None:
    text = f"""
title: t
cluster: {{config: {{{cluster}}}}}
topics: [{{name: orders, config: {{{topic}}}}}]
producers: [{{name: shop, topic: orders, keys: 9}}]
faults: [{BROKER % settings if settings else ""}]
"""
    kept = parse(text, "mine.yaml").kept("orders")
    if expected is None:
        assert kept is None
    else:
        assert kept is not None
        assert (kept.retention_ms, kept.segment_ms, kept.segment_records) == (*expected[:2], 1 + expected[2] // 128)


def test_a_cluster_that_answers_says_how_long_it_keeps_a_record() -> None:
    text = "title: t\ncluster: {driver: attached, bootstrap: 'k:9092'}\ntopics: [{name: orders}]\nproducers: [%s]"
    scenario = parse(text % "{name: shop, topic: orders, keys: 9}", "mine.yaml")
    config: Config = {"log.retention.hours": "1", "log.retention.check.interval.ms": "700"}
    assert scenario.kept("orders") is None
    assert scenario.with_settings({"log.retention.hours": "1"}, scenario.topics).kept("orders") is None
    kept = scenario.with_settings(config, scenario.topics).kept("orders")
    assert kept is not None and (kept.retention_ms, kept.check_ms) == (HOUR_MS, 700)


@pytest.mark.parametrize("value", ["minutes", "48", "yesterday", "[]"])
def test_timestamps_of_no_kind_are_refused_in_one_line(value: str) -> None:
    with pytest.raises(ScenarioError, match=r"producers\[0\].timestamps: .* seconds, milliseconds, microseconds"):
        stamping(value)


def test_a_client_that_sets_its_timestamps_shows_no_clock() -> None:
    with pytest.raises(ScenarioError, match="shop sets its timestamps, which do not show its clock"):
        stamping("seconds", faults=JUMP % "+1h")


def test_how_a_program_gets_a_timestamp_from_the_time_of_the_call() -> None:
    call_us = 1_700_000_000_123_456
    made = {t: call_us // formula(t)["divisor_us"] + formula(t)["shift_ms"] for t in ("seconds", "milliseconds", -3.5)}
    assert made == {"seconds": 1_700_000_000, "milliseconds": 1_700_000_000_123, -3.5: 1_699_999_996_623}
