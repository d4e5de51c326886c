"""Single-row changes of a ledger: each row of each table left out, repeated, changed in every column."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.checks.audit.oracle import Row

Rows = dict[str, list[Row]]
Edit = Callable[[Row, Rows], list[Row]]
FAR = 1_000
"""Added to a seq, an offset or a number, it is one that nothing in the history has."""
LATE_US = 10_000_000


@dataclass(frozen=True)
class Change:
    """One way to change one row. edit: the replacement of the row; only: the rows that it applies to."""

    table: str
    name: str
    edit: Edit
    only: Callable[[Row], bool] = lambda row: True

    def __str__(self) -> str:
        return f"{self.table}: {self.name}"


def put(**columns: Any) -> Edit:
    """Other values in some columns: given, or made from the row."""

    def edit(row: Row, rows: Rows) -> list[Row]:
        return [row | {name: value(row) if callable(value) else value for name, value in columns.items()}]

    return edit


def plus(by: int, *columns: str) -> Edit:
    """Numbers that are higher or lower; what is not known stays so."""

    def edit(row: Row, rows: Rows) -> list[Row]:
        return [row | {name: row[name] + by for name in columns if row.get(name) is not None}]

    return edit


def drop(row: Row, rows: Rows) -> list[Row]:
    return []


def repeat(row: Row, rows: Rows) -> list[Row]:
    return [row, dict(row)]


def _end(row: Row, rows: Rows) -> int:
    return max([r["offset"] for r in rows["log"] if r["partition"] == row["partition"]], default=-1) + 1


def _to_the_end(row: Row, rows: Rows) -> list[Row]:
    return [row | {"offset": _end(row, rows)}]


def _copied(row: Row, rows: Rows) -> list[Row]:
    return [row, row | {"offset": _end(row, rows), "timestamp_us": row["timestamp_us"] + LATE_US}]


def _elsewhere(row: Row, rows: Rows) -> list[Row]:
    """In the next partition, as far as the topic has several."""
    partitions = max(r["partition"] for r in rows["log_range"]) + 1
    other = {"partition": (row["partition"] + 1) % partitions}
    return [row | other | ({"offset": _end(row | other, rows)} if "timestamp_us" in row else {})]


def _again(row: Row, rows: Rows) -> list[Row]:
    """Delivered once more at the end of the incarnation."""
    return [row, row | {"ordinal": row["ordinal"] + FAR, "processed_us": row["processed_us"] + LATE_US}]


def _by_another(row: Row, rows: Rows) -> list[Row]:
    """In the name of another consumer of the same kind."""
    mode = row["mode"]
    others = sorted({r["consumer"] for r in rows["assignments"] if r["mode"] == mode} - {row["consumer"]})
    return [row | {"consumer": others[0] if others else row["consumer"] + "0"}]


def _lower(row: Row, rows: Rows) -> list[Row]:
    return [row | {"value": str(max(0, int(row["value"]) - 1))}]


def _all_to_one(row: Row, rows: Rows) -> list[Row]:
    """And another member has none."""
    held = [{"member_id": "a", "partitions": ["t/0", "t/1"]}, {"member_id": "b", "partitions": []}]
    return [row | {"value": json.dumps(held)}]


def _reacquired(row: Row, rows: Rows) -> list[Row]:
    """Acquired once more, much later."""
    later = {"ordinal": row["ordinal"] + FAR, "acquired_us": row["acquired_us"] + LATE_US}
    return [row, row | later | {"delivery_count": row["delivery_count"] + 1}]


def has(**columns: Any) -> Callable[[Row], bool]:
    """Rows with these values; `...` means any value but null."""

    def fits(row: Row) -> bool:
        return all(
            row.get(name) is not None if value is ... else row.get(name) == value for name, value in columns.items()
        )

    return fits


def of_a_group(row: Row) -> bool:
    return bool(row["kind"].startswith("group."))


def is_committed(row: Row) -> bool:
    return bool(row["key"] == "committed" and row["value"] != "null")


def sets_offsets(row: Row) -> bool:
    return of_a_group(row) and None not in json.loads(row["evidence"]).get("offsets", {}).values()


def _other_offsets(row: Row) -> str:
    offsets = json.loads(row["evidence"]).get("offsets", {})
    return json.dumps(
        {"offsets": {place: offset if offset is None else offset + 1 for place, offset in offsets.items()}}
    )


def _deleted_further(row: Row) -> str:
    """By one offset."""
    starts = json.loads(row["evidence"])["log_starts"]
    return json.dumps({"log_starts": {place: offset + 1 for place, offset in starts.items()}})


def above_zero(column: str) -> Callable[[Row], bool]:
    return lambda row: bool((row.get(column) or 0) > 0)


TABLES = (
    *("transactions", "sends", "log", "deliveries", "commits", "assignments", "acquisitions", "acknowledgements"),
    *("lifecycle", "cluster", "faults"),
)
NO_IDENTITY = {"run": None, "producer": None, "incarnation": None, "seq": None, "crc_ok": None}

CHANGES: list[Change] = [
    *(Change(table, "left out", drop) for table in TABLES),
    *(Change(table, "repeated", repeat) for table in TABLES if table != "log"),
    Change("sends", "offset + 1", plus(1, "offset"), has(offset=...)),
    Change("sends", "offset - 1", plus(-1, "offset"), above_zero("offset")),
    Change("sends", "offset not recorded", put(offset=None), has(offset=...)),
    Change("sends", "another partition", _elsewhere, has(partition=...)),
    Change("sends", "another seq", plus(FAR, "seq")),
    Change("sends", "another incarnation", plus(FAR, "incarnation")),
    Change("sends", "ok made unknown", put(outcome="unknown"), has(outcome="ok")),
    Change("sends", "ok made fail", put(outcome="fail"), has(outcome="ok")),
    Change("sends", "unknown made ok", put(outcome="ok"), has(outcome="unknown")),
    Change("sends", "fail made ok", put(outcome="ok"), has(outcome="fail")),
    Change("sends", "later", plus(LATE_US, "invoked_us", "completed_us")),
    Change("sends", "another key and error", put(key="k7", error="e")),
    Change("sends", "in no transaction", put(txn=None), has(txn=...)),
    Change("sends", "in a transaction that nobody ended", put(txn=FAR)),
    Change("transactions", "committed made aborted", put(outcome="aborted"), has(outcome="committed")),
    Change("transactions", "aborted made committed", put(outcome="committed"), has(outcome="aborted")),
    Change("transactions", "made unknown", put(outcome="unknown")),
    Change("transactions", "ended before everything", put(ended_us=1)),
    Change("log", "committed or not is not known", put(committed=None)),
    Change("log", "made committed", put(committed=True), has(committed=False)),
    Change("log", "once more behind the end", _copied),
    Change("log", "moved behind the end", _to_the_end),
    Change("log", "another partition", _elsewhere),
    Change("log", "another seq", plus(FAR, "seq"), has(seq=...)),
    Change("log", "another incarnation", plus(FAR, "incarnation"), has(incarnation=...)),
    Change("log", "without identity", put(**NO_IDENTITY), has(producer=...)),
    Change("log", "of another run", put(run="00000000"), has(run=...)),
    Change("log", "CRC wrong", put(crc_ok=False), has(crc_ok=True)),
    Change("log", "CRC not checked", put(crc_ok=None), has(crc_ok=True)),
    Change("log", "another timestamp", plus(-500, "timestamp_us")),
    Change("log", "not committed", put(committed=False)),
    Change("log", "of the next input", plus(1, "input_offset"), has(input_offset=...)),
    Change("log", "counted once more", plus(1, "count"), has(count=...)),
    Change("log", "without a count", put(count=None), has(count=...)),
    Change("log", "of no input", put(input_topic=None), has(input_offset=...)),
    Change("deliveries", "again", _again),
    Change("deliveries", "offset + 1", plus(1, "offset")),
    Change("deliveries", "offset - 1", plus(-1, "offset"), above_zero("offset")),
    Change("deliveries", "offset beyond the end", plus(FAR, "offset")),
    Change("deliveries", "another partition", _elsewhere),
    Change("deliveries", "another seq", plus(FAR, "seq"), has(seq=...)),
    Change("deliveries", "another producer incarnation", plus(FAR, "producer_incarnation"), has(producer=...)),
    Change("deliveries", "without identity", put(producer=None, producer_incarnation=None, seq=None, sent_us=None)),
    Change("deliveries", "last in order", plus(FAR, "ordinal")),
    Change("deliveries", "processed late", plus(LATE_US, "processed_us")),
    Change("deliveries", "polled early", plus(-500, "polled_us")),
    Change("deliveries", "polled before everything", put(polled_us=0)),
    Change("deliveries", "under another assignment", plus(FAR, "assignment"), has(assignment=...)),
    Change("deliveries", "under no assignment", put(assignment=None)),
    Change("deliveries", "by another incarnation", plus(FAR, "incarnation")),
    Change("deliveries", "by another consumer", _by_another),
    Change("deliveries", "sent later than delivered", plus(LATE_US, "sent_us"), has(sent_us=...)),
    Change("deliveries", "another leader epoch and send time", put(leader_epoch=7, sent_us=7)),
    Change("commits", "offset + 1", plus(1, "offset")),
    Change("commits", "offset + 3", plus(3, "offset")),
    Change("commits", "offset - 1", plus(-1, "offset"), above_zero("offset")),
    Change("commits", "offset 0", put(offset=0), above_zero("offset")),
    Change("commits", "ok made unknown", put(outcome="unknown"), has(outcome="ok")),
    Change("commits", "ok made fail", put(outcome="fail"), has(outcome="ok")),
    Change("commits", "fail made ok", put(outcome="ok"), has(outcome="fail")),
    Change("commits", "requested before everything", put(requested_us=0)),
    Change("commits", "completed late", plus(LATE_US, "completed_us")),
    Change("commits", "later", plus(LATE_US, "requested_us", "completed_us")),
    Change("commits", "another partition", _elsewhere),
    Change("commits", "under no assignment", put(assignment=None), has(assignment=...)),
    Change("commits", "under another assignment", plus(FAR, "assignment"), has(assignment=...)),
    Change("commits", "by another consumer", _by_another),
    Change("commits", "made auto", put(kind="auto", requested_us=lambda row: row["completed_us"])),
    Change("commits", "unknown made ok", put(outcome="ok"), has(outcome="unknown")),
    Change("log_range", "read back a week later", put(read_from_us=8 * 86_400_000_000), has(read_us=None)),
    Change("commit_log", "left out", drop),
    Change("commit_log", "offset + 1", plus(1, "offset")),
    Change("commit_log", "long before", plus(-LATE_US, "appended_us")),
    Change("commit_log", "of an aborted transaction", put(transaction="aborted")),
    Change("commit_log_range", "left out", drop),
    Change("commit_log_range", "not whole", put(whole=False)),
    Change("assignments", "position + 1", plus(1, "position"), has(position=...)),
    Change("assignments", "position - 1", plus(-1, "position"), above_zero("position")),
    Change("assignments", "position not recorded", put(position=None, source=None), has(position=...)),
    Change("assignments", "said to be committed", put(source="committed"), has(source=...)),
    Change("assignments", "said to be a reset", put(source="reset"), has(source=...)),
    Change("assignments", "said to be a given start", put(source="start"), has(source=...)),
    Change("assignments", "said to be a seek", put(event="seek", source="seek"), has(event="assigned")),
    Change("assignments", "generation + 1", plus(1, "generation"), has(generation=...)),
    Change("assignments", "generation - 1", plus(-1, "generation"), above_zero("generation")),
    Change("assignments", "generation not recorded", put(generation=None), has(generation=...)),
    Change("assignments", "another instance", put(instance_id="x"), has(instance_id=..., event="assigned")),
    Change("assignments", "dynamic", put(instance_id=None), has(instance_id=..., event="assigned")),
    Change("assignments", "revoked made lost", put(event="lost"), has(event="revoked")),
    Change("assignments", "lost made revoked", put(event="revoked"), has(event="lost")),
    Change("assignments", "later", plus(LATE_US, "at_us")),
    Change("assignments", "another partition", _elsewhere),
    Change("assignments", "another number", plus(FAR, "assignment"), has(assignment=...)),
    Change("assignments", "of another consumer", _by_another),
    Change("assignments", "another member id", put(member_id="x")),
    Change("acquisitions", "again", _reacquired),
    Change("acquisitions", "delivery count + 1", plus(1, "delivery_count")),
    Change("acquisitions", "delivery count far too high", plus(FAR, "delivery_count")),
    Change("acquisitions", "another incarnation", plus(FAR, "incarnation")),
    Change("acknowledgements", "made unknown", put(outcome="unknown", error="TIMEOUT")),
    Change("acknowledgements", "refused", put(outcome="unknown", error="INVALID_RECORD_STATE")),
    Change("acknowledgements", "made release", put(type="release")),
    Change("acknowledgements", "late", plus(LATE_US, "requested_us", "completed_us")),
    Change("lifecycle", "stopped made crashed", put(event="crashed"), has(event="stopped")),
    Change("lifecycle", "crashed made stopped", put(event="stopped"), has(event="crashed")),
    Change("lifecycle", "another incarnation", plus(FAR, "incarnation")),
    Change("lifecycle", "later", plus(LATE_US, "at_us")),
    Change("cluster", "committed + 1", put(value=lambda row: str(int(row["value"]) + 1)), is_committed),
    Change("cluster", "committed - 1", put(value=lambda row: str(int(row["value"]) - 1)), is_committed),
    Change("cluster", "committed made null", put(value="null"), has(key="committed")),
    Change("cluster", "last stable offset - 1", _lower, has(key="last_stable_offset")),
    Change("cluster", "another coordinator", put(value="2"), has(key="coordinator")),
    Change("cluster", "all partitions to one member", _all_to_one, has(key="members")),
    Change("cluster", "later", plus(LATE_US, "at_us")),
    Change("faults", "later", plus(LATE_US, "at_us")),
    Change("faults", "of another group", put(target="group nobody's"), of_a_group),
    Change("faults", "to another offset", put(evidence=_other_offsets), sets_offsets),
    Change("faults", "deleted further", put(evidence=_deleted_further), has(kind="topic.delete_records")),
]


def mutants(change: Change, rows: Rows) -> Iterator[tuple[Row, Rows]]:
    """Each row that the change applies to and makes a difference to, and the ledger with it changed."""
    table_rows = rows.get(change.table, [])
    for index, row in enumerate(table_rows):
        if change.only(row) and (instead := change.edit(row, rows)) != [row]:
            mutant = rows | {change.table: [*table_rows[:index], *instead, *table_rows[index + 1 :]]}
            if unambiguous(mutant) == {table: [] for table in SINGLE} | mutant:
                yield row, mutant


def disturb(rng: random.Random, rows: Rows, times: int) -> None:
    """Change some rows at random."""
    for _ in range(times):
        change = rng.choice(CHANGES)
        table_rows = rows.get(change.table, [])
        fitting = [i for i, row in enumerate(table_rows) if change.only(row)]
        if fitting:
            index = rng.choice(fitting)
            table_rows[index : index + 1] = change.edit(table_rows[index], rows)
    rows |= unambiguous(rows)


SINGLE = ("log", "deliveries", "assignments", "commits", "acquisitions", "acknowledgements")


def unambiguous(rows: Rows) -> Rows:
    """Without rows that contradict each other: two records at one offset, or in one order of processing."""
    places = {(r["partition"], r["start"]) for r in rows["log_range"]}
    starts = {partition: max(start for p, start in places if p == partition) for partition, _ in places}
    inside = [r for r in rows.get("log", []) if r["offset"] >= starts.get(r["partition"], 0)]
    return rows | {
        "log": _once(inside, "topic", "partition", "offset"),
        "deliveries": _once_or_same(rows.get("deliveries", []), "consumer", "incarnation", "ordinal"),
        "assignments": _assignments(rows.get("assignments", [])),
        "commits": _auto_once(rows.get("commits", [])),
        "acquisitions": _once(rows.get("acquisitions", []), "consumer", "incarnation", "ordinal"),
        "acknowledgements": _once(rows.get("acknowledgements", []), "consumer", "incarnation", "ordinal"),
    }


def _once(table_rows: list[Row], *key: str) -> list[Row]:
    return list({tuple(row[name] for name in key): row for row in reversed(table_rows)}.values())[::-1]


def _once_or_same(table_rows: list[Row], *key: str) -> list[Row]:
    """A row may be repeated as it is."""
    first: dict[tuple[Any, ...], Row] = {}
    return [row for row in table_rows if first.setdefault(tuple(row[name] for name in key), row) == row]


_EPOCH = ("consumer", "incarnation", "assignment", "topic", "partition")


def _assignments(table_rows: list[Row]) -> list[Row]:
    begun = [r for r in table_rows if r["event"] in ("assigned", "seek")]
    ended = [r for r in table_rows if r["event"] not in ("assigned", "seek")]
    kept = [*_once_or_same(begun, *_EPOCH), *_once_or_same(ended, *_EPOCH, "at_us")]
    return [row for row in table_rows if any(row is k for k in kept)]


def _auto_once(table_rows: list[Row]) -> list[Row]:
    auto = _once([r for r in table_rows if r["kind"] == "auto"], *_EPOCH, "completed_us")
    return [row for row in table_rows if row["kind"] != "auto" or any(row is a for a in auto)]
