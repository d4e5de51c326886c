"""Decisions on commits with an outcome that the client did not learn, with the reason where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from chaos.ledger.schemas import COMMIT_LOG
from checks.audit.facts.commit_log import (
    CLOCK_US,
    CLOCKS_APART,
    COMMIT_IN_OPEN_TRANSACTION,
    COMMIT_OF_DELETED_TOPIC,
    COMMIT_SHARED,
    COMMIT_WITHOUT_RECORD,
    IN_FLIGHT_US,
    SAME_CLOCK_US,
    Acknowledged,
    Attempt,
    CommitLog,
    Decider,
    Decision,
    Decisions,
    Writer,
    writers_without_row,
)
from checks.audit.facts.epochs import Committer, Life
from checks.audit.facts.offset_changes import OffsetChange
from checks.audit.findings import Reason

SECOND = 1_000_000
PLACE = ("billing", "orders", 0)
ME, OTHER = (Committer(f"billing/{n}", 1, 1, "subscribe", "billing") for n in (1, 2))
LOST = Attempt(ME, "orders", 0, 17, "sync", "unknown", 10 * SECOND, 11 * SECOND)
IN_TIME = {"billing": Acknowledged(in_time=1)}


def record(at_us: int = 10 * SECOND, offset: int | None = 17, **more: Any) -> dict[str, Any]:
    row = {"group": "billing", "topic": "orders", "partition": 0, "offset": offset, "appended_us": at_us}
    return row | {"transaction": None, "ended_us": None} | more


def decider(*records: dict[str, Any], whole: bool = True, error: str | None = None, **more: Any) -> Decider:
    log = CommitLog(
        pa.Table.from_pylist(list(records), COMMIT_LOG), [{"group": "billing", "whole": whole, "error": error}]
    )
    known: dict[str, Any] = {"writers": {}, "offset_changes": [], "seen": frozenset(), "deleted": frozenset()}
    return Decider(log, **(known | {"one_clock": True} | more))


def outcome(found: Decisions, attempt: Attempt = LOST) -> Decision | Reason:
    if attempt in found.of:
        return found.of[attempt]
    ((reader, reason),) = found.undecided
    assert reader == "billing"
    return reason


def decided(of: Decider, *others: Attempt, acknowledged: Any = None) -> Decision | Reason:
    return outcome(of.decide([LOST, *others], IN_TIME if acknowledged is None else acknowledged))


def test_a_record_carries_it_out() -> None:
    assert decided(decider(record())) == Decision("ok", 11 * SECOND)


def test_a_record_after_the_answer_was_due_is_the_time_of_the_commit() -> None:
    assert decided(decider(record(14 * SECOND))) == Decision("ok", 14 * SECOND + SAME_CLOCK_US)
    elsewhere = decider(record(14 * SECOND), one_clock=False)
    assert decided(elsewhere) == Decision("ok", 14 * SECOND + CLOCK_US)


@pytest.mark.parametrize("others", [[], [record(offset=18)], [record(9 * SECOND)]])
def test_without_a_record_it_failed(others: list[dict[str, Any]]) -> None:
    assert decided(decider(*others)) == Decision("fail", 11 * SECOND)


def test_without_a_record_it_is_undecided_if_the_log_may_have_lost_one() -> None:
    assert decided(decider(whole=False)) is COMMIT_WITHOUT_RECORD
    assert decided(decider(seen=frozenset({(PLACE, 17)}))) is COMMIT_WITHOUT_RECORD
    lacking = {"billing": Acknowledged(without_record=1, in_time=1)}
    assert decided(decider(), acknowledged=lacking) is COMMIT_WITHOUT_RECORD


@pytest.mark.parametrize("kind", ["sync", "auto"])
def test_a_record_within_another_commit_is_undecided(kind: str) -> None:
    ok = LOST._replace(committer=OTHER, kind=kind, outcome="ok")
    assert decided(decider(record(), record()), ok) is COMMIT_SHARED
    later = ok._replace(requested_us=12 * SECOND, completed_us=13 * SECOND)
    expected = COMMIT_SHARED if kind == "auto" else Decision("ok", 11 * SECOND)
    assert decided(decider(record(), record()), later) == expected


def test_two_commits_without_an_answer_are_both_undecided() -> None:
    twice = decider(record(), record()).decide([LOST, LOST], IN_TIME)
    assert not twice and twice.undecided == {("billing", COMMIT_SHARED): 2}


def test_one_record_for_each_acknowledged_commit_leaves_none_for_another() -> None:
    ok = LOST._replace(committer=OTHER, outcome="ok")
    assert decided(decider(record()), ok) == Decision("fail", 11 * SECOND)
    assert decided(decider(record(), record()), ok) is COMMIT_SHARED, "a request may have been repeated"
    assert decided(decider(record(), whole=False), ok) is COMMIT_SHARED
    assert decided(decider(record()), ok._replace(kind="auto")) is COMMIT_SHARED


def test_a_commit_of_another_partition_or_offset_does_not_matter() -> None:
    elsewhere = [LOST._replace(committer=OTHER, partition=1), LOST._replace(committer=OTHER, offset=18)]
    others = [a._replace(outcome="ok") for a in elsewhere]
    assert decided(decider(record()), *others) == Decision("ok", 11 * SECOND)


@pytest.mark.parametrize(("offsets", "shared"), [(None, True), ({"orders/0": 17}, True), ({"orders/1": 17}, False)])
def test_a_fault_may_have_written_it(offsets: dict[str, int | None] | None, shared: bool) -> None:
    change = OffsetChange("reset", "billing", 10 * SECOND, 10 * SECOND, True, offsets)
    assert (decided(decider(record(), offset_changes=[change])) is COMMIT_SHARED) == shared
    assert decided(decider(record(), offset_changes=[replace(change, group="other")])) == Decision("ok", 11 * SECOND)


def test_a_member_without_a_row_may_have_written_it() -> None:
    dead = Writer(("billing/2", 1), 0, 5 * SECOND)
    assert decided(decider(record(), writers={PLACE: [dead]})) is COMMIT_SHARED
    long_ago = dead._replace(end_us=10 * SECOND - IN_FLIGHT_US - 1)
    assert decided(decider(record(), writers={PLACE: [long_ago]})) == Decision("ok", 11 * SECOND)
    itself = dead._replace(member=("billing/1", 1))
    assert decided(decider(record(), writers={PLACE: [itself]})) == Decision("ok", 11 * SECOND)


@pytest.mark.parametrize(
    ("transaction", "expected"),
    [
        ("committed", Decision("ok", 12 * SECOND + SAME_CLOCK_US)),
        ("aborted", Decision("fail", 11 * SECOND)),
        ("open", COMMIT_IN_OPEN_TRANSACTION),
    ],
)
def test_the_end_of_a_transaction_decides(transaction: str, expected: Decision | Reason) -> None:
    attempt = LOST._replace(kind="transaction")
    log = decider(record(transaction=transaction, ended_us=None if transaction == "open" else 12 * SECOND))
    assert outcome(log.decide([attempt], IN_TIME), attempt) == expected
    assert decided(log) == Decision("fail", 11 * SECOND), (
        "a commit outside of transactions does not write such a record"
    )


def test_clocks_that_differ_decide_nothing() -> None:
    assert decided(decider(record()), acknowledged={"billing": Acknowledged(in_time=9, apart=1)}) is CLOCKS_APART
    assert decided(decider(record(), one_clock=False), acknowledged={"other": Acknowledged(in_time=1)}) is CLOCKS_APART
    assert decided(decider(record()), acknowledged={}) == Decision("ok", 11 * SECOND)


def test_commits_of_deleted_topics_are_undecided() -> None:
    assert decided(decider(record(), deleted=frozenset({"orders"}))) is COMMIT_OF_DELETED_TOPIC


def test_a_log_that_was_not_read_says_why() -> None:
    refused = decided(decider(record(), error="the user may not read it"))
    assert isinstance(refused, Reason) and "was not read back (the user may not read it)" in refused.why
    of_older_release = decided(Decider(CommitLog(), {}, [], frozenset(), frozenset(), True))
    assert isinstance(of_older_release, Reason) and of_older_release.why.endswith("was not read back")


def test_members_that_stopped_in_order_have_all_rows_unless_they_commit_automatically() -> None:
    lives = {(f"billing/{n}", 1): Life("consumer", 0, 9, end) for n, end in ((1, "stopped"), (2, "crashed"))}
    row = {"event": "assigned", "mode": "subscribe", "group": "billing", "topic": "orders", "partition": 0, "at_us": 5}
    rows = [row | {"consumer": f"billing/{n}", "incarnation": 1} for n in (1, 2, 3)]
    found = writers_without_row(rows, lives, frozenset())
    assert [(w.member[0], w.begin_us, w.end_us) for w in found[PLACE]] == [
        ("billing/2", 5, 9),
        ("billing/3", 5, 1 << 62),
    ]
    assert len(writers_without_row(rows, lives, frozenset({"billing"}))[PLACE]) == 3
    assert writers_without_row([r | {"event": "revoked"} for r in rows], lives, frozenset()) == {}


def test_the_records_that_are_not_aborted_are_in_order_by_place() -> None:
    rows = [record(9, 18), record(7, 17), record(8, 17), record(6, None), record(5, 17, partition=1)]
    rows += [record(1, 16, transaction="aborted"), record(2, 19, transaction="committed"), record(3, 20, group="other")]
    log = CommitLog(pa.Table.from_pylist(rows, COMMIT_LOG))
    found = {place: (o.tolist(), t.tolist()) for place, (o, t) in log.committed(["billing"]).items()}
    assert found == {PLACE: ([17, 17, 18, 19], [7, 8, 9, 2]), ("billing", "orders", 1): ([17], [5])}
    assert CommitLog().committed(["billing"]) == {}
    assert [r.appended_us for r in log.records([17])[PLACE, 17]] == [7, 8]
