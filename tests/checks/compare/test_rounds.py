"""Rounds of a comparison that goes on: what one leaves to the next, and what all of them say."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.compare.rounds import Rounds
from chaos.errors import RunDirError
from tests.checks.compare.logs import Logs, found
from tests.checks.compare.tables import Record, records

K = records("k0=a k1=b k2=c k3=d k4=e k5=f k6=g k7=h")


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Logs]:
    def make(partitions: int = 1, folder: str = "runs", every_s: float | None = 1.0) -> Logs:
        return Logs(tmp_path / folder, partitions, monkeypatch, every_s)

    return make


def test_what_is_behind_in_a_round_and_copied_by_the_next_is_the_same(logs):
    pair = logs()
    now, so_far = pair.round(K[:6], K[:4])
    assert (now.verdict, found(now)) == ("equal", {"same": 4, "behind": 2})
    now, so_far = pair.round(K[6:], K[4:])
    assert (found(now), found(so_far)) == ({"same": 4}, {"same": 8})
    assert so_far.topics[0].records == (8, 8) and (so_far.verdict, so_far.rounds) == ("equal", 2)


def test_what_is_behind_for_a_whole_round_is_missing_until_it_comes(logs):
    pair = logs()
    pair.round(K[:6], K[:4])
    now, so_far = pair.round()
    assert (now.verdict, found(now)) == ("differs", {"same": 0, "missing": 2})
    assert (so_far.verdict, found(so_far)) == ("differs", {"same": 4, "missing": 2})
    assert [e.offsets for e in so_far.topics[0].examples] == [(4, None), (5, None)]
    _, so_far = pair.round((), K[4:6])
    assert (so_far.verdict, found(so_far), so_far.topics[0].examples) == ("equal", {"same": 6}, [])


def test_what_was_passed_and_comes_in_a_later_round_is_reordered_and_not_missing(logs):
    pair = logs()
    now, _ = pair.round(K, [*K[:2], *K[4:]])
    assert (now.verdict, found(now)) == ("differs", {"same": 6, "missing": 2})
    now, so_far = pair.round((), K[2:4])
    assert found(so_far) == {"same": 8, "reordered": 2}
    assert [e.detail for e in now.topics[0].examples] == ["late in B, after a round without it"] * 2


def test_a_round_in_between_without_a_match_leaves_a_late_record_late(logs):
    pair = logs()
    pair.round(K, [*K[:2], *K[3:]])
    pair.round()
    assert found(pair.round((), K[2:3])[1]) == {"same": 8, "reordered": 1}
    assert [*pair.run.path.glob("rounds/*/*/carried-*")] == []


def test_what_is_carried_is_in_the_last_round_only(logs):
    pair = logs()
    for more in (K, [], []):
        pair.round(more, ())
    assert {path.parts[-3] for path in pair.run.path.glob("rounds/*/*/carried-*")} == {"0003"}


def test_a_record_that_is_matched_in_time_is_in_order_in_the_next_round(logs):
    pair = logs()
    pair.round(K[:5], K[:3])
    assert found(pair.round(K[5:], K[3:])[0]) == {"same": 5}


def test_a_copy_of_what_an_earlier_round_matched_is_duplicated_and_another_record_is_extra(logs):
    pair = logs()
    pair.round(K, K)
    pair.round()
    now, so_far = pair.round((), [*K[3:5], *records("k9=z")])
    assert found(now) == {"same": 0, "duplicated": 2, "extra": 1}
    assert found(so_far) == {"same": 8, "duplicated": 2, "extra": 1}
    _, so_far = pair.round()
    assert found(so_far) == {"same": 8, "duplicated": 2, "extra": 1}


def test_a_record_is_no_alteration_of_a_copy_that_an_earlier_round_matched(logs):
    """Key k0 again in A, which B lacks, and the old record of k0 again in B."""
    pair = logs()
    pair.round(K, K)
    now, _ = pair.round(records("k0=new k8=last"), [K[0], *records("k8=last", first_ms=1_001)])
    assert found(now) == {"same": 1, "missing": 1, "duplicated": 1}


def test_an_open_transaction_hides_and_the_next_round_decides(logs):
    pair = logs()
    pair.stable[1] = {0: 4}
    now, so_far = pair.round(K, K[:6])
    assert (so_far.verdict, found(now)) == ("inconclusive", {"same": 4, "unknown": 4})
    pair.stable[1] = {}
    now, so_far = pair.round()
    assert found(now) == {"same": 2, "missing": 2}
    assert found(so_far) == {"same": 6, "missing": 2}


def test_what_b_has_while_a_transaction_is_open_in_a_is_carried(logs):
    pair = logs()
    pair.stable[0] = {0: 4}
    now, _ = pair.round(K, [*K[:6], *records("k9=z")])
    assert found(now) == {"same": 4, "unknown": 3}
    pair.stable[0] = {}
    _, so_far = pair.round((), K[6:])
    assert found(so_far) == {"same": 8, "extra": 1}


@pytest.mark.parametrize("side", [0, 1])
def test_what_retention_removed_between_rounds_is_not_decided(logs, side):
    pair = logs()
    pair.round(K[:2], K[:2])
    pair.starts[side] = {0: 5}
    now, so_far = pair.round(K[2:], K[2:])
    assert (now.verdict, found(now)) == ("inconclusive", {"same": 3, "unknown": 3})
    assert "AB"[side] + " lacks offsets before" in now.topics[0].notes[0]
    _, so_far = pair.round(records("k8=i"), records("k8=i"))
    assert (so_far.verdict, found(so_far)) == ("inconclusive", {"same": 6, "unknown": 3})


def test_a_late_record_is_no_place_before_which_retention_removed_nothing(logs):
    """k1 is copied late, behind k4 and k5, which retention of B removed before they were read there."""
    pair = logs()
    pair.round(K[:4], [K[0], *K[2:4]])
    pair.starts[1] = {0: 5}
    now, so_far = pair.round(K[4:7], [*K[4:6], K[1], K[6]])
    assert found(now) == {"same": 2, "unknown": 2, "reordered": 1}
    assert found(so_far) == {"same": 5, "unknown": 2, "reordered": 1}


def test_retention_of_what_was_read_hides_nothing(logs):
    pair = logs()
    pair.round(K[:4], K[:4])
    pair.starts[1] = {0: 4}
    assert found(pair.round(K[4:], K[5:])[0]) == {"same": 3, "missing": 1}


@pytest.mark.parametrize("how", ["made again", "truncated"])
def test_a_topic_that_is_another_one_is_compared_from_its_start(logs, how):
    pair = logs()
    pair.round(K[:4], K[:4])
    if how == "made again":
        pair.ids[1] = "three"
        now, so_far = pair.round(K[4:])
        assert found(so_far) == {"same": 4, "behind": 4}
    else:
        pair.b.clear()
        now, so_far = pair.round((), K[:3])
        assert found(so_far) == {"same": 3, "behind": 1}
    assert how in now.topics[0].notes[0] and "compared from its start again" in now.topics[0].notes[0]
    assert len(so_far.topics[0].notes) == 1


def test_what_was_matched_before_a_topic_was_made_again_is_forgotten(logs):
    pair = logs()
    pair.round(K, K)
    pair.a.clear()
    pair.b.clear()
    pair.ids = ["three", "four"]
    pair.round(records("k8=i"), records("k8=i"))
    assert found(pair.round((), K[:1])[1]) == {"same": 1, "extra": 1}


def test_an_interrupted_round_is_compared_again(logs, monkeypatch):
    pair = logs()
    pair.round(K[:6], K[:4])

    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Rounds, "complete", full)
        with pytest.raises(OSError, match="no space"):
            pair.round(K[6:], K[4:7])
    _, so_far = pair.round()
    assert (found(so_far), so_far.rounds) == ({"same": 7, "behind": 1}, 2)
    assert sorted(path.name for path in (pair.run.path / "rounds").iterdir()) == ["0001", "0002"]


def test_a_state_that_is_no_json_is_named(logs):
    pair = logs()
    pair.round(K, K)
    (pair.run.path / "rounds/0001/reached.json").write_text("{")
    with pytest.raises(RunDirError, match=r"reached\.json"):
        pair.round()


def test_matched_records_are_remembered_for_seven_days(logs):
    pair = logs()
    pair.round(K, K)
    seen = pair.run.path / "rounds/0001/orders/seen.npy"
    os.utime(seen, (1, 1))
    pair.round()
    assert not seen.exists()
    assert found(pair.round((), K[:1])[0]) == {"same": 0, "extra": 1}


def test_a_round_without_a_new_record_changes_nothing(logs):
    pair = logs(2)
    _, before = pair.round(K, K)
    now, so_far = pair.round()
    assert (now.verdict, found(now)) == ("inconclusive", {"same": 0})
    assert (so_far.verdict, found(so_far), found(before)) == ("equal", {"same": 8}, {"same": 8})


def test_partitions_that_were_added_are_compared_from_their_start(logs):
    pair = logs(1)
    pair.round(K[:4], K[:3])
    pair.partitions(2)
    more = records("k8=i k9=j", partition=1)
    now, so_far = pair.round(more, [K[3], more[0]])
    assert found(now) == {"same": 2, "behind": 1}
    assert [(p.matched, p.found) for p in so_far.topics[0].partitions] == [(4, {}), (1, {"behind": 1})]


def test_what_was_found_in_a_topic_that_is_gone_stands(logs):
    pair = logs()
    pair.round(K, K[:2])
    pair.asked = pair.asked.model_copy(update={"pairs": []})
    pair.round()
    _, so_far = pair.round()
    assert (found(so_far), so_far.rounds) == ({"same": 2, "behind": 6}, 3)
    assert so_far.topics[0].notes == ["its topic is not in A any more, or not chosen"]


def test_a_topic_that_comes_back_is_compared_from_its_start(logs):
    """What it carried was for the round after, in which the topic was not there."""
    pair = logs()
    pair.round(K, K[:2])
    pairs = pair.asked.pairs
    pair.asked = pair.asked.model_copy(update={"pairs": []})
    pair.round()
    pair.asked = pair.asked.model_copy(update={"pairs": pairs})
    now, so_far = pair.round()
    assert found(so_far) == found(now) == {"same": 2, "behind": 6}
    assert "was not compared in the round before" in now.topics[0].notes[0]
    assert found(pair.round((), K[2:])[1]) == {"same": 8}


def test_a_topic_that_becomes_compacted_is_compared_whole(logs):
    pair = logs()
    pair.round(K, K[:2])
    pair.asked.pairs = [pair.asked.pairs[0].model_copy(update={"compacted": True})]
    assert found(pair.round()[1]) == {"same": 2, "missing": 6}
    pair.asked.pairs = [pair.asked.pairs[0].model_copy(update={"compacted": False})]
    now, so_far = pair.round((), K[2:])
    assert found(so_far) == {"same": 8} and "its cleanup policy changed" in now.topics[0].notes[0]


@pytest.mark.parametrize("seed", range(12))
def test_rounds_find_what_one_comparison_finds(logs, seed):
    """Records with their own contents, some lost, some repeated, some added, cut at random places."""
    draw = random.Random(seed)
    a = [Record(b"k%d" % n, b"v%d" % n, None, draw.randrange(2), n) for n in range(80)]
    b: list[tuple[int, Record]] = []
    for n, record in enumerate(a):
        if draw.random() > 0.1 or n >= 76:
            b.append((n, record))
        if b and draw.random() < 0.1:
            b.append((n, draw.choice(b)[1]))
        if draw.random() < 0.05:
            b.append((n, Record(b"z%d" % n, b"extra", None, draw.randrange(2), n)))
    pair = logs(2)
    for cut in sorted(draw.sample(range(len(a)), 3)):
        pair.a = a[:cut]
        copied = [record for n, record in b if n < cut]
        pair.b = copied[: max(len(pair.b), len(copied) - draw.randrange(4))]
        pair.round()
    pair.a, pair.b = a, [record for _, record in b]
    pair.round()
    _, so_far = pair.round()  # what is behind until now is missing
    _, once = logs(2, "whole", None).round(a, pair.b)
    several, one = found(so_far), found(once)
    assert several.pop("reordered", 0) >= one.pop("reordered", 0)  # a later round does not know the fewest
    assert several == one
