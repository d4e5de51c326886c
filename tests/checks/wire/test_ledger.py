"""The incarnations of instances, to which the frames of the wire belong by their times."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.ledger.schemas import LOG_RANGE, TABLES
from chaos.ledger.seal import part_name, read_seal
from chaos.run.directory import Run
from chaos.run.events import UNSEEN, EventLog
from chaos.run.tap import TapRecord
from chaos.scenario.load import parse
from checks.wire import ledger
from checks.wire.coordination import OPEN_US, Hold, Holds
from checks.wire.ledger import _ends, _in_two_groups
from checks.wire.tables import table_path

CRASH = [("started", 1, 10), ("crashed", 1, 50), ("started", 2, 60)]


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        ([("started", 1, 10)], []),
        ([("started", 1, 10), ("stopped", 1, 50)], []),  # nothing comes after the last one
        ([*CRASH, ("stopped", 2, 90)], [50]),
        (CRASH, [50]),  # the drive broke off, so the second one has no end
        ([*CRASH, ("crashed", 2, 70), ("started", 3, 80)], [50, 70]),
        ([("started", 1, 10), ("started", 2, 60), ("stopped", 2, 90)], [60]),  # its end is not on record
        ([("started", 1, 10), ("started", 2, 60), ("crashed", 2, 70), ("started", 3, 80)], [60, 70]),
        ([*CRASH, ("stopped", 1, 55)], [55]),  # two say so
        ([("crashed", 1, 50), ("stopped", 2, 90)], [50]),
        ([("started", 1, 10), ("started", 2, 60), ("started", 2, 65)], [60]),  # its supervisor says so again
        ([("crashed", 2, 50), ("started", 3, 60)], [0, 50]),  # nothing is on record of the first one
        ([("started", 1, 10), ("error", 1, 20), ("ready", 1, 30)], []),
    ],
)
@pytest.mark.parametrize("table", ["lifecycle", "apps"])
def test_the_ends_of_all_incarnations_but_the_last_one_are_known(tmp_path, table, rows, ends):
    run = Run.create(tmp_path, "t")
    who = {"lifecycle": {"client": "app/1", "role": "consumer"}, "apps": {"app": "app", "instance": 1}}
    for name, own in who.items():
        found = [
            own | {"event": event, "incarnation": number, "at_us": at_us, "detail": "{}"}
            for event, number, at_us in (rows if name == table else ())
        ]
        folder = run.ledger / f"{name}.parquet"
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(found, TABLES[name]), folder / "part-0.parquet")
    assert _ends(run) == {"app/1": ends}


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ({}, True),
        ({"begin_us": 60, "end_us": 70}, True),
        ({"group": "g"}, False),  # the group gave it again to the process, or to another of its threads
        ({"begin_us": 90}, False),  # its first consumer had been closed
        ({"incarnation": 2}, False),
        ({"instance": "app/2"}, False),
        ({"topic": "stock"}, False),  # nothing is read back of it
        ({"partition": 1}, False),
    ],
)
def test_a_process_that_reads_a_partition_in_two_groups_at_once_is_named(second, found):
    """A Fetch does not name its group, so the records would all be of one of them."""
    more = dict(second)
    held, first = Holds(), Hold("app/1", 1, "g", "subscribe", "m", None, 1, 10, 90)
    held.of["orders", 0].append(first)
    place = more.pop("topic", "orders"), more.pop("partition", 0)
    held.of[place].append(replace(first, **{"group": "h", "begin_us": 50, "end_us": OPEN_US} | more))
    why = "app/1 reads orders in groups g and h at once, so which of them a record is for is not known"
    assert _in_two_groups(held, ["orders"]) == [why] * found


def test_two_groups_that_read_a_topic_which_is_not_read_back_are_not_named():
    held, first = Holds(), Hold("app/1", 1, "g", "subscribe", "m", None, 1, 10, 90)
    held.of["stock", 0] += [first, replace(first, group="h", begin_us=50)]
    assert _in_two_groups(held, ["orders"]) == []
    assert len(_in_two_groups(held, ["stock"])) == 1


PLACE = {"topic": pa.string(), "partition": pa.int32(), "asked_us": pa.int64()}
OF_READER = {"base_offset": pa.int64(), "instance": pa.string(), "isolation": pa.int32()}
OF_SENDER = {"instance": pa.string(), "producer_id": pa.int64(), "producer_epoch": pa.int32()}
MORE: dict[str, dict[str, pa.DataType]] = {
    "produced": {"records": pa.int64(), "transactional": pa.bool_()} | OF_SENDER,
    "log": {"records": pa.int64()},
    "fetched": {"records": pa.int64()} | OF_READER,
}


@pytest.fixture
def wire(tmp_path):
    """Write tables of the wire with rows of partitions; tables that are not given are empty."""

    def write(**tables):
        run = Run.create(tmp_path, "t")
        for part in ledger.PARTS:
            folder = table_path(run, part)
            folder.mkdir(parents=True)
            schema = pa.schema(PLACE | MORE.get(part, {}))
            pq.write_table(pa.Table.from_pylist(tables.get(part, []), schema), folder / "part-0.parquet")
        return run

    return write


def at(topic, partition, n, **more):
    return {"topic": topic, "partition": partition, "asked_us": n} | more


@pytest.mark.parametrize("batch_bytes", [0, 1900, 1 << 29])
def test_each_partition_is_read_once_and_whole_however_many_fit_into_a_batch(wire, monkeypatch, batch_bytes):
    monkeypatch.setattr(ledger, "BATCH_BYTES", batch_bytes)
    places = [(topic, partition) for topic in ("a", "b", "c") for partition in (0, 1, 2)]
    rows = [at(*place, n) for n in range(2) for place in reversed(places)]
    run = wire(produced=rows, commits=rows[:9], log=[at("b", 1, 7), at("other", 0, 8)])
    batches = list(ledger._batches(ledger._sizes(run, ["a", "b", "c"])))
    assert [place for batch in batches for place in batch] == places
    assert (len(batches) == 1) == (batch_bytes > 10_000)
    found = [part for batch in batches for part in ledger._by_partition(run, batch)]
    assert [(part["topic"][0].as_py(), part["partition"][0].as_py()) for part in found] == places
    assert all(part.group_by(["topic", "partition"]).aggregate([]).num_rows == 1 for part in found)
    assert [len(part) for part in found] == [3 + (place == ("b", 1)) for place in places]
    assert sorted(zip(found[4]["part"].to_pylist(), found[4]["asked_us"].to_pylist(), strict=True)) == [
        *[("commits", 0), ("log", 7), ("produced", 0), ("produced", 1)]
    ]


def test_partitions_of_one_number_in_two_topics_are_two(wire):
    run = wire(produced=[at("a", 0, 1), at("b", 0, 2)])
    found = ledger._by_partition(run, [("a", 0), ("b", 0)])
    assert [part["topic"].to_pylist() for part in found] == [["a"], ["b"]]


def test_what_is_null_in_a_table_of_the_wire_is_no_number_and_not_true():
    frame = ledger._frame(pa.table({"n": pa.array([1, None]), "is": pa.array([True, None]), "who": ["a", None]}))
    assert frame["n"].tolist() == [1, -1] and frame["is"].tolist() == [True, False]
    assert frame["n"].dtype == "int64" and frame["is"].dtype == bool


def test_partitions_are_read_together_up_to_the_limit_and_a_larger_one_alone(monkeypatch):
    monkeypatch.setattr(ledger, "BATCH_BYTES", 10)
    sizes = {("a", 0): 4, ("a", 1): 6, ("a", 2): 1, ("b", 0): 11, ("b", 1): 10}
    found = [[sizes[place] for place in batch] for batch in ledger._batches(sizes)]
    assert found == [[4, 6], [1], [11], [10]] and list(ledger._batches({})) == []


def test_the_size_of_a_partition_is_that_of_its_rows_and_records(wire):
    run = wire(produced=[at("a", 0, 1, records=5), at("a", 0, 2, records=None)], log=[at("a", 0, 1, records=-1)])
    assert ledger._sizes(run, ["a"]) == {("a", 0): 3 * ledger.ROW_BYTES + 5 * ledger.RECORD_BYTES}


def test_a_row_of_a_topic_without_a_known_name_may_be_of_any_topic(wire):
    rows = [at("a", 0, 1, base_offset=3), at(None, 0, 1, base_offset=None), at(None, 1, 1, base_offset=3)]
    run = wire(fetched=rows, commits=[at(None, 0, n) for n in range(2)], asked=[at("a", 0, 1)])
    assert ledger._nameless(run) == [
        "the topic of rows of table fetched is not known (1)",  # the other one is an error, without records
        "the topic of rows of table commits is not known (2)",
    ]


def test_an_application_that_reads_committed_records_only_in_some_requests_is_named(wire):
    levels = {"mixed": (0, 1), "plain": (0,), "strict": (1, None), "stranger": (0, 1)}
    of = [(name, level) for name, found in levels.items() for level in found]
    run = wire(fetched=[at("a", 0, 1, instance=f"{name}/{n}", isolation=level) for n, (name, level) in enumerate(of)])
    (why,) = ledger._mixed(run, {"mixed", "plain", "strict"})
    assert why.startswith("mixed reads committed records only in some requests")
    assert ledger.seen(run).uncommitted == {"mixed", "plain", "stranger"}


def test_what_was_written_in_a_transaction_was_first_sent_with_its_first_request(wire):
    own = {"instance": "app/1", "producer_id": 7, "producer_epoch": 0, "transactional": True}
    rows = [at("a", 0, 30, **own), at("b", 1, 20, **own), at("a", 0, 10, **own | {"producer_epoch": 1})]
    rows += [at("c", 0, 5, **own | {"transactional": False}), at(None, 0, 40, **own)]
    run = wire(produced=rows)
    assert ledger._first_sent(run) == {("app/1", 7, 0): 20, ("app/1", 7, 1): 10}
    assert ledger.seen(run).in_transactions == {"a", "b"}


def test_nothing_is_seen_of_applications_without_the_tables_of_the_wire(tmp_path):
    assert ledger.seen(Run.create(tmp_path, "t")) == ledger.Seen()


def test_what_a_front_did_not_see_makes_the_wire_incomplete_and_is_said_once(tmp_path):
    run = Run.create(tmp_path, "t")
    for words in ("front 2 was full", "front 2 was full", "front 3 was full"):
        EventLog(run).emit(UNSEEN, words=words)
    EventLog(run).emit("note", words="all is well")
    folder = table_path(run, "unread")
    folder.mkdir(parents=True)
    rows = [
        {"side": "answer", "api": api, "version": 1, "why": "it is cut", "frames": n} for api, n in ((0, 1), (1, 2))
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "part-0.parquet")
    _, *whys, _ = ledger.incomplete(run)
    cut = "3 frames of the capture could not be read (answer Fetch version 1: it is cut)"
    assert whys == ["front 2 was full", "front 3 was full", cut]


ORDERS = "title: Tap\ntopics: [{name: orders}, {name: stock}]\nproducers: [{name: shop, topic: orders}]\n"


@pytest.mark.parametrize("with_tap", [False, True])
def test_a_ledger_has_what_was_observed_and_read_back_and_what_a_tap_knows(wire, monkeypatch, with_tap):
    run = wire()
    record = TapRecord(listen="", advertise="", ports={}, ends={}, ambiguous=["two processes spoke as app/1"])
    monkeypatch.setattr(ledger, "tapped", lambda run: record if with_tap else None)
    added, tasks, written = [], [], ledger._written
    monkeypatch.setattr(ledger, "_add_tapped", lambda run, folder, tap: added.append(tap))
    doubts = [{"check": "lost_write", "scope": scope, "why": "twins", "count": 1} for scope in ("stock", "a reader")]
    more = pa.Table.from_pylist(doubts, ledger.UNDECIDED)

    def write(*of):
        tasks.append(of[1])
        return pa.concat_tables([written(*of), more])

    monkeypatch.setattr(ledger, "_written", write)
    for name in ("membership", "transactions", "unread"):
        table_path(run, name).mkdir(parents=True)
        empty = pa.schema([("frames", pa.int64())]).empty_table()
        pq.write_table(empty, table_path(run, name) / "part-0.parquet")
    for name in ("lifecycle", "cluster"):
        (run.ledger / f"{name}.parquet").mkdir(parents=True)
        own = pa.Table.from_pylist([{"at_us": 5}], TABLES[name])
        pq.write_table(own, run.ledger / f"{name}.parquet" / part_name(0))
    bounds = [{"topic": "orders", "partition": 0, "start": 0, "end": 9}]
    pq.write_table(pa.Table.from_pylist(bounds, LOG_RANGE), run.ledger / "log_range.parquet")
    ledger.write_ledger(run, parse(ORDERS, "test"))
    folder = ledger.folder_of(run)
    assert pq.read_table(folder / "log_range.parquet").num_rows == 1 and not (folder / "commit_log.parquet").exists()
    tables = read_seal(folder).tables
    assert (tables["cluster"].rows, tables["faults"].rows) == (1, 0) and tables.keys() == TABLES.keys()
    assert all(len([*(folder / f"{name}.parquet").glob("*.parquet")]) == of.files > 0 for name, of in tables.items())
    assert [task.tapped for task in tasks] == [with_tap]
    lives = pq.read_table(folder / "lifecycle.parquet" / "unknown.parquet", partitioning=None).to_pylist()
    unknown = {(row["client"], row["role"], row["incarnation"], row["event"], row["at_us"]) for row in lives}
    others = ["orders", "stock"] if with_tap else ["stock"]  # a tap does not see who else sends to a topic
    assert unknown == {(f"? {topic}", "producer", 1, "crashed", 0) for topic in others}
    assert tables["lifecycle"].rows == 1 + len(others) and [*(folder / "log").glob("*.parquet")]
    rows = pq.read_table(folder / "undecided.parquet")
    whys = rows["why"].to_pylist()
    assert set(rows["count"].to_pylist()) == {1}
    assert (record.ambiguous[0] in whys, added) == (with_tap, [record] * with_tap)
    assert "the capture of the wire was never sealed: its proxy was killed" in whys
