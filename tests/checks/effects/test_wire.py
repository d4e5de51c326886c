"""What the wire ledger has of a finding: a row that belongs to it, and near misses, each of an instance or id."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.ledger.seal import SEAL
from checks.audit.engine.time_buckets import BUCKET_US
from checks.effects.lanes import write_lanes
from checks.effects.seen import MANY, REJECT, RELEASE, Wire
from checks.effects.tables import INPUTS
from checks.evidence import audit_rows
from checks.wire.tables import FOLDER
from tests.checks.effects.wire import SCENARIO, whole, write_wire
from tests.support.fake_runs import FakeRun

pytestmark = [pytest.mark.spark, pytest.mark.landing]

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


def said(who, call, asked_us, answered_us=None, **more):
    row = {"instance": f"billing/{who}", "call": call, "asked_us": asked_us, "answered_us": answered_us}
    return row | {"owned": None, "generation": 7} | more


def who(rows):
    return sorted({row["instance"].removeprefix("billing/") for row in rows})


WAITS = [("slow", 60, 80), ("quick", 70, 71)]


def test_what_was_fetched_and_acquired_of_an_input(wire_of):
    wire = wire_of(
        FOUND,
        FOUND | {"partition": 4, "kind": "missing"},
        FOUND | {"offset": None, "partition": None},
        FOUND | {"partition": 1, "offset": 0},
        FOUND | {"partition": 2, "offset": 0},
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
            batch("begin", 0, 0, partition=1, asked_offset=None),
            *(
                batch(who, 0, 0, partition=2, asked_us=asked, answered_us=at, asked_offset=0)
                for who, asked, at in WAITS
            ),
            *(batch("often", 90, 110, asked_us=n, answered_us=n) for n in range(200, 200 + MANY + 2)),
            *(batch("beyond", 150, 160, asked_offset=n, answered_us=n) for n in (77, AT + 1)),
            *(batch("beyond", 150, 160, asked_offset=n, answered_us=n) | {"connection": 2} for n in (170, 180)),
            batch("unanswered", 150, 160, asked_offset=150, answered_us=None, asked_us=1),
            batch("holder", 150, 160, asked_us=40, answered_us=ACKED),
            batch("former", 150, 160, asked_us=40, answered_us=ACKED - 1),
        ],
        acquired=[
            *(batch("share", AT, AT), batch("share before", 90, AT - 1), batch("share after", AT + 1, 110)),
            batch("share elsewhere", 90, 110, topic="invoices"),
        ],
    )
    first, fourth, nowhere, begin, waits = wire.seen()
    assert who(begin.fetches) == ["begin"]
    assert [row["instance"] for row in waits.fetches] == ["billing/quick", "billing/slow"], "by the answer"
    assert who(first.fetches) == ["first", "in it", "last", "often", "share"]
    assert [row["answered_us"] for row in first.fetches[-MANY:]] == list(range(200, 200 + MANY))
    assert [(row["asked_offset"], row["made"]) for row in first.fetches if row["instance"] == "billing/share"] == [
        (AT, False)
    ]
    begins = [("skips it", 75), ("beyond", AT + 1), ("beyond", 170)]
    found = [(row["instance"].removeprefix("billing/"), row["answered_us"]) for row in first.begins]
    assert [one for one in found if one[0] in ("skips it", "beyond")] == begins, "one of each connection"
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
        "tried before and after": (
            "open",
            [
                *(end("tried before and after", at_us, error=None) for at_us in (72, 80)),
                begin("tried before and after", 75),
            ],
        ),
        "tried, then aborted": (
            "aborted",
            [end("tried, then aborted", 72, error=None), end("tried, then aborted", 74, committed=False)],
        ),
        "goes on": ("ok", [end("goes on", 72, call="AddPartitionsToTxn"), end("goes on", 74)]),
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
            given("rejected", [3]),
            given("not rejected", [3], error=121),
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
    returned = {row["instance"].removeprefix("billing/"): row["type"] for row in seen.returned}
    assert returned == {"released": RELEASE, "another": RELEASE, "rejected": REJECT}


@pytest.mark.parametrize(("first", "begins"), [(AT + 1, AT + 1), (AT - 20, None)], ids=["behind it", "before it"])
def test_a_share_group_that_never_acquired_an_input_began_behind_it_if_all_that_it_acquired_is(wire_of, first, begins):
    later = batch("later", AT + 5, AT + 9, delivery_count=1, answered_us=59)
    (seen,) = wire_of(acquired=[later, batch("first", first, first + 3, delivery_count=1)]).seen()
    assert not seen.fetches
    assert (seen.beyond and seen.beyond["asked_offset"]) == (begins and AT + 5)


def test_what_the_stories_of_a_run_share(wire_of):
    """Near misses: a send that a later attempt replaced, one without a sequence, one to another topic, a message to a
    group without an answer, records that no fault made, and clients that are no application."""

    def produced(who, sequence, outcome, at_us, **more):
        row = {"instance": f"billing/{who}", "producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        return row | {"topic": "invoices", "outcome": outcome, "asked_us": at_us, "answered_us": at_us + 1} | more

    tables = {
        "produced": [
            *(produced(1, 0, "fail", 20), produced(1, 0, "fail", 22, error=3), produced(1, 5, "fail", 10)),
            *(produced(1, 9, "fail", 5), produced(1, 9, "ok", 6), produced(2, 9, "ok", 7)),
            *(produced(3, 0, "fail", 8, producer_id=None), produced(4, 0, "fail", 8, topic="orders")),
            produced(5, 0, "fail", 8) | {"instance": "audit/1"},
        ],
        "membership": [
            *(said(1, "LeaveGroup", 31), said(1, "LeaveGroup", 30), said(2, "Heartbeat", 30, 31)),
            said(1, "SyncGroup", 23, 24),  # of another connection, and so before the others in the ledger
            *(said(1, "JoinGroup", 10, 12), said(1, "SyncGroup", 13, 14), said(1, "SyncGroup", 20)),
            said(1, "JoinGroup", 20, 22, owned=[{"topic": "orders", "partitions": [0]}]),
            *(said(3, "ConsumerGroupHeartbeat", at, generation=epoch) for at, epoch in ((32, 3), (33, -2), (34, 0))),
            *(said(4, "ShareGroupHeartbeat", 35, generation=-1), said(4, "Heartbeat", 36, generation=-1)),
        ],
        "connections": [
            {"instance": "billing/1", "library": "librdkafka", "library_version": "2.5.0"},
            {"instance": "audit/1", "library": "sarama"},
        ],
        "fetched": [
            *(batch(1, 90, 110, made=True, answered_us=n) for n in (45, 41)),
            *(batch(1, 90, 110, made=made, answered_us=at) for made, at in ((False, 40), (True, None))),
            batch(1, None, None, made=True, answered_us=39),
        ],
    }
    facts = wire_of(**tables, unread=[{"api": 3}]).facts()
    failed = facts.failed["invoices", "billing/1"]
    assert facts.failed.keys() == {("invoices", "billing/1")}
    assert [(row["asked_us"], row["error"]) for row in failed] == [(10, 0), (22, 3)]
    assert facts.writers == {"invoices": {f"billing/{n}" for n in (1, 2, 3)}}
    assert {name: [row["asked_us"] for row in rows] for name, rows in facts.left.items()} == {
        "billing/1": [30, 31],
        "billing/3": [33],
        "billing/4": [35],
    }
    assert (facts.synced, facts.begun) == ({"billing/1": [14, 24]}, {"billing/1": [14]})
    assert (facts.libraries, facts.changed) == ({"billing/1": "librdkafka 2.5.0"}, {"billing/1": 41})
    assert facts.certain


def test_the_write_of_an_effect_is_the_last_attempt_of_the_batch_with_its_offset(wire_of):
    """Near misses: the batches before and behind it, another partition, a retry of another session, a marker, and an
    error, whose answer has -1 as offset."""

    def produced(who, at, asked_us=20, outcome="ok", **more):
        row = {"instance": f"billing/{who}", "topic": "invoices", "partition": 0, "records": 3, "outcome": outcome}
        row |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": at, "asked_us": asked_us}
        return row | {"base_offset": at if outcome == "ok" else None, "answered_us": asked_us + 1} | more

    def logged(sequence, offset, **more):
        row = {"topic": "invoices", "partition": 0, "producer_id": 7, "producer_epoch": 0}
        return row | {"base_sequence": sequence, "base_offset": offset} | more

    places = [f"invoices/0 offset {at}" for at in ("1,009", "1,010", "1,012", "1,013", "2,000", "0")]
    (seen,) = wire_of(
        FOUND | {"places": [*places, "row 1,011"]},
        produced=[
            *(produced("a", 1010), produced("b", 1010, 30), produced("c", 1013), produced("d", 1009, partition=1)),
            *(produced("e", 40, 40, "unknown"), produced("f", 40, 50, "unknown", producer_epoch=1)),
            *(produced("g", 50, 40, "unknown"), produced("h", 60, 60, "unknown", producer_id=None)),
            produced("i", 70, outcome="fail", base_offset=-1),
        ],
        log=[logged(40, 2000), logged(50, 2000, control="commit"), logged(60, 2000, producer_id=None)],
    ).seen()
    assert [(row["instance"].removeprefix("billing/"), row["written"]) for row in seen.writes] == [
        *(("c", 1013), ("b", 1010), ("b", 1012)),
        ("e", 2000),
    ]


def test_no_instance_ended_by_itself_after_the_run_began_to_stop_them(spark, tmp_path):
    fake = FakeRun(tmp_path, SCENARIO)
    own = {"app": "billing", "incarnation": 1, "detail": "{}"}
    ends = {1: 49, 2: 50}
    fake.ledger["apps"] = [
        own | {"instance": n, "event": event, "at_us": at_us}
        for n, ended_us in ends.items()
        for event, at_us in (("started", 5), ("exited", ended_us))
    ]
    run = fake.write().run
    write_wire(spark, run, whole())
    marks = [("stop", "begin", 60), ("stop", "begin", 50), ("stop", "end", 20), ("load", "begin", 10)]
    with run.events.open("a") as events:
        events.writelines(
            json.dumps({"at_us": at_us, "kind": "stage", "stage": stage, "state": state}) + "\n"
            for stage, state, at_us in marks
        )
    lives = Wire(spark, run, [FOUND], ["invoices"], ["billing"]).facts().lives
    assert {name: life.end_us for name, (life,) in lives.items()} == {"billing/1": 49, "billing/2": None}


@pytest.mark.parametrize("api", [0, 1])
def test_a_fetch_or_send_that_was_not_read_may_have_been_any(wire_of, api):
    assert not wire_of(unread=[{"api": 3}, {"api": api}]).facts().certain


def test_the_lanes_of_applications(spark, tmp_path):
    fake = FakeRun(tmp_path, SCENARIO)
    own = {"app": "billing", "incarnation": 1, "event": "started", "detail": "{}"}
    fake.ledger["apps"] = [own | {"instance": 1, "at_us": 5}]
    run = fake.write().run
    held = [{"topic": "orders", "partitions": [3]}]
    rows = whole(
        commits=[
            *(
                {"answered_us": at, "error": error}
                for at, error in ((9, 0), (BUCKET_US - 1, 0), (BUCKET_US, 0), (9, 3))
            ),
            {"answered_us": 9, "instance": "audit/1"},
        ],
        membership=[
            said(1, "SyncGroup", 10, 12, assigned=held, given_generation=8),
            said(1, "Heartbeat", 14, 15, error=None),
            said(1, "Heartbeat", 20, 22, error=25),
            said(2, "ConsumerGroupHeartbeat", 20, 23, assigned=held, given_generation=None),
            said(2, "LeaveGroup", 30),
            said(3, "SyncGroup", 20, 23, assigned=held) | {"instance": "audit/1"},
        ],
    )
    write_wire(spark, run, rows)
    folder = run.audit / INPUTS / "of-invoices"
    folder.mkdir(parents=True)
    times = pa.table({"first_at_us": pa.array([None, 1, BUCKET_US - 1, BUCKET_US, 7 * BUCKET_US], pa.int64())})
    pq.write_table(times, folder / "part-0.parquet")
    write_lanes(run, fake.resolved, "local[*]")
    series = {(r["series"], r["scope"], r["at_us"]): r["value"] for r in audit_rows(run, "app_series")}
    assert series == {
        **{("effects", "invoices", n * BUCKET_US): number for n, number in ((0, 2), (1, 1), (7, 1))},
        **{("commits", "billing/2", n * BUCKET_US): number for n, number in ((0, 2), (1, 1))},
    }
    lanes = audit_rows(run, "app_ownership")
    names = ("consumer", "topic", "partition", "incarnation", "generation", "begin_us", "end_us", "end_reason")
    assert [tuple(map(lane.get, names)) for lane in lanes] == [
        ("billing/1", "orders", 3, 1, 8, 12, 22, "lost"),
        ("billing/2", "orders", 3, 1, 7, 23, 30, "revoked"),
    ]


def test_without_a_wire_ledger_the_lanes_have_effects_alone(spark, tmp_path):
    """An aggregate has no first effect of an input."""
    alone = SCENARIO.replace("id: $.order_id", "id: key, aggregate: count(), by: $.customer, value: $.n").replace(
        "{late: {p99: 1s}}", "{}"
    )
    fakes = [FakeRun(tmp_path / str(n), text) for n, text in enumerate((SCENARIO, alone))]
    for fake, effects in zip(fakes, (1, 0), strict=True):
        run = fake.write().run
        folder = run.audit / INPUTS / "of-invoices"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"first_at_us": [1]}), folder / "part-0.parquet")
        write_lanes(run, fake.resolved, "local[*]")
        assert len(audit_rows(run, "app_series")) == effects and not audit_rows(run, "app_ownership")


def test_an_effect_that_was_not_read_or_is_on_other_machines_has_no_lane(spark, tmp_path):
    fake = FakeRun(tmp_path, SCENARIO)
    run = fake.write().run
    write_lanes(run, fake.resolved, "local[*]")
    assert not audit_rows(run, "app_series"), "it has no table"
    folder = run.audit / INPUTS / "of-invoices"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"first_at_us": [1]}), folder / "part-0.parquet")
    write_lanes(run, fake.resolved, "spark://elsewhere:7077")
    assert not audit_rows(run, "app_series")
