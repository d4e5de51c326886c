"""What is special about a tap: records of others and from before, offsets that it judges, and who was there."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.ledger.schemas import COMMIT_LOG_RANGE, LOG_RANGE, TABLES
from chaos.run.directory import Run
from chaos.run.tap import TapRecord
from chaos.scenario.load import parse
from checks.audit.facts.retention import due_starts
from checks.audit.findings import STALLED
from checks.audit.output.totals import visible
from checks.audit.stage import read_small
from checks.readback import stage
from checks.wire.ledger import _add_tapped, _add_unknown
from checks.wire.tables import table_path
from tests.checks.wire.test_written import got, logged, partition, sent
from tests.support.fake_runs import SCENARIO, T0, life

OWN = (7, 0, 0)


def tapped(judged, requests, *log, fetched=()):
    """Return the ledger of a partition of which a tap judges some offsets."""
    return partition([row | {"number": 1} for row in requests], log, fetched, judged=judged)


def test_records_that_no_producer_sent_through_the_tap_are_nobodys_and_no_phantom():
    log = tapped((0, 10), [sent("ab", OWN, at=10)], logged(0, "ab", OWN), logged(2, "xy", (9, 0, 0))).log()
    assert log["producer"].tolist() == ["app/1", "app/1", "? orders", "? orders"]
    assert log["run"].tolist() == ["token"] * 4 and log["seq"].tolist()[2:] == [2, 3]


def test_batches_that_reach_beyond_what_the_tap_judges_are_cut():
    log = tapped((1, 3), [], logged(0, "ab"), logged(2, "cd")).log()
    assert log["offset"].tolist() == [1, 2]


def test_what_was_fetched_of_others_is_theirs():
    found = tapped((2, 4), [], logged(2, "cd"), fetched=[got(0, "ab"), got(2, "cd", at=200)]).deliveries()
    assert found["offset"].tolist() == [0, 1, 2, 3] and set(found["producer"]) == {"? orders"}
    assert found["sent_us"].tolist() == [-1] * 4, "nobody knows when they were sent"


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path, "t")
    (tmp_path / "own").mkdir()
    for name in ("lifecycle", "cluster"):
        (tmp_path / "own" / f"{name}.parquet").mkdir()
    return made


def write(run, table, rows):
    path = table_path(run, table)
    path.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path / "part.parquet")


def place(offset, at_us, **more):
    return {"group": "billing", "topic": "orders", "partition": 0, "offset": offset} | more | {"answered_us": at_us}


def test_the_first_offset_that_a_group_asks_for_is_a_commit_from_before_and_processes_begin_and_end(run, tmp_path):
    write(run, "connections", [{"instance": "billing/1", "opened_us": at} for at in (50, 20)])
    own = place(7, 0, partition=2, asked_us=100)
    write(run, "commits", [place(200, 0, asked_us=100), place(210, 0, asked_us=300), own])
    first = [place(150, 40), place(-1, 45, partition=1), place(200, 200), place(7, 200, partition=2)]
    write(run, "positions", [*first, place(0, 50, partition=3)])
    record = TapRecord(listen="", advertise="", ports={}, ends={"billing/1": 900})
    _add_tapped(run, tmp_path / "own", record)
    rows = pq.read_table(tmp_path / "own" / "cluster.parquet", schema=TABLES["cluster"]).to_pylist()
    assert [(row["entity"], row["at_us"], row["key"], row["value"]) for row in rows] == [
        ("group:billing/orders/0", 40, "committed", "150"),
        ("group:billing/orders/3", 50, "committed", "0"),
    ]
    lives = pq.read_table(tmp_path / "own" / "lifecycle.parquet", schema=TABLES["lifecycle"]).to_pylist()
    assert [(row["client"], row["event"], row["at_us"]) for row in lives] == [
        ("billing/1", "started", 20),
        ("billing/1", "stopped", 900),
    ]
    assert {(row["role"], row["incarnation"], row["detail"]) for row in lives} == {("consumer", 1, "{}")}


def test_what_readers_have_left_when_a_tap_ends_is_not_decided():
    row = {"check": STALLED[0], "split": "", "scope": "billing", "count": 5, "examined": 9, "undecided": 0, "why": ""}
    tables = {"summary": [row], "anomalies": [{"check": STALLED[0]}], "undecided": []}
    assert visible(tables, [])["summary"] == [row] and visible(tables, [])["anomalies"]
    found = visible(tables, [], tapped=True)
    assert (found["summary"][0]["count"], found["summary"][0]["undecided"], found["anomalies"]) == (0, 9, [])


def test_the_range_of_a_tap_is_from_where_it_began_to_where_it_ended_and_says_what_retention_removed(run, monkeypatch):
    ends = {("orders", 0): (0, 90), ("orders", 1): (40, 80), ("orders", 2): (0, 5), ("orders", 3): (6, 6)}
    monkeypatch.setattr(stage, "log_ranges", lambda *_: ends)
    monkeypatch.setattr(stage, "topic_ids", lambda *_: {})
    begins, finals = {"orders/0": 50, "orders/1": 30, "orders/3": 0}, {"orders/0": 70}
    ranges, notes = stage.read_range(run, ["orders"], "", None, begins, finals)
    assert ranges == {("orders", 0): (50, 70), ("orders", 1): (40, 80), ("orders", 2): (0, 5), ("orders", 3): (6, 6)}
    assert [note.partition(" before ")[0] for note in notes] == [
        "retention removed offsets 30 to 39 of orders/1",
        "retention removed offsets 0 to 5 of orders/3",
    ]
    rows = pq.read_table(run.ledger / stage.RANGE).to_pylist()
    assert [(row["start"], row["end"]) for row in rows] == [(50, 70), (40, 80), (0, 5), (6, 6)]
    assert stage.read_range(run, ["orders"], "", None, {}, {})[1] == []  # of a run without a tap


@pytest.mark.parametrize(("tapped", "start"), [(True, 100), (False, 0)])
def test_the_log_before_a_tap_is_not_read_and_so_not_lost(tapped, start):
    scenario = SimpleNamespace(tapped=tapped, retained=lambda run_ms: frozenset())
    place = ("orders", 0)
    assert due_starts({place: (100, 400)}, {place: 0}, scenario, run_us=9) == {place: start}


def test_a_writer_that_is_not_known_does_not_make_a_run_longer(tmp_path):
    """Retention may remove records of a run that is long enough; a writer that no process is known of has no time."""
    _add_unknown(tmp_path, ["orders"])
    unknown = pq.read_table(tmp_path / "unknown.parquet")
    known = [life("billing/1", "consumer", event, at_us=at) for event, at in (("started", T0), ("stopped", T0 + 9))]
    read_back = {"log_range": LOG_RANGE, "commit_log_range": COMMIT_LOG_RANGE}
    small = {name: schema.empty_table() for name, schema in (TABLES | read_back).items()}
    small["lifecycle"] = pa.concat_tables([unknown, pa.Table.from_pylist(known, TABLES["lifecycle"])])
    inputs = read_small(SimpleNamespace(small=small, commit_log=None), parse(SCENARIO, "t"))
    assert (inputs.begin_us, inputs.run_us) == (T0, 9)
