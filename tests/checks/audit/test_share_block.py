"""Unit: what the rules of share groups ask about the acquisitions of one record, at and around each bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from checks.audit.arrays import NEVER_US, NONE, Columns
from checks.audit.engine.blocks import OK, REFUSED, RELEASE
from checks.audit.facts.shares import LATE_US, ShareMember
from checks.audit.rules import shares
from checks.audit.rules.share_block import ShareBlock, _matches

SECOND = 1_000_000


def acquired(
    *counts: int,
    members: tuple[int, ...] = (),
    ended_us: tuple[int, ...] = (NEVER_US,),
    acks: dict[int, tuple[int, int]] | None = None,
    **range_of: Any,
) -> ShareBlock:
    """One record acquired at 1 s, 2 s and so on. acks: by row, type and outcome of an acknowledgement 0.5 s later."""
    block: Any = object.__new__(ShareBlock)
    size, given = len(counts), acks or {}
    at_us = np.arange(1, size + 1) * SECOND
    block.rows = {"count": np.array(counts), "offset": np.full(size, 7), "acquired_us": at_us}
    block.rows |= {"sent_us": np.zeros(size, np.int64), "member": np.array(members or (0,) * size)}
    block.ack = np.array([list(given).index(row) if row in given else NONE for row in range(size)])
    block.acks = {"type": np.array([t for t, _ in given.values()], np.int64)}
    block.acks |= {"outcome": np.array([o for _, o in given.values()], np.int64)}
    block.acks |= {"requested_us": np.array([at_us[row] + SECOND // 2 for row in given], np.int64)}
    found = [ShareMember(f"c/{n}", 1, "g", 0, end) for n, end in enumerate(ended_us)]
    block.facts = SimpleNamespace(shares=SimpleNamespace(members=found, disturbed=range_of.pop("disturbed", ())))
    plain = {"leader_changes": (), "changes_between": lambda from_us, until_us: []}
    block.range = SimpleNamespace(**plain | range_of)
    block.block, block.name = SimpleNamespace(topic="t", partition=0), "g"
    return cast(ShareBlock, block)


@pytest.mark.parametrize(
    ("counts", "row", "late"),
    [
        ((1, 3, 2), 2, True),  # the broker gave it between the others
        ((3, 1, 2), 2, True),
        ((1, 2, 3), 2, False),
        ((1, 3, 2, 2), 2, False),  # two of one count: one of them is wrong
    ],
)
def test_a_count_below_one_before_it_was_polled_late(counts: tuple[int, ...], row: int, late: bool) -> None:
    assert acquired(*counts).is_polled_late(row, np.arange(len(counts))) is late


def test_a_refused_acknowledgement_says_that_a_record_was_polled_late() -> None:
    rows = np.arange(2)
    assert acquired(1, 2, acks={1: (RELEASE, REFUSED)}).is_polled_late(1, rows)
    assert not acquired(1, 2, acks={1: (RELEASE, OK)}).is_polled_late(1, rows)
    assert not acquired(1, 2, acks={0: (RELEASE, REFUSED)}).is_polled_late(1, rows)


@pytest.mark.parametrize(("after_us", "led"), [(4, False), (5, True), (60, True), (61, False)])
def test_a_leader_is_new_for_sure_once_the_observer_cannot_have_seen_it_late(after_us: int, led: bool) -> None:
    assert acquired(1, leader_changes=(0, LATE_US + after_us)).is_led_between(5, LATE_US + 60) is led


@pytest.mark.parametrize(
    ("at_us", "may"), [(-1, False), (0, True), (9 * SECOND + LATE_US, True), (9 * SECOND + LATE_US + 1, False)]
)
def test_a_leader_since_the_send_may_have_reset_a_count(at_us: int, may: bool) -> None:
    assert acquired(1, leader_changes=(at_us,)).may_reset(np.arange(1), 9 * SECOND) is may


def test_the_end_of_one_member_of_several_may_have_reset_a_count() -> None:
    ended = (NEVER_US, 5 * SECOND)
    assert acquired(1, 2, members=(0, 1), ended_us=ended).may_reset(np.arange(2), 9 * SECOND)
    assert not acquired(1, 2, members=(0, 0), ended_us=ended).may_reset(np.arange(2), 9 * SECOND)


@pytest.mark.parametrize(
    ("span", "disturbed"), [((1, 4), False), ((1, 5), True), ((9, 12), True), ((10, 12), False), ((6, 7), True)]
)
def test_a_fault_disturbs_what_it_overlaps(span: tuple[int, int], disturbed: bool) -> None:
    assert acquired(1, disturbed=(span, (20, 30))).is_disturbed(5, 9) is disturbed


def sides(*places: tuple[int, int]) -> Columns:
    """Rows of member and ordinal."""
    found = np.array(places, np.int64).reshape(-1, 2)
    return {"member": found[:, 0], "ordinal": found[:, 1]}


def test_an_acknowledgement_belongs_to_the_acquisition_of_the_same_member() -> None:
    assert _matches(sides((1, 0), (0, 1)), sides((0, 1))).tolist() == [NONE, 0]
    assert _matches(sides((0, 1)), sides((1, 0), (0, 1))).tolist() == [1]


def test_acknowledgements_without_an_acquisition_belong_to_none() -> None:
    assert _matches(sides(), sides((0, 1))).tolist() == []
    assert _matches(sides((0, 1)), sides()).tolist() == [NONE]


def test_only_a_confirmed_release_lets_the_next_lock_begin() -> None:
    rows = np.arange(3)
    released = (RELEASE, OK)
    assert shares._earliest(acquired(1, 2, 3, acks={0: released}), rows) == 3 * SECOND // 2
    assert shares._earliest(acquired(1, 2, 3, acks={0: (RELEASE, REFUSED)}), rows) == 0
    assert shares._earliest(acquired(1, 2, 3, acks={2: released}), rows) == 0  # the second row has no acknowledgement


def test_an_offset_that_a_fault_deleted_sets_the_group_back_to_the_begin() -> None:
    for offset, back in ((None, True), (7, True), (8, False)):
        changes = [SimpleNamespace(offset=lambda topic, partition, to=offset: to)]
        assert shares._set_back(acquired(1, changes_between=lambda *times, c=changes: c), 0, 0) is back


@pytest.mark.parametrize(("ended", "may"), [(0, (False, True, True)), (1, (True, True, True))])
def test_a_record_may_be_archived_once_all_its_locks_may_have_expired(ended: int, may: tuple[bool, ...]) -> None:
    """The delivery limit is 2, and a lock lasts 10 s; the drive ends at 30 s."""
    block: Any = SimpleNamespace(
        group=SimpleNamespace(lock_us=10 * SECOND, limit=2),
        facts=SimpleNamespace(shares=SimpleNamespace(end_us=30 * SECOND)),
        ended_members=lambda since_us, until_us: np.full(len(since_us), ended),
    )
    written_us = np.array([10 * SECOND + 1, 10 * SECOND, NONE])
    assert tuple(shares._may_be_archived(block, written_us).tolist()) == may
