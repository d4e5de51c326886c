"""What small tables of both sides show: a violation, a clean history and a near miss of each kind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from checks.compare import order
from tests.checks.compare.tables import Record, judged, records

ABCD = "k1=a k2=b k3=c k4=d"


def test_equal_sides_have_no_difference(tmp_path: Path) -> None:
    assert judged(tmp_path, records(ABCD), records(ABCD)).found == {"same": 4}


def test_two_empty_sides_have_no_difference(tmp_path: Path) -> None:
    assert judged(tmp_path, [], []).found == {"same": 0}


def test_a_record_that_only_a_has_is_missing_with_its_place(tmp_path: Path) -> None:
    b = [r for r in records(ABCD) if r.key != b"k2"]
    found = judged(tmp_path, records(ABCD), b)
    assert found.found == {"same": 3, "missing": 1}
    (example,) = found.examples
    assert (example.kind, example.partitions, example.offsets) == ("missing", (0, None), (1, None))


def test_a_record_that_only_b_has_is_extra(tmp_path: Path) -> None:
    found = judged(tmp_path, records(ABCD), [*records(ABCD), Record(b"k9", b"z", at_ms=9_000)])
    assert found.found == {"same": 4, "extra": 1}
    assert found.examples[0].offsets == (None, 4)


def test_a_second_copy_in_b_is_duplicated_and_not_extra(tmp_path: Path) -> None:
    a = records(ABCD)
    assert judged(tmp_path, a, [*a, a[1]]).found == {"same": 4, "duplicated": 1}


def test_as_many_copies_on_both_sides_are_the_same(tmp_path: Path) -> None:
    a = records(ABCD)
    assert judged(tmp_path, [*a, a[1]], [*a, a[1]]).found == {"same": 5}


def test_a_copy_that_b_lacks_is_missing(tmp_path: Path) -> None:
    a = records(ABCD)
    assert judged(tmp_path, [*a, a[1]], a).found == {"same": 4, "missing": 1}


def test_equal_heartbeats_are_told_apart_by_their_timestamps(tmp_path: Path) -> None:
    a = [Record(b"k", b"beat", at_ms=n) for n in (1, 2, 3, 4)]
    b = [Record(b"k", b"beat", at_ms=n) for n in (1, 1, 3, 4)]
    found = judged(tmp_path, a, b)
    assert found.found == {"same": 3, "missing": 1, "duplicated": 1}
    assert {e.kind: e.offsets for e in found.examples} == {"missing": (1, None), "duplicated": (None, 1)}


def test_without_preserved_timestamps_equal_heartbeats_are_matched_in_their_order(tmp_path: Path) -> None:
    a = [Record(b"k", b"beat", at_ms=n) for n in (1, 2, 3, 4)]
    b = [Record(b"k", b"beat", at_ms=n) for n in (4, 50, 60, 70)]
    assert judged(tmp_path, a, b).found == {"same": 4, "retimed": 4}


def test_another_value_under_a_key_is_altered(tmp_path: Path) -> None:
    found = judged(tmp_path, records(ABCD), records("k1=a k2=x k3=c k4=d"))
    assert found.found == {"same": 3, "altered": 1}
    assert (found.examples[0].offsets, found.examples[0].times_ms) == ((1, 1), (1_001, 1_001))


def test_a_null_value_and_an_empty_one_differ(tmp_path: Path) -> None:
    assert judged(tmp_path, [Record(b"k", None)], [Record(b"k", b"")]).found == {"same": 0, "altered": 1}


def test_a_null_key_and_an_empty_one_differ(tmp_path: Path) -> None:
    assert judged(tmp_path, [Record(None, b"v")], [Record(b"", b"v")]).found == {"same": 0, "altered_key": 1}


def test_a_header_more_is_altered_and_the_same_headers_are_not(tmp_path: Path) -> None:
    with_header = [Record(b"k", b"v", b"trace")]
    assert judged(tmp_path, [Record(b"k", b"v")], with_header).found == {"same": 0, "altered": 1}
    assert judged(tmp_path / "again", with_header, with_header).found == {"same": 1}


def test_another_key_for_value_and_timestamp_is_an_altered_key(tmp_path: Path) -> None:
    assert judged(tmp_path, records(ABCD), records("k1=a k9=b k3=c k4=d")).found == {"same": 3, "altered_key": 1}


def test_another_key_at_another_time_is_another_record(tmp_path: Path) -> None:
    a, b = [Record(b"k1", b"v", at_ms=1)], [Record(b"k2", b"v", at_ms=2)]
    assert judged(tmp_path, a, b).found == {"same": 0, "missing": 1, "extra": 1}


def test_a_record_without_a_key_is_altered_if_its_timestamp_is_the_same(tmp_path: Path) -> None:
    a, b = records("=a =b =c"), records("=a =x =c")
    assert judged(tmp_path, a, b).found == {"same": 2, "altered": 1}


def test_a_record_in_another_partition_is_moved(tmp_path: Path) -> None:
    a = [*records("k1=a k2=b"), *records("k3=c k4=d", partition=1)]
    b = [*records("k1=a"), *records("k3=c k4=d", partition=1), Record(b"k2", b"b", None, 1, 1_001)]
    assert judged(tmp_path, a, b, (2, 2)).found == {"same": 3, "moved": 1}


def test_another_timestamp_is_counted_as_retimed_and_is_the_same_record(tmp_path: Path) -> None:
    found = judged(tmp_path, records(ABCD), records(ABCD, first_ms=1_005))
    assert found.found == {"same": 4, "retimed": 4}


@pytest.mark.parametrize(
    ("b", "count", "how"),
    [("k2=b k3=c k4=d k1=a", 1, "late in B"), ("k4=d k1=a k2=b k3=c", 1, "early in B")],
)
def test_one_record_that_moved_counts_once_in_whichever_direction(tmp_path: Path, b: str, count: int, how: str) -> None:
    times = {r.key: r.at_ms for r in records(ABCD)}
    found = judged(tmp_path, records(ABCD), [r._replace(at_ms=times[r.key]) for r in records(b)])
    assert found.found == {"same": 4, "reordered": count}
    assert found.examples[0].detail == how


def test_order_within_another_partition_is_not_concerned(tmp_path: Path) -> None:
    a = [*records("k1=a k2=b"), *records("k3=c k4=d", partition=1)]
    b = [a[0], a[1], a[3], a[2]]
    assert judged(tmp_path, a, b, (2, 2)).at["reordered"] == {1: 1}


def test_a_missing_record_leaves_the_others_in_order(tmp_path: Path) -> None:
    a = records(" ".join(f"k{n}=v{n}" for n in range(50)))
    assert judged(tmp_path, a, [r for n, r in enumerate(a) if n % 7]).found == {"same": 42, "missing": 8}


@pytest.mark.parametrize("grew", [((0,), ()), ((), (0,))])
def test_the_end_of_a_is_behind_only_if_a_log_grew_meanwhile(tmp_path: Path, grew: Any) -> None:
    a = records(ABCD)
    assert judged(tmp_path, a, a[:2], grew=grew).found == {"same": 2, "behind": 2}
    assert judged(tmp_path / "still", a, a[:2]).found == {"same": 2, "missing": 2}


def test_a_hole_before_the_last_matched_record_is_missing_although_the_log_grew(tmp_path: Path) -> None:
    a = records(ABCD)
    found = judged(tmp_path, a, [a[0], a[2]], grew=((0,), ())).found
    assert found == {"same": 2, "missing": 1, "behind": 1}


def test_growth_of_another_partition_excuses_nothing(tmp_path: Path) -> None:
    a = [*records("k1=a k2=b"), *records("k3=c k4=d", partition=1)]
    found = judged(tmp_path, a, [a[0], a[2]], (2, 2), grew=((1,), ()))
    assert found.at == {"missing": {0: 1}, "behind": {1: 1}}


def test_what_an_open_transaction_may_hide_is_not_comparable(tmp_path: Path) -> None:
    a = records(ABCD)
    assert judged(tmp_path, a, a[:2], hidden=((), (0,))).found == {"same": 2, "unknown": 2}
    assert judged(tmp_path / "a", a[:2], a, hidden=((0,), ())).found == {"same": 2, "unknown": 2}
    assert judged(tmp_path / "hole", a, [a[0], a[3]], hidden=((), (0,))).found == {"same": 2, "missing": 2}


@pytest.mark.parametrize("how", ["grew", "hidden", "gaps"])
def test_last_values_of_a_compacted_topic_are_undecided_while_it_changes(tmp_path: Path, how: str) -> None:
    a, b = records("k1=a k2=b k3=c"), records("k1=x k2=b")
    flags: Any = {how: ((), (0,))}
    found = judged(tmp_path, a, b, compacted=True, **flags).found
    assert found == ({"same": 1, "altered": 1, "unknown": 1} if how == "gaps" else {"same": 1, "unknown": 2})
    assert judged(tmp_path / "still", a, b, compacted=True).found == {"same": 1, "altered": 1, "missing": 1}


def test_what_retention_may_have_removed_is_not_comparable(tmp_path: Path) -> None:
    a = records(ABCD)
    assert judged(tmp_path, a, a[2:], gaps=((), (0,))).found == {"same": 2, "unknown": 2}
    assert judged(tmp_path / "a", a[2:], a, gaps=((0,), ())).found == {"same": 2, "unknown": 2}


def test_a_hole_behind_the_first_matched_record_is_missing_in_spite_of_retention(tmp_path: Path) -> None:
    a = records(ABCD)
    assert judged(tmp_path, a, [a[1], a[3]], gaps=((), (0,))).found == {"same": 2, "unknown": 1, "missing": 1}


def test_retention_in_another_partition_excuses_nothing(tmp_path: Path) -> None:
    a = [*records("k1=a k2=b"), *records("k3=c k4=d", partition=1)]
    found = judged(tmp_path, a, [a[1], a[3]], (2, 2), gaps=((), (0,)))
    assert found.at == {"unknown": {0: 1}, "missing": {1: 1}}


def test_copies_that_the_start_of_the_other_log_may_have_had_are_not_comparable(tmp_path: Path) -> None:
    a = [Record(b"k", b"beat", at_ms=n) for n in (103, 104)]
    b = [Record(b"k", b"beat", at_ms=n) for n in (1, 2, 3, 4)]
    assert judged(tmp_path, a, b, gaps=((0,), ())).found == {"same": 2, "retimed": 2, "unknown": 2}


def test_of_a_compacted_topic_the_last_value_of_each_key_is_compared(tmp_path: Path) -> None:
    a = records("k1=a k2=b k1=c k3=d")
    b = [a[1], a[2], a[3]]
    assert judged(tmp_path, a, b, compacted=True).found == {"same": 3}
    assert judged(tmp_path / "plain", a, b).found == {"same": 3, "missing": 1}


def test_of_a_compacted_topic_a_tombstone_and_no_value_are_the_same(tmp_path: Path) -> None:
    assert judged(tmp_path, records("k1=a k2=b k1="), records("k2=b k9="), compacted=True).found["same"] == 1
    found = judged(tmp_path / "again", records("k1=a k2=b k1="), records("k2=b k9="), compacted=True).found
    assert not {"missing", "extra", "altered"} & found.keys()


def test_of_a_compacted_topic_a_stale_value_is_altered(tmp_path: Path) -> None:
    found = judged(tmp_path, records("k1=a k2=b k1=c"), records("k1=a k2=b"), compacted=True)
    assert found.found == {"same": 1, "altered": 1}


def test_of_a_compacted_topic_a_deleted_key_with_a_value_in_b_is_extra(tmp_path: Path) -> None:
    found = judged(tmp_path, records("k1=a k2=b k1="), records("k1=a k2=b"), compacted=True)
    assert found.found == {"same": 1, "extra": 1}


def test_with_other_partitions_records_are_matched_over_the_whole_topic(tmp_path: Path) -> None:
    a = [*records("k1=a k2=b"), *records("k3=c k4=d", partition=1)]
    b = [r._replace(partition=n % 3) for n, r in enumerate(a)]
    assert judged(tmp_path, a, b, (2, 3)).found == {"same": 4}
    assert judged(tmp_path / "less", a, b[:3], (2, 3)).found == {"same": 3, "missing": 1}


def test_with_other_partitions_retention_leaves_all_without_a_match_undecided(tmp_path: Path) -> None:
    a = [*records("k1=a k2=b"), *records("k3=c k4=d", partition=1)]
    found = judged(tmp_path, a, [a[0]._replace(partition=2)], (2, 3), gaps=((), (1,)))
    assert found.found == {"same": 1, "unknown": 3}


def test_blocks_of_offsets_give_the_numbers_of_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled = random.Random(7)
    a = records(" ".join(f"k{n}=v{n}" for n in range(200)))
    b = list(a)
    for _ in range(9):
        b.insert(shuffled.randrange(200), b.pop(shuffled.randrange(200)))
    whole = judged(tmp_path, a, b).found
    monkeypatch.setattr("checks.compare.judge.ROWS_PER_BUCKET", 16)
    assert judged(tmp_path / "blocks", a, b, parts=7).found == whole
    places = [b.index(r) for r in a]  # of each record of A in B
    in_b = [a.index(r) for r in b]
    late = sum(max(in_b[:n], default=-1) > at for n, at in enumerate(in_b))
    early = sum(min(in_b[n + 1 :], default=999) < at for n, at in enumerate(in_b))
    assert sorted(places) == list(range(200))
    assert whole == {"same": 200, "reordered": min(late, early)}


def test_blocks_are_in_order_only_if_each_begins_behind_the_ones_before() -> None:
    inside, behind = order.Block(0, 9, 0, 0), order.Block(10, 19, 0, 0)
    assert order.in_order([inside, behind])
    assert not order.in_order([behind, inside])
    assert not order.in_order([inside, order.Block(5, 19, 0, 0)])
    assert order.bounds([inside, behind]) == [(-1, 10), (9, order.LAST)]


@pytest.mark.parametrize("seed", range(40))
def test_random_changes_are_counted_as_a_plain_multiset_counts_them(tmp_path: Path, seed: int) -> None:
    """Records of few keys and contents, so that copies, alterations and passes meet."""
    draw = random.Random(seed)
    a = [
        Record(draw.choice([None, b"x", b"y"]), draw.choice([None, b"", b"v", b"w"]), None, draw.randrange(2), n)
        for n in range(draw.randrange(60))
    ]
    b = [r for r in a if draw.random() > 0.1]
    b += [r for r in a if draw.random() < 0.05]
    b += [Record(b"z", b"%d" % n, None, 1, 900 + n) for n in range(draw.randrange(3))]
    b = [r._replace(value=b"changed") if draw.random() < 0.05 else r for r in b]
    found = judged(tmp_path, a, b, (2, 2)).found
    pairs = sum(found.get(kind, 0) for kind in ("same", "altered", "altered_key", "moved"))
    assert pairs + found.get("missing", 0) == len(a)
    assert pairs + found.get("extra", 0) + found.get("duplicated", 0) == len(b)
    exact = sum(min(a.count(r), b.count(r)) for r in set(a))
    assert found["same"] >= exact
    assert (set(found) == {"same"}) == (sorted(map(repr, a)) == sorted(map(repr, b)))


@pytest.mark.spark
def test_spark_finds_what_threads_find(tmp_path: Path, spark: object) -> None:
    a = records(" ".join(f"k{n}=v{n}" for n in range(400)))
    b = [r for n, r in enumerate(a) if n % 50] + a[7:9]
    assert judged(tmp_path, a, b, small=0).found == judged(tmp_path / "threads", a, b).found
