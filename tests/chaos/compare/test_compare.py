"""Comparisons of topics of a real cluster: what was planted is named, and what is not known is never equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from chaos.compare import pairs
from chaos.compare.model import ComparisonResult
from chaos.errors import AftershockError, ClusterError, UsageError
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from checks.compare import sides
from checks.compare import topics as compared
from tests.chaos.compare.topics import Sent, Topics, sent

pytestmark = pytest.mark.kafka


@pytest.fixture
def topics(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Topics:
    monkeypatch.setattr(compared, "LATE_S", 0)
    return Topics(bootstrap, tmp_path)


def kinds(result: ComparisonResult) -> dict[str, int]:
    (topic,) = result.topics
    return topic.found


def places(result: ComparisonResult, kind: str) -> list[tuple[object, ...]]:
    return [(e.key, e.partitions, e.offsets) for e in result.topics[0].examples if e.kind == kind]


def between(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Do something after the ends were asked, and before the records are read."""

    def cut(*args: Any) -> sides.Cut:
        found = sides.cut(*args)
        what()
        return found

    monkeypatch.setattr(compared, "cut", cut)


def test_a_copy_is_equal(topics: Topics) -> None:
    topics.create()
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(100))
    result = topics.compared()
    assert (result.verdict, kinds(result), result.topics[0].matched) == ("equal", {}, 100)
    assert [(p.partition, p.records, p.matched) for p in result.topics[0].partitions] == [
        (0, (50, 50), 50),
        (1, (50, 50), 50),
    ]


def test_planted_differences_are_named_with_their_places(topics: Topics) -> None:
    topics.create()
    records = sent(40)
    topics.produce(topics.a, records)
    copy = [r for r in records if r.key not in ("k4", "k11")]  # missing: one in each partition
    copy = [r._replace(value="x") if r.key == "k6" else r for r in copy]
    copy += [Sent("new", "v", 1, 99), records[9]]
    copy.append(copy.pop(copy.index(records[20])))
    topics.produce(topics.b, copy)
    result = topics.compared()
    assert result.verdict == "differs"
    assert kinds(result) == {"missing": 2, "extra": 1, "duplicated": 1, "altered": 1, "reordered": 1}
    assert places(result, "missing") == [("k4", (0, None), (2, None)), ("k11", (1, None), (5, None))]
    assert places(result, "altered") == [("k6", (0, 0), (3, 2))]
    assert places(result, "extra") == [("new", (None, 1), (None, 19))]
    assert places(result, "duplicated") == [("k9", (None, 1), (None, 20))]
    assert places(result, "reordered") == [("k20", (0, 0), (10, 18))]


def test_a_record_in_another_partition_is_moved(topics: Topics) -> None:
    topics.create()
    topics.produce(topics.a, sent(10))
    topics.produce(topics.b, [r._replace(partition=1) if r.key == "k4" else r for r in sent(10)])
    result = topics.compared()
    assert (result.verdict, kinds(result)) == ("differs", {"moved": 1})


def test_aborted_records_are_no_records(topics: Topics) -> None:
    topics.create()
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(10))
    topics.transaction(topics.a, [Sent("aborted", "v", 0, 50)]).abort_transaction(30)
    topics.transaction(topics.a, [Sent("kept", "v", 1, 51)]).commit_transaction(30)
    topics.produce(topics.b, [Sent("kept", "v", 1, 51)])
    result = topics.compared()
    assert (result.verdict, result.topics[0].matched, kinds(result)) == ("equal", 11, {})


@pytest.mark.parametrize("side", ["a", "b"])
def test_what_an_open_transaction_hides_is_inconclusive(topics: Topics, side: str) -> None:
    topics.create()
    open_in, other = (topics.a, topics.b) if side == "a" else (topics.b, topics.a)
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(10))
    transaction = topics.transaction(open_in, [Sent("open", "v", 0, 50)])
    topics.produce(other, [Sent("open", "v", 0, 50)])
    result = topics.compared()
    transaction.abort_transaction(30)
    assert (result.verdict, kinds(result)) == ("inconclusive", {"unknown": 1})
    assert "transaction that is open in partition 0 (5)" in result.topics[0].notes[0]


