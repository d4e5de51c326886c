"""The read path, per reader: what is in the log against what was delivered, epoch by epoch.

`judge_reads` gets one block: the log records of some offsets of one partition, and everybody's deliveries of them. One
finding needs no block and is made from the survey of the deliveries alone: `nonmonotonic_poll`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.epochs import Epoch, Key
from checks.audit.evicted import evicted_delivery
from checks.audit.findings import CAP, UNDETERMINED, Finding, finding
from checks.audit.isolation import isolation
from checks.audit.large.case import Case
from checks.audit.large.columns import NONE, known
from checks.audit.large.group import Rows, runs, sections
from checks.audit.large.pack import Columns
from checks.audit.large.tally import Tally, histogram
from checks.audit.large.times import heat, moments
from checks.audit.ranges import lost_range
from checks.audit.read_block import Place, Reader
from checks.audit.reuse import offset_reuse


def judge_reads(
    topic: str,
    partition: int,
    log: Columns,
    deliveries: Columns,
    gaps: Columns,
    acks: Columns,
    case: Case,
    tally: Tally,
) -> None:
    """All rules of the read path on one block. The columns are `cut.RECORD`, `DELIVERY`, `GAP` and `ACK`."""
    place = Place.of(topic, partition, log, deliveries, acks, case)
    names = sorted({e.reader for e in case.epochs})
    number = {name: i for i, name in enumerate(names)}
    reader_of = np.array([number[e.reader] for e in case.epochs] or [0], np.int64)
    whose = {names[i]: mine for (i,), mine in sections(reader_of[deliveries["epoch"]])}
    for owed in case.places.get((topic, partition), []):
        mine = whose.get(owed.reader, Rows(np.zeros(1, np.int64), np.zeros(1, np.int64)))
        r = Reader(place, owed, {n: mine.ints(c) for n, c in deliveries.items()})
        tally.add("sum", "in_range", owed.reader, value=r.in_range())
        undelivered(r, gaps, tally)
        dirty_read(r, tally)
        duplicate_delivery(r, tally)
        evicted_delivery(r, acks, tally)
        isolation(r, acks, tally)
        _times(r, tally)
    offset_reuse(place, deliveries, acks, tally)
    poll_skip(place, deliveries, gaps, tally)


def undelivered(r: Reader, gaps: Columns, tally: Tally) -> None:
    """Log records in a reader's range that it never got: lost_processing, skipped_delivery or stalled_delivery.

    lost_processing: some epoch began at or before it, delivered nothing after it (or polled it, and its workers died
    before it was done), and committed past it. skipped: a later record was delivered to the reader, or committed past,
    or the reader began above it on a partition that is all in its range.
    stalled: neither, the drain ended before it came. A read_committed reader has to get no records but those that such
    a reader of the final log sees.
    """
    got = np.zeros(len(r.place.row), np.bool_)
    got[r.at[r.same]] = True
    log, owed = r.place.log, r.owed
    missing = np.flatnonzero(~got[log["offset"] - r.place.base] & r.visible())
    offset = log["offset"][missing]
    if owed.range_start is None:
        tally.find([], "stalled_delivery", UNDETERMINED, r.name, len(missing))
        return
    missing = missing[offset >= owed.range_start]
    offset = log["offset"][missing]
    passed_by = np.full(len(missing), NONE, np.int64)
    lost = [*owed.lost, *_unfinished(r, gaps)]
    for nth, gap in reversed(list(enumerate(lost))):
        passed_by[(offset >= gap["begin"]) & (offset < gap["end"])] = nth
    later = max((v for v in (owed.high, owed.passed, owed.went_to) if v is not None), default=NONE)
    kinds = {
        "lost_processing": passed_by >= 0,
        "skipped_delivery": (passed_by < 0) & (offset < later),
        "stalled_delivery": (passed_by < 0) & (offset >= later),
    }
    for check, which in kinds.items():
        rows = np.flatnonzero(which)
        shown = [_missing(r, check, int(missing[i]), lost, int(passed_by[i])) for i in rows[:CAP]]
        tally.find(shown, check, "", r.name, len(rows))


def _unfinished(r: Reader, gaps: Columns) -> list[dict[str, Any]]:
    """What epochs of the reader polled, did not get done, and committed past; as `ranges.Owed.lost`."""
    found = []
    for i in np.flatnonzero(gaps["polled"]).tolist():
        e = r.case.epochs[int(gaps["epoch"][i])]
        begin, end = int(gaps["begin"][i]), min(int(gaps["end"][i]), e.passed or 0)
        if e.reader == r.name and begin < end:
            found.append(lost_range(e, begin, end))
    return found


def _missing(r: Reader, check: str, row: int, lost: list[dict[str, Any]], passed_by: int) -> Finding:
    log, owed = r.place.log, r.owed
    producer, incarnation = r.case.who[int(log["who"][row])]
    past = lost[passed_by] if passed_by >= 0 else None
    evidence = {
        "range_start": owed.range_start,
        "highest_delivered": owed.high,
        "highest_committed": owed.passed,
        "epochs": owed.epochs,
        "log_end": owed.log_end,
        "past": past,
        "reader_began_us": owed.newcomer.began_us if owed.newcomer else None,
        "partition_seen_us": owed.newcomer.seen_us if owed.newcomer else None,
    }
    return finding(
        check,
        r.name,
        **r.at_offset(int(log["offset"][row])),
        producer=producer,
        incarnation=known(incarnation),
        seq=known(log["seq"][row]),
        consumer=past["consumer"] if past else None,
        at_us=known(log["timestamp"][row]),
        evidence=evidence,
    )


def duplicate_delivery(r: Reader, tally: Tally) -> None:
    """The same log record delivered again to a reader. Legal: in a later epoch with a legal start at or before it."""
    rows = r.again()
    if not len(rows):
        return
    who, seq, offset = (r.rows[n][rows].copy() for n in ("who", "seq", "offset"))
    taken = ~r.named[rows]  # a delivery without identity is of whatever the log has there
    found = r.in_log[rows]
    there = taken & (found >= 0)
    who[taken], seq[taken] = NONE, NONE
    who[there], seq[there] = r.place.log["who"][found[there]], r.place.log["seq"][found[there]]
    turns = np.array([e.turn for e in r.case.epochs], np.int64)
    legal = np.array([e.legal and e.start is not None for e in r.case.epochs])
    starts = np.array([e.start if e.start is not None else 0 for e in r.case.epochs], np.int64)
    epoch = r.rows["epoch"][rows]
    order = np.lexsort((r.rows["ordinal"][rows], turns[epoch], seq, who, offset))
    rows, who, seq, offset, epoch = (c[order] for c in (rows, who, seq, offset, epoch))
    repeat = np.flatnonzero((offset[1:] == offset[:-1]) & (who[1:] == who[:-1]) & (seq[1:] == seq[:-1])) + 1
    now, before = epoch[repeat], epoch[repeat - 1]
    lawful = legal[now] & (turns[now] > turns[before]) & (starts[now] <= offset[repeat])
    for split, which in (("legal", lawful), ("illegal", ~lawful)):
        chosen = np.flatnonzero(which)
        shown = [
            _repeated(r, split, *(int(v) for v in (rows[i], rows[i - 1], who[i], seq[i]))) for i in repeat[chosen[:CAP]]
        ]
        tally.find(shown, "duplicate_delivery", split, r.name, len(chosen))


def _repeated(r: Reader, split: str, i: int, earlier: int, who: int, seq: int) -> Finding:
    now, before = r.epoch(i), r.epoch(earlier)
    producer, incarnation = r.case.who[who] if who >= 0 else (None, NONE)
    evidence = {
        "consumer_incarnation": now.incarnation,
        "assignment": now.assignment,
        "turn": now.turn,
        "epoch_start": now.start,
        "legal_start": now.legal,
        "start_why": now.why,
        "epoch_began_us": now.begin_us,
        "first_consumer": before.consumer,
        "first_consumer_incarnation": before.incarnation,
        "first_assignment": before.assignment,
        "first_turn": before.turn,
        "first_processed_us": int(r.rows["processed_us"][earlier]),
    }
    told = r.delivery(i) | {"producer": producer, "incarnation": known(incarnation), "seq": known(seq)}
    return finding("duplicate_delivery", r.name, split, evidence, consumer=now.consumer, **told)


def dirty_read(r: Reader, tally: Tally) -> None:
    """Delivered, yet the final log has no record there, or another one. Below the log start it was evicted since, in a
    compacted topic it may have been compacted away: no finding. A delivery without identity is judged by presence."""
    wrong = ~r.present | ~r.same
    if r.owed.log_start is not None:
        wrong &= r.rows["offset"] >= r.owed.log_start
    if r.place.topic in r.case.compacted:
        wrong &= r.present
    rows = np.flatnonzero(wrong)
    if r.owed.log_start is None:
        tally.find([], "dirty_read", UNDETERMINED, r.name, len(rows))
        return
    r.find("dirty_read", rows, lambda i: _instead(r, i), tally)


def _instead(r: Reader, i: int) -> dict[str, Any]:
    in_log = None
    if r.present[i]:
        row = int(r.in_log[i])
        producer, incarnation = r.case.who[int(r.place.log["who"][row])]
        in_log = {"producer": producer, "incarnation": known(incarnation), "seq": known(r.place.log["seq"][row])}
    whose = {"log_start": r.owed.log_start, "log_end": r.owed.log_end, "assignment": r.epoch(i).assignment}
    return {"in_log": in_log, **whose}


def poll_skip(place: Place, deliveries: Columns, gaps: Columns, tally: Tally) -> None:
    """Inside an epoch, a log record between its start (or first delivery) and its highest delivery that it left out."""
    gaps = {name: column[gaps["polled"] == 0] for name, column in gaps.items()}
    for (number,), mine in sections(gaps["epoch"]):
        epoch = place.case.epochs[number]
        begin, end = mine.ints(gaps["begin"]) - place.base, mine.ints(gaps["end"]) - place.base
        size = len(place.row)
        edges = np.zeros(size + 1, np.int64)
        np.add.at(edges, np.clip(begin, 0, size), 1)
        np.add.at(edges, np.clip(end, 0, size), -1)
        left_out = (np.cumsum(edges[:-1]) > 0) & (place.row >= 0)
        if epoch.reader not in place.case.sees_all:
            left_out &= place.committed(np.arange(size)) != 0
        left_out[deliveries["offset"][deliveries["epoch"] == number] - place.base] = False
        found = np.flatnonzero(left_out)
        order = np.argsort(begin, kind="stable")
        shown = []
        for at in found[:CAP].tolist():
            gap = order[int(np.searchsorted(begin[order], at, "right")) - 1]
            shown.append(_left_out(place, epoch, at, {n: int(mine.ints(gaps[n])[gap]) for n in gaps}))
        tally.find(shown, "poll_skip", "", epoch.reader, len(found))


def _left_out(place: Place, epoch: Epoch, at: int, gap: dict[str, int]) -> Finding:
    row = int(place.row[at])
    producer, incarnation = place.case.who[int(place.log["who"][row])]
    return finding(
        "poll_skip",
        epoch.reader,
        topic=place.topic,
        partition=place.partition,
        offset=at + place.base,
        producer=producer,
        incarnation=known(incarnation),
        seq=known(place.log["seq"][row]),
        consumer=epoch.consumer,
        at_us=gap["processed_us"],
        evidence={
            "expected_offset": gap["expected"],
            "delivered_instead": gap["next_offset"],
            "assignment": epoch.assignment,
            "consumer_incarnation": epoch.incarnation,
        },
    )


def nonmonotonic_poll(key: Key, reader: str, count: int, fallen: list[dict[str, Any]], tally: Tally) -> None:
    """Inside an epoch, in the order of processing, an offset that is not above the one before. See `case.falls`."""
    consumer, incarnation, assignment, topic, partition = key
    shown = [
        finding(
            "nonmonotonic_poll",
            reader,
            topic=topic,
            partition=partition,
            offset=row["offset"],
            producer=row["producer"],
            incarnation=row["incarnation"],
            seq=row["seq"],
            consumer=consumer,
            at_us=row["processed_us"],
            evidence={
                "previous_offset": row["before"],
                "ordinal": row["ordinal"],
                "assignment": assignment,
                "consumer_incarnation": incarnation,
            },
        )
        for row in fallen
    ]
    tally.find(shown, "nonmonotonic_poll", "", reader, count)


def _times(r: Reader, tally: Tally) -> None:
    """The first processing of each record: latency from its send, and when records moved around faults."""
    first = r.named & (r.rows["sent_us"] != NONE)
    again = r.again()
    if len(again):
        order = again[np.lexsort((r.rows["processed_us"][again], r.rows["offset"][again]))]
        first[order[1:][r.at[order][1:] == r.at[order][:-1]]] = False
    done, sent = r.rows["processed_us"][first], r.rows["sent_us"][first]
    if not len(done):
        return
    starts = runs(done, sent)
    done, sent, counts = done[starts], sent[starts], np.diff(starts, append=len(done))
    took = np.maximum(done - sent, 0)
    tally.add("counts", "end_to_end_latency", r.name, value=histogram(took, counts))
    heat(tally, "end_to_end", r.name, done, took, counts, r.case.cell_us)
    places = np.full(len(done), r.place.partition, np.int64)
    moments(tally, "consume", f"{r.name} {r.place.topic}", places, done, sent, counts, r.case.injected)
