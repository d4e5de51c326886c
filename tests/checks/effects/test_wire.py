"""What the wire ledger has of a finding: a row that belongs to it, and near misses, each of an instance or id."""

from __future__ import annotations

import pytest

from chaos.ledger.seal import SEAL
from checks.effects.seen import MANY, Wire
from checks.wire.tables import FOLDER
from tests.checks.effects.wire import SCENARIO, whole, write_wire
from tests.support.fake_runs import FakeRun

pytestmark = pytest.mark.spark

AT, ACKED = 100, 50
FOUND = {"kind": "late", "topic": "orders", "partition": 3, "offset": AT, "acked_us": ACKED, "places": ()}


@pytest.fixture
def wire_of(spark, tmp_path):
    def make(*findings, **tables):
        run = FakeRun(tmp_path, SCENARIO).write().run
        write_wire(spark, run, whole(**tables))
        (run.path / FOLDER / SEAL).write_text('{"failure": ""}')
        return Wire(spark, run, findings or [FOUND], ["invoices"], ["billing"])

    return make


def batch(who, first, last, **more):
    """Return a batch of an answer to Fetch, or a range of one to ShareFetch."""
    row = {"instance": f"billing/{who}", "base_offset": first, "last_offset": last, "first_offset": first}
    return row | {"asked_us": 60, "answered_us": 61, "asked_offset": 90} | more


def who(rows):
    return sorted({row["instance"].removeprefix("billing/") for row in rows})


def test_what_was_fetched_and_acquired_of_an_input(wire_of):
    wire = wire_of(
        FOUND,
        FOUND | {"partition": 4},
        FOUND | {"offset": None, "partition": None},
        fetched=[
            batch("in it", 90, 110),
            batch("first", AT, 110, asked_offset=None),
            batch("last", 90, AT, asked_offset=AT),
            batch("before", 90, AT - 1),
            batch("after", AT + 1, 110),
            batch("skips it", 90, 110, asked_offset=AT + 1, answered_us=75),
            batch("marker", 90, 110, control="commit"),
            batch("half", 90, 110, complete=False),
            batch("elsewhere", 90, 110, topic="invoices"),
            batch("other", 90, 110) | {"instance": "audit/1"},
            batch("fourth", 90, 110, partition=4, made=True),
            *(batch("often", 90, 110, asked_us=n, answered_us=n) for n in range(200, 200 + MANY + 2)),
            *(batch("beyond", 150, 160, asked_offset=n, answered_us=n) for n in (77, AT + 1)),
            batch("unanswered", 150, 160, asked_offset=150, answered_us=None, asked_us=1),
            batch("holder", 150, 160, asked_us=40, answered_us=ACKED),
            batch("former", 150, 160, asked_us=40, answered_us=ACKED - 1),
        ],
        acquired=[
            *(batch("share", AT, AT), batch("share before", 90, AT - 1), batch("share after", AT + 1, 110)),
            batch("share elsewhere", 90, 110, topic="invoices"),
        ],
    )
    first, fourth, nowhere = wire.seen()
    assert who(first.fetches) == ["first", "in it", "last", "often", "share"]
    assert [row["answered_us"] for row in first.fetches[-MANY:]] == list(range(200, 200 + MANY))
    assert [(row["asked_offset"], row["made"]) for row in first.fetches if row["instance"] == "billing/share"] == [
        (AT, False)
    ]
    assert first.beyond["instance"] == "billing/skips it" and first.holder["instance"] == "billing/holder"
    assert [(row["instance"], row["made"]) for row in fourth.fetches] == [("billing/fourth", True)]
    assert (fourth.beyond, fourth.holder, nowhere.fetches, nowhere.holder) == (None, None, [], None)


def commit(name, **more):
    row = {"transactional_id": name, "offset": AT + 1, "asked_us": 70, "sent_us": 70}
    return row | {"answered_us": 71} | more


def end(name, at_us, committed=True, error=0, call="EndTxn"):
    committed = committed if call == "EndTxn" else None
    return {"call": call, "transactional_id": name, "asked_us": at_us, "committed": committed, "error": error}


def begin(name, at_us, error=0):
    return end(name, at_us, error=error, call="InitProducerId")


def test_what_was_committed_past_an_input(wire_of):
    """A transaction ends with the first EndTxn without an error, or an InitProducerId aborts it (KIP-98)."""
    ends = {
        "committed": ("ok", [end("committed", 70)]),
        "aborted": ("aborted", [end("aborted", 72, committed=False), end("aborted", 73)]),
        "before it": ("open", [end("before it", 69)]),
        "no end": ("open", []),
        "no answer": ("open", [end("no answer", 72, error=None)]),
        "refused": ("open", [end("refused", 72, error=16)]),
        "asked again": ("ok", [end("asked again", 72, error=16), end("asked again", 74)]),
        "no answer, asked again": (
            "ok",
            [end("no answer, asked again", at_us, error=e) for at_us, e in ((72, None), (74, 0))],
        ),
        "killed": ("aborted", [begin("killed", 75), end("killed", 80)]),
        "killed, not begun": ("ok", [begin("killed, not begun", 75, error=51), end("killed, not begun", 80)]),
        "killed at its end": ("open", [end("killed at its end", 72, error=None), begin("killed at its end", 75)]),
        "killed while aborted": (
            "aborted",
            [end("killed while aborted", 72, committed=False, error=None), begin("killed while aborted", 75)],
        ),
        "tried later": ("aborted", [begin("tried later", 75), end("tried later", 80, error=None)]),
    }
    wire = wire_of(
        commits=[
            *(commit(name) for name in ends),
            *(commit("up to it", offset=AT), commit("not sent", sent_us=None), commit("elsewhere", partition=2)),
            commit(None),
            commit(None, error=22, asked_us=80),
            commit(None, error=None, asked_us=81, answered_us=None),
            commit("refused itself", error=22),
        ],
        transactions=[call for _, calls in ends.values() for call in calls],
    )
    (seen,) = wire.seen()
    assert {row["transactional_id"]: row["state"] for row in seen.commits if row["transactional_id"]} == {
        name: state for name, (state, _) in ends.items()
    } | {"refused itself": "refused"}
    assert [row["state"] for row in seen.commits if not row["transactional_id"]] == ["ok", "refused", "open"]


def test_what_a_member_of_a_share_group_accepted_passed_an_input(wire_of):
    def given(who, types, first=90, last=110, **more):
        return batch(who, first, last, types=types) | more

    wire = wire_of(
        acknowledged=[
            given("one for all", [1]),
            given("released", [2]),
            given("each", [2, 1, 2], AT - 1, AT + 1),
            given("another", [1, 2, 1], AT - 1, AT + 1),
            given("before", [1], 90, AT - 1),
            given("after", [1], AT + 1, 110),
            given("refused", [1], error=22),
            given("open", [1], error=None),
        ]
    )
    (seen,) = wire.seen()
    states = {row["instance"].removeprefix("billing/"): (row["state"], row["offset"]) for row in seen.commits}
    assert states == {
        "one for all": ("ok", AT + 1),
        "each": ("ok", AT + 1),
        "refused": ("refused", AT + 1),
        "open": ("open", AT + 1),
    }