@pytest.mark.parametrize("side", ["a", "b"])
def test_what_retention_removed_on_one_side_is_said_and_not_missing(topics: Topics, side: str) -> None:
    topics.create()
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(20))
    topics.delete_before(topics.a if side == "a" else topics.b, 1, 4)
    result = topics.compared()
    assert (result.verdict, kinds(result)) == ("inconclusive", {"unknown": 4})
    assert result.topics[0].notes == [
        f"{side.upper()} lacks offsets before those of partition 1 (from 4): retention removed them"
    ]


def test_a_hole_behind_what_retention_removed_is_missing(topics: Topics) -> None:
    topics.create()
    topics.produce(topics.a, sent(20))
    topics.produce(topics.b, [r for r in sent(20) if r.key != "k15"])
    topics.delete_before(topics.b, 1, 4)
    result = topics.compared()
    assert (result.verdict, kinds(result)) == ("differs", {"missing": 1, "unknown": 4})


def test_what_retention_removes_before_it_is_read_is_not_comparable(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create()
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(20))
    between(monkeypatch, lambda: topics.delete_before(topics.b, 1, 4))
    result = topics.compared()
    assert (result.verdict, kinds(result)) == ("inconclusive", {"unknown": 4})
    assert result.topics[0].notes == ["B lost offsets before 4 of partition 1 to retention while they were read"]


