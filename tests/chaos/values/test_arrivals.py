"""When records are sent: at random, in bursts, and with the pauses of a recording."""

import itertools
import json

import pytest

from chaos.clients.python.load import CATCH_UP_S, Schedule
from chaos.errors import ScenarioError
from chaos.scenario.load import load
from chaos.values.arrivals import Arrivals, per_second, recorded

SCENARIO = """
title: t
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders, records: 10, outlast_faults: true, rate: {0}, value: {{{1}}}, client: {2}}}]
expect: {{}}
"""
SAMPLES = [{"n": 1, "at": "2026-01-01T10:00:00Z"}, {"n": 2, "at": 1767261602}, {"n": 3, "at": 1767261602500}]


def first(count, seed=1, pauses=(), begin=0, **fields):
    return list(itertools.islice(Arrivals.model_validate(fields).times(seed, pauses, begin), count))


def test_records_come_at_random_and_with_the_same_seed_at_the_same_times():
    found = first(20_000, poisson="400/s")
    assert found == first(20_000, poisson="400/s") != first(20_000, seed=2, poisson="400/s")
    assert found == sorted(found) and found[-1] == pytest.approx(50, rel=0.05)
    counts = [sum(1 for at in found if second <= at < second + 1) for second in range(49)]
    mean = sum(counts) / len(counts)
    variance = sum((n - mean) ** 2 for n in counts) / len(counts)
    assert 0.5 < variance / mean < 2, "a steady rate has none"


def test_records_come_in_bursts():
    assert first(7, bursts={"records": 3, "every": "2s"}) == [0, 0, 0, 2, 2, 2, 4]
    assert per_second(Arrivals.model_validate({"bursts": {"records": 3, "every": "2s"}})) == 1.5


def test_records_come_with_the_pauses_of_a_recording(tmp_path):
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n\n" for sample in SAMPLES))
    pauses = recorded(path, "$.at")
    assert pauses == [2, 0.5, 1.25]
    assert first(5, pauses=pauses, recording="$.at") == [0, 2, 2.5, 3.75, 5.75]
    assert first(3, pauses=pauses, begin=1, recording="$.at", speed=2) == [0, 0.25, 0.875]


def scenario(tmp_path, rate, value="samples: orders.jsonl, id: $.n", client="confluent"):
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in SAMPLES))
    (tmp_path / "t.yaml").write_text(SCENARIO.format(rate, value, client))
    return load(tmp_path / "t.yaml")


@pytest.mark.parametrize(
    ("rate", "mean"),
    [
        ("200/s", 200),
        ("{poisson: 40/s}", 40),
        ("{recording: $.at, speed: 10}", 8),
        ("{bursts: {records: 9, every: 3s}}", 3),
    ],
)
def test_the_rate_of_a_producer_is_known_when_its_scenario_is_loaded(tmp_path, rate, mean):
    (producer,) = scenario(tmp_path, rate).producers
    assert per_second(producer.rate) == pytest.approx(mean)
    assert producer.most_records(100) == 100 * mean


@pytest.mark.parametrize(
    ("rate", "value", "client", "text"),
    [
        ("{}", "template: a", "confluent", "rate: give exactly one of poisson, bursts, recording"),
        ("fast", "template: a", "confluent", "'fast' is not a rate"),
        ("{poison: 3/s}", "template: a", "confluent", "did you mean poisson"),
        ("{poisson: 3/s, speed: 2}", "template: a", "confluent", "rate: speed: goes with recording"),
        ("{recording: $.at}", "template: a", "confluent", "rate.recording: the times are in samples"),
        ("{recording: $.n}", "samples: orders.jsonl", "confluent", "orders.jsonl"),
        ("{recording: $.when}", "samples: orders.jsonl", "confluent", "orders.jsonl:1 has no time at \\$.when"),
        ("{poisson: 3/s}", "samples: orders.jsonl", "java", "arrivals"),
    ],
)
def test_arrivals_that_cannot_be_are_refused_in_one_line(tmp_path, rate, value, client, text):
    if rate == "{recording: $.n}":
        SAMPLES.reverse()
    try:
        with pytest.raises(ScenarioError, match=text) as refused:
            scenario(tmp_path, rate, value, client)
    finally:
        if rate == "{recording: $.n}":
            SAMPLES.reverse()
    if client == "confluent":
        assert str(refused.value).strip().count("\n") == 1, refused.value


def test_a_stall_is_caught_up_only_in_part(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("chaos.clients.python.load.time.monotonic", lambda: clock[0])
    schedule = Schedule(n / 100 for n in itertools.count())
    clock[0] += 0.105
    assert schedule.due() == 11
    schedule.sent(6)
    assert schedule.due() == 5
    schedule.sent(5)
    clock[0] += 60
    assert schedule.due() == pytest.approx(CATCH_UP_S * 100, abs=2)
