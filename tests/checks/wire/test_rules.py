"""Stories of rules on the wire: each violates a rule, keeps it, or nearly violates it. One audit judges them all.

A story has a topic with one partition, a producer, consumers, and a group of the topic's name. It gives the rows of
tables of the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.anomalies import ANOMALIES
from chaos.run.directory import Run
from chaos.scenario.resolve import Seen
from checks.audit.stage import audited
from checks.wire import ledger
from checks.wire.ledger import folder_of, seen, write_ledger
from tests.checks.audit.story import RUN_ID, Story, resolved_of, rows_of
from tests.checks.audit.story import write_ledger as write_observed
from tests.checks.wire import test_written as made

pytestmark = pytest.mark.spark

S = 1_000_000


@dataclass
class OnWire(Story):
    """A story with rows of tables of the wire, in which times are us since the begin of the run."""

    wire: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, table: str, row: dict[str, Any], **more: Any) -> OnWire:
        place = {"topic": self.name, "partition": 0}
        who = self.producer if table in ("produced", "transactions") else self.reader(more.pop("n", 1))
        named = {"instance": who, "group": self.name if table != "log" else None}
        self.wire.append((table, place | row | named | more))
        return self

    def sent(self, values: str, number: int, offset: int, at: int, epoch: int = 0, outcome: str = "ok") -> OnWire:
        """A batch in a transaction, with its first sequence."""
        row = made.sent(values, (7, epoch, number), outcome, offset, at, transactional=True)
        return self.add("produced", row | {"number": at})

    def logged(self, values: str, number: int, offset: int, epoch: int = 0, **more: Any) -> OnWire:
        return self.add("log", made.logged(offset, values, (7, epoch, number), transactional=True) | more)

    def marker(self, offset: int, how: str = "commit") -> OnWire:
        return self.logged("x", -1, offset, control=how)

    def ends(self, at: int, committed: bool = True, call: str = "EndTxn", epoch: int = 0, **more: Any) -> OnWire:
        row = made.ended(at, committed, call=call) | {"producer_epoch": epoch, "transactional_id": self.name}
        return self.add("transactions", row, **more)

    def begins_again(self, at: int) -> OnWire:
        return self.ends(at, call="InitProducerId", producer_id=-1)

    def got(self, values: str, number: int, offset: int, at: int, asked: int | None = None, **more: Any) -> OnWire:
        """A batch in an answer to Fetch."""
        asked = offset if asked is None else asked
        row = made.got(offset, values, (7, 0, number), asked, at, transactional=True)
        self.mode = self.mode or "assign"
        return self.add("asked", made.fetch_of(row | more)).add("fetched", row | more)

    def claims(self, offset: int, at: int, committed: bool = True) -> OnWire:
        """A transaction of a member with an offset of its group."""
        own = {"transactional_id": self.name, "producer_id": 7, "generation": 1}
        self.ends(at - 5, call="AddOffsetsToTxn", instance=self.reader())
        self.add("commits", made.asked(at, offset, **own))
        return self.ends(at + 5, committed, instance=self.reader())

    def joins(self, at: int, n: int = 1) -> OnWire:
        self.mode, self.members = "subscribe", max(self.members, n)
        row = made.call("SyncGroup", at, [0]) | {"assigned": [{"topic": self.name, "partitions": [0]}]}
        self.add("positions", made.asked(at + 1, -1), n=n)
        return self.add("membership", row, n=n, member_id=f"m{n}")

    def acquires(self, first: int, last: int, at: int, count: int = 1, n: int = 1) -> OnWire:
        self.mode, self.members = "share", max(self.members, n)
        beat = made.call("ShareGroupHeartbeat", at - 50)
        return self.add("membership", beat, n=n).add("acquired", made.taken(first, last, at, count), n=n)

    def settles(self, first: int, last: int, at: int, kind: int = 1, error: int = 0, n: int = 1) -> OnWire:
        return self.add("acknowledged", made.settled(first, last, at, (kind,), error), n=n)

    def stood(self, offset: int, begin: int, end: int, last: int) -> OnWire:
        """The last stable offset stood for some time below the end."""
        for at, stable in ((begin, offset), (end, last)):
            self.now = at
            self.offsets_observed(stable, last)
        return self


def transaction(s: OnWire, end: str = "commit", marker: str = "commit") -> OnWire:
    s.ends(8, call="AddPartitionsToTxn").sent("ab", 0, 0, 10).logged("ab", 0, 0).marker(2, marker)
    return s.ends(20, end == "commit")


def hangs(s: OnWire) -> None:
    transaction(s).stood(0, 1 * S, 20 * S, 3)


def moves_on(s: OnWire) -> None:
    transaction(s).stood(0, 1 * S, 3 * S, 3)


def is_long(s: OnWire) -> None:
    """Of version 2: its first request is a Produce."""
    s.sent("ab", 0, 0, 1 * S, epoch=4).logged("ab", 0, 0, epoch=4).marker(2).ends(15 * S, epoch=4)
    s.stood(0, 1 * S + 1, 15 * S + 9, 3)


def is_hidden(s: OnWire) -> None:
    transaction(s, marker="abort")


def is_absent(s: OnWire) -> None:
    transaction(s).sent("cd", 2, 3, 15)


def is_seen(s: OnWire) -> None:
    transaction(s, end="abort")


def is_aborted_by_its_producer(s: OnWire) -> None:
    s.ends(8, call="AddPartitionsToTxn").sent("ab", 0, 0, 10).logged("ab", 0, 0).marker(2, "abort").begins_again(20)
    s.ends(28, call="AddPartitionsToTxn", epoch=1).sent("cd", 0, 3, 30, epoch=1).logged("cd", 0, 3, epoch=1).marker(5)
    s.ends(40, epoch=1)


def writes_a_changelog(s: OnWire) -> None:
    """The platform does not read it back, so nothing is said about it."""
    written(s, "a").add("produced", made.sent("z", (8, 0, 0), "ok", 0, 30) | {"number": 30}, topic="changelog")


def reads_aborted(s: OnWire, **more: Any) -> None:
    transaction(s, "abort", "abort").got("ab", 0, 0, 60, **more).got("x", -1, 2, 60, 0, control="abort")


def leaves_out_aborted(s: OnWire) -> None:
    reads_aborted(s, aborted=[{"producer_id": 7, "first_offset": 0}])


def reads_all(s: OnWire) -> None:
    s.consumer_config = {"auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"}
    reads_aborted(s, isolation=0)


def claims_twice(s: OnWire, second: bool = True) -> None:
    written(s.joins(1), "a", "b").got("a", 0, 0, 60).got("b", 1, 1, 70).claims(2, 100).claims(1, 200, second)


def claims_past(s: OnWire, fetches: bool) -> None:
    """A transaction claims a record that no member fetched."""
    written(s.joins(1), "a", "b", "c").got("a", 0, 0, 60).got("c", 2, 2, 80).claims(3, 100)
    if fetches:
        s.got("b", 1, 1, 70)


def written(s: OnWire, *values: str) -> OnWire:
    for number, value in enumerate(values):
        row = made.sent(value, (7, 0, number), "ok", number, 10 + number)
        s.add("produced", row | {"number": 10 + number}).add("log", made.logged(number, value, (7, 0, number)))
    return s


def group_is_done(s: OnWire) -> OnWire:
    s.share_seen(3, 0)
    return s


STORIES: list[tuple[str, dict[str, int], Any]] = [
    ("hangs", {"hanging_transaction": 1}, hangs),
    ("moves-on", {}, moves_on),
    ("is-long", {}, is_long),
    ("is-hidden", {"torn_transaction": 2}, is_hidden),
    ("is-absent", {"torn_transaction": 2, "lost_write": 2}, is_absent),
    ("is-seen", {"torn_transaction": 2}, is_seen),
    ("is-whole", {}, transaction),
    ("has-a-topic-of-its-library", {}, writes_a_changelog),
    ("is-aborted-by-its-producer", {}, is_aborted_by_its_producer),
    ("reads-aborted", {"aborted_read": 2}, reads_aborted),
    ("leaves-out-aborted", {}, leaves_out_aborted),
    ("reads-all", {}, reads_all),
    ("reads-early", {"precommitted_read": 2}, lambda s: transaction(s).got("ab", 0, 0, 19)),
    ("reads-in-time", {}, lambda s: transaction(s).got("ab", 0, 0, 40)),
    ("reads-before-the-answer", {}, lambda s: transaction(s).got("ab", 0, 0, 22)),
    ("claims-twice", {"commit_rewind": 1}, claims_twice),
    ("claims-once", {}, lambda s: claims_twice(s, second=False)),
    ("claims-past", {"skipped_delivery": 1}, lambda s: claims_past(s, fetches=False)),
    ("claims-all", {}, lambda s: claims_past(s, fetches=True)),
    ("is-dirty", {"dirty_read": 1}, lambda s: written(s, "a").got("a", 0, 0, 60).got("b", 1, 1, 70)),
    ("is-clean", {}, lambda s: written(s, "a", "b").got("a", 0, 0, 60).got("b", 1, 1, 70)),
    ("is-cut-off", {}, lambda s: written(s, "a").got("a", 0, 0, 60).got("b", 1, 1, 70, complete=False)),
    ("loses", {"lost_share": 1}, lambda s: group_is_done(written(s, *"abc").acquires(0, 0, 60).acquires(2, 2, 60))),
    ("acquires-all", {}, lambda s: group_is_done(written(s, *"abc").acquires(0, 2, 60))),
    ("has-a-marker", {}, lambda s: group_is_done(transaction(s).acquires(0, 1, 60))),
    ("stalls", {"stalled_share": 1}, lambda s: written(s, *"abc").acquires(0, 1, 60)),
    ("comes-back", {"redelivered_share": 1}, lambda s: comes_back(s, kind=1)),
    ("is-released", {}, lambda s: comes_back(s, kind=2)),
    ("is-refused", {}, lambda s: comes_back(s, kind=1, error=121)),
    ("counts-back", {"miscounted_share": 1}, lambda s: comes_back(s, kind=2, count=1)),
    ("is-locked", {"lock_overrun": 1}, lambda s: comes_back(s, kind=0)),
    ("is-over", {"overlimit_share": 1}, lambda s: many(s, 11)),
    ("is-at-the-limit", {}, lambda s: many(s, 10)),
    (
        "acquires-aborted",
        {"aborted_share": 2},
        lambda s: committed(transaction(s, "abort", "abort").acquires(0, 1, 60)),
    ),
    ("acquires-committed", {}, lambda s: committed(group_is_done(transaction(s).acquires(0, 1, 60)))),
]


def comes_back(s: OnWire, kind: int, error: int = 0, count: int = 2) -> None:
    """A record is acquired by one member, settled, and acquired by another one."""
    group_is_done(written(s, "a").acquires(0, 0, 60))
    if kind:
        s.settles(0, 0, 150, kind, error)
    s.acquires(0, 0, 1 * S, count, n=2)


def many(s: OnWire, times: int) -> None:
    group_is_done(written(s, "a"))
    for n in range(times):
        s.acquires(0, 0, 60 + 100 * n, n + 1).settles(0, 0, 100 + 100 * n, 2)


def committed(s: OnWire) -> None:
    s.consumer = {"share.isolation.level": "read_committed"}


TEXTS = {"topic", "instance", "group", "call", "member_id", "given_member_id", "instance_id", "protocol", "control"}
TEXTS |= {"outcome", "transactional_id"}
PLACES = pa.list_(pa.struct([("topic", pa.string()), ("topic_id", pa.string()), ("partitions", pa.list_(pa.int32()))]))
OTHERS = {
    **dict.fromkeys(TEXTS, pa.string()),
    **dict.fromkeys(("transactional", "complete", "log_append_time", "committed", "made"), pa.bool_()),
    **dict.fromkeys(("hashes", "timestamps_us"), pa.binary()),
    **dict.fromkeys(("assigned", "owned"), PLACES),
    "types": pa.list_(pa.int32()),
    "aborted": pa.list_(pa.struct([("producer_id", pa.int64()), ("first_offset", pa.int64())])),
}
SAMPLES = {
    "produced": made.sent(at=0) | {"number": 0},
    "log": made.logged(0),
    "fetched": made.got(0),
    "asked": made.fetch_of(made.got(0)),
    "positions": made.asked(0, 0),
    "commits": made.asked(0, 0),
    "acquired": made.taken(0, 0),
    "acknowledged": made.settled(0, 0),
    "membership": made.call("SyncGroup", 0),
    "transactions": made.ended(0),
}


def write_wire(run: Run, stories: list[OnWire]) -> None:
    made.captured(run, "", missing={})
    for table, sample in SAMPLES.items():
        names = dict.fromkeys([*({"topic": 0, "partition": 0} | sample), "instance", "group"])
        schema = pa.schema([(name, OTHERS.get(name, pa.int64())) for name in names])
        rows = [{n: row.get(n) for n in names} for s in stories for of, row in s.wire if of == table]
        (run.path / "wire" / f"{table}.parquet").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema), run.path / "wire" / f"{table}.parquet" / "part-0.parquet")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[OnWire]]:
    """A run of all stories, with the tables of the wire."""
    run, stories = Run(tmp_path_factory.mktemp("rules") / RUN_ID), []
    for number, (name, _, tells) in enumerate(STORIES):
        story = OnWire(name, number)
        tells(story)
        story.log_end = max(row["base_offset"] + row["records"] for table, row in story.wire if table == "log")
        if any(table == "transactions" for table, _ in story.wire):
            story.rows["transactions"] = [
                {"producer": story.producer, "incarnation": 1, "txn": 1, "outcome": "unknown"}
            ]
        stories.append(story)
    run.path.mkdir()
    write_observed(run, rows_of(stories))
    write_wire(run, stories)
    return run, stories


@pytest.fixture(scope="module")
def found(spark: Any, captured: tuple[Run, list[OnWire]]) -> dict[str, dict[str, int]]:
    """The findings of each story, by check."""
    run, stories = captured
    resolved = resolved_of(stories)
    write_ledger(run, resolved.scenario)
    tables = audited(spark, run, resolved, folder_of(run))
    of = {scope: s.name for s in stories for scope in (s.name, s.reader(1))}
    counts: dict[str, dict[str, int]] = {}
    for row in tables["summary"].to_pylist():
        if row["count"]:
            of_story = counts.setdefault(of[row["scope"]], {})
            of_story[row["check"]] = of_story.get(row["check"], 0) + row["count"]
    return counts


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, expected, _ in STORIES])
def test_a_story_of_the_wire_has_these_findings_and_no_others(name, expected, found):
    assert found.get(name, {}) == expected


@pytest.mark.parametrize("size", [1, 3000])
def test_a_capture_that_is_read_in_several_batches_has_the_same_ledger(captured, found, monkeypatch, size):
    run, stories = captured

    def rows() -> dict[str, list[str]]:
        files = {path.name: path for path in folder_of(run).iterdir() if path.name != "seal.json"}
        tables = {name: pq.read_table(path, partitioning=None).to_pylist() for name, path in files.items()}
        return {name: sorted(map(str, table)) for name, table in tables.items()}

    here = rows()
    monkeypatch.setattr(ledger, "BATCH_BYTES", size)
    write_ledger(run, resolved_of(stories).scenario)
    assert rows() == here and here["sends.parquet"]


def test_each_rule_of_transactions_and_shares_that_the_wire_decides_has_a_story():
    told = {check for _, expected, _ in STORIES for check in expected}
    wanted = {c for c, kind in ANOMALIES.items() if not kind.hidden and (kind.path == "share" or "transaction" in c)}
    assert wanted | {"aborted_read", "precommitted_read", "dirty_read"} <= told


def test_the_wire_shows_how_applications_read_and_write(tmp_path):
    run, s = Run(tmp_path), OnWire("orders", 1)
    assert seen(run) == Seen()
    reads_all(s)
    write_wire(run, [s])
    assert seen(run) == Seen(frozenset({"c1"}), frozenset({"orders"}))


def test_a_topic_of_which_only_the_id_is_known_leaves_all_undecided_unless_the_broker_does_not_know_it(tmp_path):
    named, s = OnWire("orders", 1), OnWire("orders", 1)
    written(named, "a").got("a", 0, 0, 60).got("b", 1, None, 70, asked=1, error=100, topic=None)
    written(s, "a").sent("b", 1, 1, 20).wire[-1][1]["topic"] = None
    for number, (story, found) in enumerate(
        ((named, []), (s, ["the topic of rows of table produced is not known (1)"]))
    ):
        run = Run(tmp_path / str(number))
        run.path.mkdir()
        write_wire(run, [story])
        assert ledger._nameless(run) == found