def test_the_end_of_a_log_that_grows_is_behind_and_inconclusive(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create()
    topics.produce(topics.a, sent(20))
    topics.produce(topics.b, sent(18))
    still = topics.compared()
    assert (still.verdict, kinds(still)) == ("differs", {"missing": 2})
    between(monkeypatch, lambda: topics.produce(topics.a, [Sent("late", "v", 1, 99)]))
    result = topics.compared()
    assert (result.verdict, kinds(result)) == ("differs", {"missing": 1, "behind": 1})
    between(monkeypatch, lambda: topics.produce(topics.b, [Sent("k18", "v18", 0, 18), Sent("k19", "v19", 1, 19)]))
    result = topics.compared()
    assert (result.verdict, kinds(result)) == ("inconclusive", {"behind": 3})


def test_a_copy_that_is_a_little_late_is_behind_and_not_missing(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create()
    topics.produce(topics.a, sent(20))
    topics.produce(topics.b, sent(18))
    monkeypatch.setattr(compared, "wait_for_late", lambda _: topics.produce(topics.b, sent(20)[18:]))
    result = topics.compared()
    assert (result.verdict, kinds(result)) == ("inconclusive", {"behind": 2})


def test_a_topic_that_is_made_again_meanwhile_has_no_result(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.create()
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(20))

    def again() -> None:
        topics.create_again(topics.b)
        topics.produce(topics.b, sent(20))

    between(monkeypatch, again)
    with pytest.raises(ClusterError, match="was deleted and made again while it was read"):
        topics.compared()


def test_a_topic_that_is_deleted_meanwhile_has_no_result(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.create()
    topics.produce(topics.a, sent(20))
    topics.produce(topics.b, sent(20))
    between(monkeypatch, lambda: topics.admin.delete_topics([topics.b])[topics.b].result(30))
    with pytest.raises(AftershockError, match=f"{topics.b}.* does not exist any more"):
        topics.compared()


def test_a_log_that_ends_earlier_than_before_was_truncated(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.create()
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(20))

    def longer(*args: Any) -> sides.Cut:
        found = sides.cut(*args)
        found.ends[1].stable[1] += 3
        return found

    monkeypatch.setattr(compared, "cut", longer)
    with pytest.raises(ClusterError, match="partition 1, ended at 13 and ends at 10 now: its log was truncated"):
        topics.compared()


COMPACTED = {"cleanup.policy": "compact"}


def test_of_compacted_topics_what_the_cleaner_left_on_one_side_is_no_difference(topics: Topics) -> None:
    topics.create(config=COMPACTED)
    history = [*sent(10), Sent("k1", "old", 1, 50), Sent("k3", "v", 1, 51), Sent("k3", None, 1, 52)]
    topics.produce(topics.a, [*history, Sent("k1", "last", 1, 53)])
    topics.produce(topics.b, [*[r for r in sent(10) if r.key not in ("k1", "k3")], Sent("k1", "last", 1, 53)])
    result = topics.compared()
    assert (result.verdict, kinds(result), result.topics[0].matched) == ("equal", {}, 9)


def test_of_compacted_topics_a_last_value_that_b_lacks_is_altered(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(config=COMPACTED)
    topics.produce(topics.a, [*sent(10), Sent("k1", "last", 1, 53)])
    topics.produce(topics.b, sent(10))
    result = topics.compared()
    assert (result.verdict, kinds(result)) == ("differs", {"altered": 1})
    between(monkeypatch, lambda: topics.produce(topics.a, [Sent("k3", "next", 1, 60)]))
    result = topics.compared()
    assert (result.verdict, kinds(result)) == ("inconclusive", {"unknown": 1})


def test_other_numbers_of_partitions_are_compared_over_the_whole_topic(topics: Topics) -> None:
    topics.create((2, 3))
    topics.produce(topics.a, sent(30))
    topics.produce(topics.b, [r for r in sent(30, 3) if r.key != "k7"])
    result = topics.compared()
    assert (result.verdict, kinds(result), result.topics[0].matched) == ("differs", {"missing": 1}, 29)
    assert "A has 2 partitions and B 3" in result.topics[0].matching


def test_empty_topics_prove_nothing(topics: Topics) -> None:
    topics.create()
    assert topics.compared().verdict == "inconclusive"


def test_a_leader_that_was_just_elected_is_awaited(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.create()
    topics.produce(topics.a, sent(4))
    topics.produce(topics.b, sent(4))
    real, asked = Kafka.start_offsets, list[int]()

    def late(kafka: Kafka, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        known = real(kafka, partitions)
        asked.append(len(known))
        return dict(list(known.items())[:1])

    monkeypatch.setattr(Kafka, "start_offsets", late)
    assert topics.compared().verdict == "equal"
    assert asked[:2] == [2, 1], "a partition that answered is not asked again"


def test_a_partition_whose_leader_never_answers_is_named(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.create()
    monkeypatch.setattr(Kafka, "start_offsets", lambda *_: {})
    monkeypatch.setattr(pairs, "LEADER_S", 0.2)
    with pytest.raises(UsageError, match=f"A: the leader of {topics.a}/. does not say where its log begins"):
        topics.compared()


def test_another_timestamp_is_a_difference_only_if_it_is_asked_for(topics: Topics) -> None:
    topics.create()
    topics.produce(topics.a, sent(10))
    topics.produce(topics.b, [r._replace(at=r.at + 7) if r.key == "k4" else r for r in sent(10)])
    result = topics.compared()
    assert (result.verdict, kinds(result), result.topics[0].shifts_ms) == ("equal", {"retimed": 1}, (0, 7))
    assert topics.compared(timestamps=True).verdict == "differs"


@pytest.mark.parametrize(("own", "verdict"), [({}, "equal"), ({"retention.ms": "1000000000"}, "differs")])
def test_settings_are_a_difference_only_if_they_are_asked_for(
    topics: Topics, own: dict[str, str], verdict: str
) -> None:
    topics.create(config={"max.message.bytes": "100000"})
    topics.configure(topics.b, {"max.message.bytes": "100000", **own})
    for topic in (topics.a, topics.b):
        topics.produce(topic, sent(4))
    plain, asked = topics.compared(), topics.compared(settings=True)
    assert (plain.verdict, asked.verdict) == ("equal", verdict)
    assert [*plain.topics[0].settings] == [*own]
    if own:
        assert asked.sentence.startswith("1 setting of topics; 4 records are the same")
        assert "  setting retention.ms: 604800000 in A, 1000000000 in B" in [*plain.topics[0].lines()]
