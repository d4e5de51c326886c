"""Unit: which commit is in force, and what the rules of commits ask about a group, its members and its settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from checks.audit.facts.offset_changes import OffsetChange
from checks.audit.findings import UNDECIDED
from checks.audit.rules import commits

MINUTE_US = 60_000_000
GONE = OffsetChange("", "g", 10 * MINUTE_US, 10 * MINUTE_US, True, {"orders/0": None}, lost_offset=5)


def asked_in_force(*times: tuple[int, int]) -> dict[int, int]:
    """Return for each commit the one in force when it was requested. times: of request and answer."""
    begins, ends = (np.array(side, np.int64) for side in zip(*times, strict=True))
    asked, force = commits._in_force(begins, ends, np.arange(len(times)), ["c"] * len(times))
    return dict(zip(asked.tolist(), force.tolist(), strict=True))


def test_the_commit_in_force_is_the_one_requested_last_of_those_with_an_answer() -> None:
    assert asked_in_force((10, 12), (0, 15), (13, 30)) == {2: 0}
    assert asked_in_force((10, 12), (0, 15), (16, 30)) == {2: 0}, "the later answer is of an earlier request"
    assert asked_in_force((0, 12), (10, 15), (16, 30)) == {2: 1}
    assert asked_in_force((0, 12), (10, 15), (13, 30)) == {2: 0}


def test_a_commit_without_an_epoch_is_explained_by_none() -> None:
    block: Any = SimpleNamespace(epoch_of=lambda committer: None)
    maker: Any = SimpleNamespace(mode="assign")
    assert not commits._began_below(block, maker, maker, 0)


def run_of(config: dict[str, Any] | None = None, **changes: list[tuple[int, Any]]) -> Any:
    """Return a run. config: of the brokers. changes: what the observer saw of the group or its offset, by key."""
    return SimpleNamespace(
        scenario=SimpleNamespace(cluster=SimpleNamespace(config=config or {}), unasked=False, readers=[]),
        observed=SimpleNamespace(changes=lambda entity, key: changes.get(key, [])),
        readers=[],
    )


def reader_of(*topics: str, mode: str = "subscribe") -> Any:
    """Return a reader with an entry for each topic."""
    return SimpleNamespace(mode=mode, entries=[SimpleNamespace(topics=[topic]) for topic in topics])


@pytest.mark.parametrize(
    ("topics", "members", "subscribed"),
    [
        (["orders"], [], True),
        (["orders", "bills"], [], False),  # some member may subscribe to bills alone
        (["orders", "bills"], [{"topics": ["bills"]}, {"topics": ["orders"]}], True),
        (["orders", "bills"], [{"topics": ["bills"]}, {"topics": None}], False),
    ],
)
def test_a_group_subscribes_to_a_topic_if_all_entries_do_or_one_member_did(
    topics: list[str], members: list[dict[str, Any]], subscribed: bool
) -> None:
    run = run_of(members=[(GONE.to_us, members)])
    assert commits._is_subscribed(run, GONE, reader_of(*topics)) is subscribed


@pytest.mark.parametrize(("in_log", "cause"), [(None, UNDECIDED), (False, "lost_commit"), (True, commits.NOT_LOST)])
def test_an_offset_that_was_seen_again_is_lost_only_if_its_log_is_known_to_lack_it(
    in_log: bool | None, cause: str
) -> None:
    change = OffsetChange("", "g", 1, 2, True, {"orders/0": 3}, lost_offset=5, interrupted=True, in_log=in_log)
    assert commits._cause(run_of(committed=[(3, 5)]), change, reader_of("orders")) == cause


@pytest.mark.parametrize(
    ("config", "minutes"),
    [({}, 7 * 24 * 60), ({"offsets.retention.minutes": 3}, 3), ({"offsets.retention.minutes": "x"}, 1)],
)
def test_offsets_expire_after_the_time_that_the_brokers_have(config: dict[str, Any], minutes: int) -> None:
    assert commits._shortest_retention_us(run_of(config)) == minutes * MINUTE_US


def test_the_reader_of_a_group_is_one_that_commits() -> None:
    run = run_of()
    names = (("a", "assign", True), ("b", "subscribe", False), ("c", "subscribe", True), ("d", "subscribe", True))
    run.readers = [SimpleNamespace(group="g", name=name, mode=mode, commits=some) for name, mode, some in names]
    found = commits._reader(run, "g")
    assert found is not None and found.name == "c"
    run.readers = run.readers[1:2]
    assert commits._reader(run, "g") is None


@pytest.mark.parametrize(
    ("old", "new", "end", "took"),
    [
        (1, 2, "open", True),
        (2, 1, "revoked", False),
        (None, 2, "open", False),
        (None, 2, "revoked", True),  # without a generation, what the member says decides
        (1, None, "lost", True),
        (1, None, "open", False),
    ],
)
def test_a_member_took_over_by_its_generation_or_after_the_other_gave_up(
    old: int | None, new: int | None, end: str, took: bool
) -> None:
    def epoch(member: str, generation: int | None, **more: Any) -> Any:
        return SimpleNamespace(member=member, turn=0, generation=generation, group="g", **more)

    block: Any = SimpleNamespace(facts=SimpleNamespace(offset_changes=()))
    before = epoch("a", old, begin_us=1, end_us=5, end_reason=end)
    after = epoch("b", new, begin_us=6, rejoined=lambda other: False)
    assert commits._took_over(block, before, after) is took
