"""Rules of small tables on rows by hand: what no story shows, because all stories are audited as one run.

That is the quorum, the end of the drive, how many rows a rule examined, and cases that differ in one field.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chaos.kafka.partition import group_partition
from chaos.ledger.schemas import INPUT_COLUMNS
from checks.audit.arrays import NONE
from checks.audit.engine.counters import TRANSACTION_WRITERS
from checks.audit.engine.cut import columns_of
from checks.audit.engine.tally import FINDINGS, Tally
from checks.audit.facts.epochs import Epoch, Epochs
from checks.audit.facts.observed import OFFSETS_TOPIC, Observed
from checks.audit.facts.offset_changes import BY_FAULT
from checks.audit.facts.readers import Entry, Reader
from checks.audit.facts.starts import CommittedOffsets, sightings
from checks.audit.findings import UNDECIDED
from checks.audit.rules import groups, quorum, shares, transactions

SECOND = 1_000_000
Answer = tuple[int, int, int, int]
"""Controller, epoch, time of the first answer as active, time of the last request that was answered so."""


def rows_of(*answers: Answer) -> list[dict[str, Any]]:
    rows = []
    for controller, epoch, begun, asked in answers:
        last = json.dumps({"epoch": epoch, "asked_us": asked})
        for at_us, key, value in ((begun, "active", str(epoch)), (asked + 10, "active_last", last)):
            rows.append({"at_us": at_us, "entity": f"controller:{controller}", "key": key, "value": value})
        rows.append({"at_us": asked + 11, "entity": f"controller:{controller}", "key": "active", "value": "null"})
    return sorted(rows, key=lambda r: r["at_us"])


def judged(rows: list[dict[str, Any]], **config: Any) -> tuple[list[dict[str, Any]], int]:
    """Return the evidence of each finding, and the number of terms examined."""
    scenario = SimpleNamespace(cluster=SimpleNamespace(config=config))
    run: Any = SimpleNamespace(observed=Observed(rows, 100 * SECOND), scenario=scenario, last_fault=lambda at_us: "cut")
    tally = Tally()
    quorum.competing_controllers(run, tally)
    counts = [count for _, (count, _) in tally.each(FINDINGS)]
    found = [row for _, (_, shown) in tally.each(FINDINGS) for row in shown]
    assert sum(counts) == len(found)
    return [json.loads(row["evidence"]) for row in found], tally.count(quorum.TERMS, quorum.SCOPE)


FIRST, LATER = (101, 1, SECOND, 5 * SECOND), (102, 2, 3 * SECOND, 9 * SECOND)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([FIRST, LATER], 0),  # together for exactly the fetch timeout
        ([(101, 1, SECOND, 5 * SECOND + 1), LATER], 1),
        ([(101, 1, SECOND, 3 * SECOND), LATER], 0),
        ([(101, 2, SECOND, 3 * SECOND + 1), LATER], 1),  # one epoch
        ([FIRST, (101, 3, 20 * SECOND, 30 * SECOND), (102, 2, 9 * SECOND, 19 * SECOND)], 0),
        ([(101, 1, SECOND, 9 * SECOND), LATER, (103, 3, 5 * SECOND, 9 * SECOND)], 2),
        ([FIRST], 0),
        ([], 0),
    ],
)
def test_a_controller_beside_a_later_one_for_too_long_is_found(answers: list[Answer], found: int) -> None:
    evidence, examined = judged(rows_of(*answers))
    assert (len(evidence), examined) == (found, len(answers))


def test_the_limit_is_the_fetch_timeout_of_the_quorum() -> None:
    rows = rows_of((101, 1, SECOND, 8 * SECOND), LATER)
    (evidence,), _ = judged(rows)
    assert evidence == {
        **{"controller": 101, "epoch": 1, "other": 102, "other_epoch": 2},
        **{"together_us": 5 * SECOND, "limit_us": 2 * SECOND, "fault": "cut"},
    }
    said = quorum.RULES["competing_controllers"].explain({}, evidence, None)
    assert said == "controller 101 answered as active in epoch 1 until 5.0 s after controller 102 was active in epoch 2"
    assert judged(rows, **{"controller.quorum.fetch.timeout.ms": 5000})[0] == []
    assert len(judged(rows, **{"controller.quorum.fetch.timeout.ms": 4999})[0]) == 1


def test_two_controllers_of_one_epoch_are_named_with_it() -> None:
    (evidence,), _ = judged(rows_of((101, 2, SECOND, 3 * SECOND + 1), LATER))
    said = quorum.RULES["competing_controllers"].explain({}, evidence, None)
    assert said == "controllers 101 and 102 were both active in epoch 2"


def test_the_first_of_several_later_controllers_is_the_one_that_is_named() -> None:
    later = [(103, 3, 4 * SECOND, 5 * SECOND), (102, 2, 3 * SECOND, 3 * SECOND + 1)]
    (evidence,), _ = judged(rows_of((101, 1, SECOND, 9 * SECOND), *later))
    assert (evidence["other"], evidence["other_epoch"]) == (102, 2)


def test_a_term_is_one_only_if_it_began_no_later_than_it_was_seen_to_end() -> None:
    """The watcher may see a controller for the first time with its end, and may see no first answer at all."""
    entity, last = {"entity": "controller:101"}, json.dumps({"epoch": 1, "asked_us": 5 * SECOND})
    end = entity | {"at_us": 5 * SECOND, "key": "active_last", "value": last}
    for begun, terms in ((5 * SECOND, 1), (5 * SECOND + 1, 0), (None, 0)):
        begin = [] if begun is None else [entity | {"at_us": begun, "key": "active", "value": "1"}]
        assert judged([*begin, end]) == ([], terms)


def test_a_controller_may_be_active_more_than_once() -> None:
    twice = [(101, 1, SECOND, 2 * SECOND), (101, 4, 20 * SECOND, 30 * SECOND)]
    assert judged(rows_of(*twice, (102, 3, 10 * SECOND, 19 * SECOND))) == ([], 3)
    assert judged(rows_of((101, 1, SECOND, 5 * SECOND), (101, 2, SECOND + 10, 9 * SECOND)))[0] == []


def test_a_term_begins_with_the_last_first_answer_in_its_epoch_before_its_end() -> None:
    earlier = (101, 1, SECOND, 13 * SECOND)
    next_epoch = rows_of(earlier, (102, 2, 10 * SECOND, 19 * SECOND), (102, 3, 18 * SECOND, 30 * SECOND))
    assert judged(next_epoch)[0][0]["together_us"] == 3 * SECOND
    later = rows_of(earlier, (102, 2, 10 * SECOND, 12 * SECOND), (102, 2, 20 * SECOND, 30 * SECOND))
    assert judged(later)[0][0]["together_us"] == 3 * SECOND
    later.remove(next(row for row in later if row["key"] == "active_last" and row["at_us"] == 12 * SECOND + 10))
    assert judged(later) == ([], 2)


# --- what the observer saw of groups and transactions

END_US = 100 * SECOND
Seen = tuple[float, str, str, Any]
"""Second, entity, key, value."""


def found_in(rule: Callable[[Any, Tally], None], seen: list[Seen], **run: Any) -> tuple[int, int, int]:
    """Return the number of findings, of undecided rows, and of rows examined."""
    rows = [{"at_us": int(s * SECOND), "entity": e, "key": k, "value": json.dumps(v)} for s, e, k, v in seen]
    tally, found = Tally(), {"": 0, UNDECIDED: 0}
    tally.merge(survey := run.pop("survey", Tally()))
    scenario = SimpleNamespace(with_unseen_transactions=run.pop("unseen", ()))
    rule(SimpleNamespace(observed=Observed(rows, END_US), survey=survey, scenario=scenario, **run), tally)
    for (_, split, _), (count, _) in tally.each(FINDINGS):
        found[split] += count
    counted = (groups.COORDINATORS, groups.SETTLED, transactions.STABLE_OFFSETS)
    return found[""], found[UNDECIDED], sum(n for total in counted for _, n in tally.each(total))


GROUP = "group:g"
PLACE = f"{OFFSETS_TOPIC}/{group_partition('g', 50)}"
LED_BY_1: list[Seen] = [(0, OFFSETS_TOPIC, "partitions", 50), (0, PLACE, "leader", 1)]


def coordinators(*changes: tuple[float, int, bool]) -> list[Seen]:
    """Second, coordinator, and whether the sample of the group was late."""
    return [row for s, by, late in changes for row in ((s, GROUP, "late", late), (s, GROUP, "coordinator", by))]


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (coordinators((1, 2, False), (4, 1, False)), (1, 0, 2)),
        (coordinators((1, 2, False), (2.9, 1, False)), (0, 0, 2)),
        (coordinators((1, 1, False), (99, 2, False)), (0, 1, 2)),  # had just begun at the end of the drive
        (coordinators((1, 1, False), (97, 2, False)), (1, 0, 2)),
        (coordinators((1, 2, False), (2, 2, True), (5, 1, False)), (0, 0, 3)),
        (coordinators((1, 2, True), (5, 3, True), (9, 2, False), (9.1, 1, False)), (1, 0, 4)),
        (coordinators((1, -1, False), (9, 1, False)), (0, 0, 2)),
        (coordinators((1, 0, False), (9, 1, False)), (1, 0, 2)),  # a broker may have the number 0
        ([*coordinators((1, 1, False)), (5, PLACE, "leader", -1), (9, PLACE, "leader", 1)], (0, 0, 1)),
        ([], (0, 0, 0)),
    ],
)
def test_a_coordinator_that_is_not_the_leader(seen: list[Seen], found: tuple[int, int, int]) -> None:
    readers = [SimpleNamespace(group="g")]
    assert found_in(groups.misplaced_coordinator, [*LED_BY_1, *seen], readers=readers) == found


def stable(*changes: tuple[float, int, int]) -> list[Seen]:
    """Second, last stable offset and end."""
    return [
        row for s, lso, end in changes for row in ((s, "t/0", "end_offset", end), (s, "t/0", "last_stable_offset", lso))
    ]


def transaction(began_s: float, ended_s: float, outcome: str = "committed") -> dict[str, Any]:
    who = {"producer": "p/1", "incarnation": 1, "outcome": outcome}
    return who | {"began_us": int(began_s * SECOND), "ended_us": int(ended_s * SECOND)}


@pytest.mark.parametrize(
    ("seen", "ended", "found"),
    [
        (stable((1, 0, 5), (20, 5, 5)), [], 1),
        (stable((1, 0, 5), (11, 5, 5)), [], 0),
        (stable((1, 5, 5), (97, 0, 5)), [], 1),  # to the end of the drive
        (stable((1, 5, 5), (97, 0, 5)), [transaction(96, 100)], 0),
        (stable((1, 0, 5), (13, 5, 5)), [transaction(6, 12)], 1),  # began when it had stopped
        (stable((1, 0, 5), (13, 5, 5)), [transaction(1, 12)], 0),  # began as it stopped
        (stable((6, 0, 5), (14, 5, 5)), [transaction(0, 2)], 0),
        (stable((6, 0, 5), (18, 5, 5)), [transaction(5, 7), transaction(5, 14)], 0),
        (stable((6, 0, 5), (18, 5, 5)), [transaction(5, 7), transaction(5, 14, "unknown")], 1),
    ],
)
def test_a_last_stable_offset_below_the_end(seen: list[Seen], ended: list[dict[str, Any]], found: int) -> None:
    survey = Tally()
    survey.add(TRANSACTION_WRITERS, value={("t", 0, "p/1", 1)})
    judge = transactions.hanging_transaction
    assert found_in(judge, seen, transactions=ended, survey=survey) == (found, 0, len(seen) // 2)
    assert found_in(judge, seen, transactions=ended, survey=survey, unseen={"t"}) == (0, 0, 0)


def members(*held: str, topics: list[str] | None) -> list[dict[str, Any]]:
    of_both = zip(("a/1", "b/1"), held, strict=True)
    return [{"client_id": who, "partitions": [f"t/{p}" for p in n], "topics": topics} for who, n in of_both]


@pytest.mark.parametrize(
    ("assignor", "held", "more", "found"),
    [
        ("range", members("01", "2", topics=["t"]), [], (0, 0, 1)),
        ("range", members("012", "3", topics=["t"]), [], (1, 0, 1)),
        ("range", members("0", "", topics=["t"]), [], (0, 0, 1)),
        ("range", members("02", "13", topics=["t"]), [], (1, 0, 1)),  # no neighbours
        ("range", members("012", "3", topics=[]), [], (1, 0, 1)),  # they hold what they no longer subscribe to
        ("range", members("012", "3", topics=None), [], (1, 0, 1)),
        ("", members("012", "3", topics=["t"]), [], (1, 0, 1)),
        ("", members("012", "3", topics=None), [], (0, 1, 1)),  # entries whose share is not known
        ("range", members("012", "3", topics=["t"]), [(1, GROUP, "answers", False)], (0, 0, 0)),
        ("range", members("012", "3", topics=["t"]), [(1, GROUP, "state", "Empty")], (0, 0, 0)),
        ("range", [], [], (0, 0, 0)),
    ],
)
def test_partitions_that_a_settled_group_spreads(
    assignor: str, held: list[dict[str, Any]], more: list[Seen], found: tuple[int, int, int]
) -> None:
    entries = tuple(Entry(name, ("t",), assignors=("roundrobin",)) for name in ("a", "b"))
    reader = Reader("g", "subscribe", "g", ("t",), 2, "latest", "", commits=True, assignor=assignor, entries=entries)
    seen: list[Seen] = [(1, GROUP, "state", "Stable"), (1, GROUP, "members", held), *more]
    assert found_in(groups.unbalanced_assignment, seen, readers=[reader]) == found


# --- epochs


def owned(consumer: str, begin_us: int, end_us: int, end: str = "revoked", **more: Any) -> Epoch:
    fields: dict[str, Any] = {"group": "g", "member_id": None, "generation": None, "source": None, "position": None}
    fields |= {"reader": "g", "mode": "subscribe"} | more
    return Epoch(
        consumer=consumer,
        incarnation=1,
        assignment=1,
        topic="t",
        partition=0,
        begin_us=begin_us,
        end_us=end_us,
        end_reason=end,
        **fields,
    )


def found_of(rule: Callable[[Any, Tally], None], *epochs: Epoch, **run: Any) -> tuple[int, int]:
    """Return the number of findings, and of epochs whose begin was examined."""
    tally, facts = Tally(), SimpleNamespace(epochs=Epochs(epochs), offset_changes=())
    rule(SimpleNamespace(facts=facts, **run), tally)
    return sum(count for _, (count, _) in tally.each(FINDINGS)), sum(n for _, n in tally.each(groups.BEGUN))


@pytest.mark.parametrize("end", ["revoked", "lost", "crashed", "open", "deleted"])
def test_an_owner_that_cannot_know_that_another_began_is_no_second_owner(end: str) -> None:
    earlier, later = owned("c/1", 10, 30, end), owned("c/2", 20, 40)
    assert found_of(groups.double_ownership, earlier, later)[0] == (end == "revoked")
    assert found_of(groups.double_ownership, owned("c/1", 10, 20, end), later)[0] == 0
    each_alone = (owned("c/1", 10, 30, end, mode="assign"), owned("c/2", 20, 40, mode="assign"))
    assert found_of(groups.double_ownership, *each_alone)[0] == 0


@pytest.mark.parametrize(
    ("mode", "source", "position", "committers", "own", "found"),
    [
        ("assign", "committed", 5, {("b", "assign")}, None, (1, 1)),
        ("assign", "committed", 5, {("b", "assign")}, 3, (1, 1)),
        ("assign", "committed", 5, {("b", "assign")}, 5, (0, 1)),
        ("assign", "committed", 5, {("b", "assign"), ("a", "assign")}, 3, (0, 1)),
        ("assign", "committed", 5, {("a", "assign")}, 5, (0, 1)),
        ("assign", "committed", 5, {("b", "assign"), ("f", BY_FAULT)}, None, (0, 1)),
        ("assign", "seek", 5, {("b", "assign")}, None, (0, 1)),
        ("assign", "committed", 6, {("b", "assign")}, None, (0, 1)),
        ("assign", "committed", None, {("b", "assign")}, None, (0, 0)),
        ("assign", None, 5, {("b", "assign")}, None, (0, 0)),
        ("subscribe", "committed", 5, {("b", "assign")}, None, (1, 1)),
        ("subscribe", "committed", 5, {("b", "assign")}, 5, (1, 1)),
        ("subscribe", "committed", 5, {("b", "subscribe")}, None, (0, 1)),
        ("subscribe", "committed", 5, {("b", "assign"), ("c", "subscribe")}, None, (0, 1)),
    ],
)
def test_who_committed_the_offset_at_which_an_epoch_began(
    mode: str,
    source: str | None,
    position: int | None,
    committers: set[tuple[str, str]],
    own: int | None,
    found: tuple[int, int],
) -> None:
    began = owned("a", 10, 20, mode=mode, source=source, position=position)
    committed = {0: CommittedOffsets(committers={5: committers}, own=own)}
    assert found_of(groups.foreign_commit, began, committed=committed) == found


# --- share groups with settings that are not known


@pytest.mark.parametrize(
    ("rule", "known", "counts", "found"),
    [
        (shares.lock_overrun, {"lock_us": None}, (1, 2), (0, 1)),
        (shares.lock_overrun, {"lock_us": None}, (1,), (0, 0)),
        (shares.overlimit_share, {"limit": None}, (1, 2, 3), (0, 2)),
        (shares.overlimit_share, {"limit": 2}, (1, 2), (0, 0)),
    ],
)
def test_what_depends_on_a_setting_of_the_brokers_that_is_not_known(
    rule: Callable[[Any, Tally], None], known: dict[str, Any], counts: tuple[int, ...], found: tuple[int, int]
) -> None:
    size, tally, reported = len(counts), Tally(), {"": 0, UNDECIDED: 0}
    block: Any = SimpleNamespace(
        name="g",
        group=SimpleNamespace(**known),
        rows={"count": np.array(counts), "acquired_us": np.arange(size) * SECOND},
        ack=np.full(size, NONE),
        repeated=[np.arange(size)] if size > 1 else [],
        is_polled_late=lambda row, rows: False,
    )
    rule(block, tally)
    for (_, split, _), (count, _) in tally.each(FINDINGS):
        reported[split] += count
    assert (reported[""], reported[UNDECIDED]) == found


@pytest.mark.parametrize(
    ("table", "facts", "read", "unread"),
    [
        ("sends", {}, {"seq"}, {"key", "txn"}),
        ("sends", {"compacted": {"orders"}}, {"key"}, {"txn"}),
        ("sends", {"counted": {"counter"}}, {"seq"}, {"key"}),
        ("sends", {"transactions": {1}}, {"txn"}, {"key"}),
        ("log", {}, {"offset"}, {"key", "tombstone", "count", *INPUT_COLUMNS}),
        ("log", {"compacted": {"orders"}}, {"key", "tombstone"}, {"count"}),
        ("log", {"counted": {"counter"}}, {"key", "count"}, {"tombstone"}),
        ("log", {"lineage": {"copy"}}, {*INPUT_COLUMNS}, {"key"}),
        ("deliveries", {}, {"processed_us"}, {"polled_us"}),
        ("deliveries", {"transactions": {1}}, {"polled_us"}, set()),
    ],
)
def test_a_column_is_read_if_something_needs_it(table, facts, read, unread) -> None:
    needs: Any = SimpleNamespace(**dict.fromkeys(("transactions", "compacted", "counted", "lineage"), ()) | facts)
    columns = {*columns_of(table, needs)}
    assert read <= columns and not unread & columns


@pytest.mark.parametrize("group", ["billing", "team/billing", "a/b/3"])
def test_committed_offsets_are_seen_for_groups_with_slashes_in_their_names(group):
    rows = [
        {"at_us": 2 * SECOND, "entity": f"group:{group}/orders/4", "value": "17"},
        {"at_us": SECOND, "entity": f"group:{group}/orders/4", "value": "16"},
        {"at_us": SECOND, "entity": f"group:{group}", "value": "no offset"},
    ]
    assert sightings(rows) == {(group, "orders", 4): [(SECOND, 16), (2 * SECOND, 17)]}
