"""The parts of the timeline on hand-written rows: strips, curves, heat maps, folds, mechanisms, text."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chaos.report.anomalies import families
from chaos.report.charts import (
    Axis,
    Dot,
    Lane,
    Segment,
    bin_ratio,
    ceiling,
    column_us,
    decade,
    fold,
    lag_lanes,
    latency_lanes,
    nice_ceiling,
    percentile,
    rate_lanes,
)
from chaos.report.settings import settings_that_mattered
from chaos.report.tables import AUDIT, read_tables
from chaos.report.text import Clock, duration, natural, visible
from chaos.report.timeline import (
    coordinator_lanes,
    draw,
    group_lanes,
    instance_lanes,
    leader_lanes,
    owner_lanes,
    topic_lanes,
)
from tests.chaos.report.story import BEGAN, at
from tests.chaos.report.synthetic import failed_run

AXIS = Axis(at(0), at(10))


def seen(second: float, key: str, value: Any, entity: str = "orders/0") -> dict[str, Any]:
    return {"at_us": at(second), "entity": entity, "key": key, "value": value}


def owned(begin: float, end: float | None, consumer: str, generation: int = 1, **more: Any) -> dict[str, Any]:
    when = {"begin_us": at(begin), "end_us": None if end is None else at(end), "end_reason": "revoked"}
    return (
        {"topic": "orders", "partition": 0, "consumer": consumer, "incarnation": 1, "generation": generation}
        | when
        | more
    )


def spans(segments: list[Segment]) -> list[tuple[float, float, str]]:
    return [(s.begin, s.end, s.text) for s in segments]


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, AUDIT[name])


def test_a_leader_strip_shows_the_gap_and_the_shrunken_isr() -> None:
    rows = [
        seen(1, "leader", 2),
        seen(1, "isr", [1, 2, 3]),
        seen(4, "leader", -1),
        seen(6, "leader", 1),
        seen(6, "isr", [1]),
    ]
    (lane,) = leader_lanes(rows, AXIS, {"orders": 3})
    assert spans(lane.segments) == [(1, 4, "2"), (4, 6, "none"), (6, 10, "1")]
    assert [s.fill for s in lane.segments] == [1.0, 1.0, 0.33]
    assert lane.segments[0].look != lane.segments[2].look and lane.segments[1].look == "none"


def test_a_state_from_before_the_axis_holds_at_its_beginning() -> None:
    (lane,) = leader_lanes([seen(-5, "leader", 2), seen(-3, "leader", 3)], AXIS, {})
    assert spans(lane.segments) == [(0, 10, "3")]


def test_kafkas_own_topics_and_groups_are_no_partitions() -> None:
    rows = [seen(1, "leader", 2, entity) for entity in ("__consumer_offsets/3", "group:billing/orders/0", "cluster")]
    assert leader_lanes(rows, AXIS, {}) == []


def test_a_group_that_ended_has_a_strip_of_its_lives() -> None:
    def life(number: int, begin: float, end: float | None, *generations: int | None) -> dict[str, Any]:
        times = {"begin_us": at(begin), "end_us": None if end is None else at(end)}
        first, last = generations or (None, None)
        return {"group": "g", "life": number, **times, "first_generation": first, "last_generation": last}

    (lane,) = group_lanes([life(1, 2, 5, 1, 4), life(2, 6, 8, 1, 2), life(3, 8, None)], AXIS)
    assert spans(lane.segments) == [(2, 5, "1"), (5, 6, "none"), (6, 8, "2"), (8, 10, "3")]
    assert lane.segments[2].details == "life 2 of the group · generations 1 to 2"
    (lane,) = group_lanes([life(1, 2, 5)], AXIS)
    assert (spans(lane.segments), lane.note) == ([(2, 5, "1"), (5, 10, "none")], "1 life")
    assert group_lanes([life(1, 2, None)], AXIS) == group_lanes([], AXIS) == []


def test_a_topic_that_was_deleted_has_a_strip_of_its_ids() -> None:
    rows = [seen(1, "id", None, "topic:orders"), seen(2, "id", "AAAAAAAA", "topic:orders")]
    once = seen(1, "id", "CCC", "topic:returns")
    assert topic_lanes([*rows, once], AXIS) == []
    rows += [seen(5, "id", None, "topic:orders"), seen(6, "id", "BBBBBBBB", "topic:orders")]
    (lane,) = topic_lanes([*rows, once], AXIS)
    assert spans(lane.segments) == [(1, 2, "none"), (2, 5, "AAAAAA"), (5, 6, "none"), (6, 10, "BBBBBB")]
    assert lane.note == "2 topics of this name" and lane.segments[1].details == "id AAAAAAAA"


def test_a_static_member_has_a_strip_of_its_member_ids() -> None:
    def members(second: float, *found: tuple[str, str | None]) -> dict[str, Any]:
        value = [{"instance_id": i, "member_id": m, "client_id": "c/1", "partitions": []} for m, i in found]
        return seen(second, "members", value, "group:g")

    rows = [members(1, ("m1", "pod-1"), ("m2", None)), members(3, ("m2", None)), members(4, ("m3", "pod-1"))]
    (lane,) = instance_lanes(rows, AXIS)["g"]
    assert spans(lane.segments) == [(1, 3, "id 1"), (3, 4, "none"), (4, 10, "id 2")]
    assert (lane.label, lane.note) == ("pod-1", "2 member ids")
    assert lane.segments[2].details == "c/1 · member id m3"


def test_a_rebalance_is_a_seam_and_a_time_without_owner_a_gap() -> None:
    rows = [owned(1, 4, "billing/1"), owned(4, 6, "billing/1", 2), owned(7, None, "billing/2", 3)]
    (lane,) = owner_lanes("billing", rows, AXIS)
    assert spans(lane.segments) == [(1, 4, "billing/1"), (4, 6, "billing/1"), (7, 10, "billing/2")]


def test_two_owners_at_once_are_shown_as_such() -> None:
    (lane,) = owner_lanes("billing", [owned(1, 5, "billing/1"), owned(4, 8, "billing/2")], AXIS)
    assert spans(lane.segments) == [(1, 4, "billing/1"), (4, 5, "two owners"), (5, 8, "billing/2")]
    assert lane.segments[1].details == "owned by billing/1 and billing/2"


def test_a_silent_coordinator_has_a_separate_look() -> None:
    rows = [seen(1, "coordinator", 3, "group:g"), seen(3, "answers", False, "group:g")]
    rows += [seen(5, "answers", True, "group:g"), seen(5, "coordinator", 1, "group:g")]
    assert spans(coordinator_lanes(rows, AXIS)["g"].segments) == [(1, 3, "3"), (3, 5, "silent"), (5, 10, "1")]


def test_rates_are_per_second_and_zero_without_records() -> None:
    rows = [
        {"at_us": at(s) // 250_000 * 250_000, "series": "acked", "scope": "orders", "value": 500} for s in (1, 1.25, 3)
    ]
    (lane,) = rate_lanes(table("series", rows), "acked", "acked/s", AXIS)
    assert lane.numbers is not None
    values = lane.numbers["values"]
    assert [round(v) for v in values if v] == [2000, 2000, 2000]
    lead, step = lane.numbers["lead"], lane.numbers["step"]
    # the crosshair finds the bucket of its time, although the axis begins between two buckets
    assert values[math.floor((1.0 + lead) / step)] == 2000 and values[math.floor((2.0 + lead) / step)] == 0


def test_lag_holds_between_samples() -> None:
    rows = [{"at_us": at(s), "series": "lag", "scope": "billing", "value": v} for s, v in ((1, 7), (3, 2))]
    (lane,) = lag_lanes(table("series", rows), AXIS)
    assert lane.numbers is not None
    assert [v for v in lane.numbers["values"] if v is not None] == [7.0] * 8 + [2.0]


def test_a_burst_does_not_flatten_the_rest() -> None:
    assert ceiling([1000.0] * 50 + [46_000.0]) == 5000
    assert ceiling([1000.0] * 50 + [3900.0]) == 5000
    assert ceiling([]) == 1.0
    assert [nice_ceiling(v) for v in (0.3, 1, 11, 240, 9_900)] == [0.5, 1, 20, 250, 10_000]


def test_heat_maps_use_the_width_of_the_columns_of_the_audit() -> None:
    rows = [
        {"at_us": (BEGAN // 500_000 + i) * 500_000, "series": "ack", "scope": "orders", "bin_us": b, "count": 10}
        for i in range(12)
        for b in (1000, 1778, 3162)
    ]
    found = table("latency", rows)
    assert column_us(found) == 500_000
    (lane,) = latency_lanes(found, "ack", AXIS)
    assert lane.numbers is not None
    assert lane.numbers["texts"] and all(lane.numbers["texts"]), "no column between two others may be empty"
    assert lane.ticks == [(1.0, "1 ms"), (0.0, "10 ms")]


def test_percentiles_are_in_the_bin_that_contains_them() -> None:
    assert bin_ratio([100, 177, 316, 562]) == pytest.approx(1.77, abs=0.02)
    column = {1000: 98, 100_000: 2}
    assert 1000 <= percentile(column, 0.5, 1.78) <= 1780
    assert 100_000 <= percentile(column, 0.99, 1.78) <= 178_000
    assert [decade(n) for n in (2, 3, 6, 8)] == ["100 µs", "1 ms", "1 s", "100 s"]


def test_lanes_with_changes_stay_visible_in_order() -> None:
    lanes = [Lane(f"leader:t/{i}", f"t/{i}") for i in range(50)]
    lanes[40].dots.append(Dot(1, "#x", "x", 1, "write", True))
    lanes[30].segments += [Segment(0, 1, "1", "", "c0"), Segment(1, 2, "2", "", "c1")]
    band = fold("Leaders", "", lanes, shown=3, folded=10)
    assert [lane.label for lane in band.lanes] == ["t/0", "t/30", "t/40"]
    assert (len(band.folded), band.undrawn) == (10, 37)


def test_sentences_that_differ_in_numbers_share_a_title_when_they_are_many() -> None:
    few = ["seq 1 comes after 2", "seq 3 comes after 4"]
    assert set(families(few).values()) == set(few)
    many = [f"broker 2 cut off {i}" for i in range(5)]
    assert set(families([*many, "other"]).values()) == {"broker 2 cut off …", "other"}


def test_settings_named_by_findings_come_first_then_those_that_differ(tmp_path: Any) -> None:
    _, result, resolved = failed_run(tmp_path)
    rows = [(s.part, s.name, s.value, s.default) for s in settings_that_mattered(result, resolved)]
    assert rows[0] == ("producer shop", "acks", "1", "all")
    assert ("topic orders", "min.insync.replicas", "1", "1") in rows
    assert ("consumer billing", "max.poll.interval.ms", "6000", "300000") in rows
    assert not any(name in ("linger.ms", "(controllers)", "(racks)") for _, name, _, _ in rows)
    layout = {"cluster": resolved.scenario.cluster.model_copy(update={"controllers": 3, "racks": ["a", "b"]})}
    other = resolved.model_copy(update={"scenario": resolved.scenario.model_copy(update=layout)})
    rows_of = [s for s in settings_that_mattered(result, other) if s.part == "cluster"]
    found = {s.name: (s.value, s.default) for s in rows_of}
    assert found == {"(controllers)": ("3 dedicated", "every broker"), "(racks)": ("a, b", "none")}


def test_times_have_units_and_a_sign() -> None:
    clock = Clock(BEGAN)
    assert clock.relative(at(12.25)) == "+12.250 s"
    assert clock.relative(at(192.25)) == "+3 min 12.250 s"
    assert clock.relative(at(-1)) == "\N{MINUS SIGN}1.000 s"
    assert clock.wall(at(1)) == "2026-02-03 14:03:13.250 UTC"
    assert [duration(v) for v in (312, 4_200, 1_350_000, 123_000_000)] == ["312 µs", "4.2 ms", "1.35 s", "2 min 3 s"]
    assert clock.evidence({"acked_us": at(2), "gap_us": 1500, "isr": [1, 2], "seen": None}) == [
        ("acked", "+2.000 s", "2026-02-03 14:03:14.250 UTC"),
        ("gap", "1.5 ms", ""),
        ("isr", "1, 2", ""),
        ("seen", "none", ""),
    ]


def test_names_sort_by_number_and_hidden_characters_are_visible() -> None:
    assert sorted(["b/10", "b/2", "a"], key=natural) == ["a", "b/2", "b/10"]
    assert visible("a\x00b\u202e") == "a\u2400b\ufffd"


@pytest.mark.parametrize(
    ("at_us", "shown"),
    [
        (86_400_000_000, "1970-01-02 00:00:00.000 UTC"),
        (-1, "1969-12-31 23:59:59.999 UTC"),
        (9_000_000_000_000_000_000, "year 287168"),
        (-(2**63), "year -290308"),
    ],
)
def test_a_record_of_another_age_leaves_the_timeline_as_it_is(tmp_path: Path, at_us: int, shown: str) -> None:
    """A producer sets timestamps at will, and an anomaly of the log has the timestamp of its record."""
    run, result, resolved = failed_run(tmp_path)
    tables = read_tables(run)
    usual = draw(tables, result, resolved, [])
    rows = [row | {"at_us": at_us} if row["check"] == "lost_write" else row for row in tables.anomalies.to_pylist()]
    old = replace(tables, anomalies=pa.Table.from_pylist(rows, tables.anomalies.schema))
    picture = draw(old, result, resolved, [])
    assert picture.axis == usual.axis and len(picture.ticks) == len(usual.ticks)
    dots = [dot for lane in picture.lanes() for dot in lane.dots if "lost_write" in dot.details]
    assert sum(dot.count for dot in dots) == 37
    assert all(dot.at in (0.0, picture.axis.total) and shown in dot.details for dot in dots)


def test_records_in_evidence_are_text_with_times_since_the_start() -> None:
    records = [{"producer": "p/1", "seq": 7, "first_us": BEGAN + 5_500_000, "seen": ["in the log", "delivered"]}, {}]
    shown = "producer p/1, seq 7, first +5.500 s, seen in the log, delivered; none"
    assert Clock(BEGAN).evidence({"records": records}) == [("records", shown, "")]


def test_a_timestamp_is_a_time_of_day_however_small() -> None:
    shown = Clock(BEGAN).evidence({"timestamp_us": 5_000_000, "first_timestamp_us": -1_000, "gap_us": 5_000_000})
    assert [(name, value) for name, value, _ in shown] == [
        ("timestamp", "1970-01-01 00:00:05.000 UTC"),
        ("first timestamp", "none"),
        ("gap", "5 s"),
    ]
