"""What readers got and did not get.

skipped_delivery, stalled_delivery, lost_processing, evicted_delivery; duplicate_delivery, dirty_read,
nonmonotonic_poll, poll_skip.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Ints, nullable
from checks.audit.engine.counters import DELIVERED, IN_RANGE
from checks.audit.engine.group import sections
from checks.audit.engine.summaries import falls
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.epochs import Epoch
from checks.audit.facts.ranges import lost_range
from checks.audit.facts.run_facts import COMMITTED, NO_TXN, UNKNOWN_END
from checks.audit.findings import CAP, NO_BEGIN, NO_END, OPEN, UNREAD, Finding
from checks.audit.rules.cleanup import behind_by
from checks.audit.rules.partition_block import PartitionBlock, ReaderBlock
from checks.audit.rules.rule import COMMITTING, READERS, Evidence, Rule, RunData, present

GONE = ("crashed", "lost")
"""Ends of an epoch after which its member does not go on."""
EVICTABLE = total("evictable")
"""Acknowledged records of a reader's range that are below the log start, by reader."""


def undelivered(r: ReaderBlock, tally: Tally) -> None:
    """Report log records of a reader's range that it never got, as one of three anomalies.

    lost_processing: an epoch began at or before the record, delivered nothing after it (or polled it, and its workers
    died before it was done), and committed past it. skipped_delivery: a later record was delivered to the reader or
    committed past, the reader began above it on a partition that is completely in its range, or its last position is
    above it. stalled_delivery: none of these; the drain ended first. A read_committed reader has to get only records
    that such a reader of the final log sees. Undecided for it: records from the last stable offset on.
    """
    got = np.zeros(len(r.block.row), np.bool_)
    got[r.at[r.same]] = True
    log = r.block.log
    missing = np.flatnonzero(~got[log["offset"] - r.block.base] & r.visible())
    if r.range.start is None:
        tally.report_undecided("stalled_delivery", r.name, len(missing), NO_BEGIN)
        return
    missing = missing[log["offset"][missing] >= r.range.start]
    offset, readable = log["offset"][missing], r.readable()[missing]
    passed_by = np.full(len(missing), NONE, np.int64)
    lost = [*r.range.lost, *_unfinished(r)]
    for nth, gap in reversed(list(enumerate(lost))):
        passed_by[(offset >= gap["begin"]) & (offset < gap["end"])] = nth
    later = NONE if r.range.beyond is None else r.range.beyond
    checks = {
        "lost_processing": passed_by >= 0,
        "skipped_delivery": (passed_by < 0) & (offset < later),
        "stalled_delivery": (passed_by < 0) & (offset >= later),
    }
    for check, mask in checks.items():
        tally.report_undecided(check, r.name, int((mask & ~readable).sum()), OPEN)
        rows = np.flatnonzero(mask & readable)
        shown = (_missing(r, int(missing[i]), lost[passed_by[i]] if passed_by[i] >= 0 else None) for i in rows[:CAP])
        tally.report(check, r.name, len(rows), shown)


def _unfinished(r: ReaderBlock) -> list[dict[str, Any]]:
    """Return the ranges that epochs of the reader polled, did not finish, and committed past; as `ReadRange.lost`."""
    found, gaps = [], r.block.gaps
    for i in np.flatnonzero(gaps["polled"]).tolist():
        e = r.facts.epochs.all[int(gaps["epoch"][i])]
        begin, end = int(gaps["begin"][i]), min(int(gaps["end"][i]), e.passed or 0)
        if e.reader == r.name:
            found.append(lost_range(e, begin, end))
    return found


def _missing(r: ReaderBlock, row: int, past: dict[str, Any] | None) -> dict[str, Any]:
    added_partition = r.range.added_partition
    evidence = {
        "range_start": r.range.start,
        "highest_delivered": r.range.high,
        "highest_committed": r.range.passed,
        "epochs": r.range.epochs,
        "log_end": r.range.log_end,
        "past": past,
        "reader_began_us": added_partition.began_us if added_partition else None,
        "partition_seen_us": added_partition.seen_us if added_partition else None,
        "topic_was_deleted": r.range.succeeds or None,
    }
    log, consumer = r.block.log, past["consumer"] if past else None
    return r.block.record(log, row, consumer=consumer, at_us=nullable(log["timestamp_us"][row]), evidence=evidence)


def _turns(f: Finding, c: RunData) -> list[Epoch]:
    """Return the epochs of the reader on the partition of a finding."""
    return c.facts.epochs.turns.get((f["scope"], f["topic"], f["partition"]), [])


def _explain_skipped(f: Finding, e: Evidence, c: RunData) -> str:
    offset = f["offset"]
    turns = _turns(f, c)
    if "partition_seen_us" in e and turns and turns[0].start is not None and turns[0].start > offset:
        return _explain_new_member(f, e, turns[0])
    for epoch in turns:
        if (begun := _begun(epoch)) is not None and epoch.high is not None and begun <= offset <= epoch.high:
            inside = epoch.low is not None and epoch.low <= offset
            how = (
                f"delivered {epoch.low} to {epoch.high}"
                if inside
                else f"began at {begun} and delivered {epoch.low} first"
            )
            return f"{epoch.consumer} left it out within one assignment (it {how})"
    return _explain_begin(f, e, turns)


def _begun(epoch: Epoch) -> int | None:
    """Return the position at which an epoch began, or its lowest delivery if that is lower, or the position unknown."""
    return min((at for at in (epoch.start, epoch.low) if at is not None), default=None)


def _explain_begin(f: Finding, e: Evidence, turns: list[Epoch]) -> str:
    """Return which epoch began above a record: the first one after the last that began at or below it."""
    offset = f["offset"]
    begins = [_begun(epoch) for epoch in turns]
    near = max((i for i, at in enumerate(begins) if at is not None and at <= offset), default=-1)
    beyond = next((i for i, at in enumerate(begins) if i > near and at is not None), None)
    if beyond is None:
        return ""
    epoch, earlier = turns[beyond], turns[:beyond]
    came = [at for t in earlier for at in (t.start, t.passed, None if t.high is None else t.high + 1)]
    reached = max((at for at in came if at is not None and at <= offset), default=None)
    e |= present(epoch_start=epoch.start, reached_before=reached)
    began = f"{epoch.consumer} began at {epoch.start} ({epoch.why})"
    if epoch.start is None:
        began = f"{epoch.consumer} delivered {epoch.low} first, and where it began is unknown"
    if reached is not None:
        e |= present(start_why=epoch.why or None)
        return f"{began}, though only {reached} had been reached"
    if "topic_was_deleted" in e:
        return f"{f['topic']} was deleted and created again, and {began.replace(' (', ' of the new topic (', 1)}"
    return f"{began}, though {f['scope']} has to read from {e['range_start']}"


def _explain_new_member(f: Finding, e: Evidence, first: Epoch) -> str:
    e |= present(epoch_start=first.start)
    added_s = (e["partition_seen_us"] - e["reader_began_us"]) / 1e6
    found_s = max(first.begin_us - e["partition_seen_us"], 0) / 1e6
    return (
        f"partition added, auto.offset.reset=latest: {f['topic']}/{f['partition']} was created when {f['scope']} had "
        f"been reading for {added_s:.1f} s, and {first.consumer}, which found it {found_s:.1f} s later, began at its "
        f"end, {first.start}; auto.offset.reset=earliest prevents that, a smaller metadata.max.age.ms only leaves out "
        "less"
    )


def _explain_stalled(f: Finding, e: Evidence, c: RunData) -> str:
    turns = _turns(f, c)
    if not turns:
        held = f"no consumer of {f['scope']} ever held {f['topic']}/{f['partition']}"
        return f"{held}, so a longer drain would not have helped"
    last = turns[-1]
    reached = f"delivered to {last.high}" if last.high is not None else f"begun at {last.start} and delivered nothing"
    gone = "; nobody held it after that, so a longer drain would not have helped" if last.end_reason in GONE else ""
    ended = f"when its epoch ended ({last.end_reason})"
    return f"{last.consumer}, the last to hold the partition, had {reached} {ended}{gone}"


def _explain_lost(f: Finding, e: Evidence, c: RunData) -> str:
    past = e["past"]
    done = past.get("processed_to")
    processed = f"had processed only to {done + 1}" if done is not None else "had processed nothing"
    return f"{past['consumer']} committed {past['end']} but {processed} when its epoch ended ({past['end_reason']})"


def evicted_delivery(r: ReaderBlock, tally: Tally) -> None:
    """Report acknowledged records of a reader's range that are below the log start and were never delivered to it.

    Retention or delete-records removed them before they were read, so they are neither lost nor skipped. The range
    begins where the reader first began on the partition. Undecided if that is unknown, or if the end of the record's
    transaction is. Only read_uncommitted readers have to get records of aborted transactions. Records without an
    acknowledged offset (acks=0, outcome unknown) cannot be located and are left out.
    """
    acks, log_start, began_at = r.block.acks, r.range.log_start, r.range.began_at
    if not len(acks["offset"]) or log_start is None:
        return
    required = np.ones(len(acks["offset"]), np.bool_)
    if r.range.committed_only:
        required = np.isin(acks["end"], (NO_TXN, COMMITTED, UNKNOWN_END))
    rows = np.flatnonzero(required & (acks["offset"] < log_start) & (acks["offset"] >= (began_at or 0)))
    rows = rows[np.lexsort((acks["seq"][rows], acks["sender"][rows], acks["offset"][rows]))]
    rows = rows[np.unique(acks["offset"][rows], return_index=True)[1]]
    tally.add(EVICTABLE, r.name, value=len(rows))
    missing = rows[~np.isin(acks["offset"][rows], r.rows["offset"])]
    unsure = np.full(len(missing), began_at is None)
    if r.range.committed_only:
        unsure |= acks["end"][missing] == UNKNOWN_END
    if began_at is None:
        tally.report_undecided("evicted_delivery", r.name, len(missing), NO_BEGIN)
    else:
        tally.report_undecided("evicted_delivery", r.name, int(unsure.sum()), NO_END)
    evicted: Ints = missing[~unsure]
    tally.report("evicted_delivery", r.name, len(evicted), (_evicted(r, i) for i in evicted[:CAP].tolist()))


def _evicted(r: ReaderBlock, i: int) -> dict[str, Any]:
    acked_us = int(r.block.acks["completed_us"][i])
    evidence = {
        "log_start": r.range.log_start,
        "log_end": r.range.log_end,
        "begun_at": r.range.began_at,
        "highest_delivered": r.range.high,
        "highest_committed": r.range.passed,
        "acked_us": acked_us,
    }
    return r.block.record(r.block.acks, i, at_us=acked_us, evidence=evidence)


def _explain_evicted(f: Finding, e: Evidence, c: RunData) -> str:
    turns = [t for t in _turns(f, c) if t.rows]
    behind = max((t.high for t in turns if t.high is not None and t.high < f["offset"]), default=None)
    reached = f"had delivered to {behind}" if behind is not None else f"had begun at {e['begun_at']}"
    went_on = min((t.low for t in turns if t.low is not None and t.low > f["offset"]), default=None)
    more = f" and went on at {went_on}" if went_on is not None else ""
    by = behind_by(c.scenario, f["producer"] or "", f["topic"]) or "retention or delete-records"
    return f"{f['scope']} {reached}{more}; the log now begins at {e['log_start']} ({by})"


REMOVED = total("removed_since")
"""Deliveries of records that retention, compaction or an administrator removed from the log since, by reader."""
OF_MIXED = total("delivered_of_mixed")
"""Deliveries with an unknown life of their topic, by reader."""
UNREAD_DELIVERED = total("delivered_of_unread")
"""Deliveries from partitions that were not read back, by reader."""


def duplicate_delivery(r: ReaderBlock, tally: Tally) -> None:
    """Report repeated deliveries of a log record to a reader.

    legal: in a later epoch with a legal start at or before the record. illegal: any other.
    """
    rows = r.repeated()
    if not len(rows):
        return
    sender, seq, offset = (r.rows[n][rows].copy() for n in ("sender", "seq", "offset"))
    anonymous = ~r.named[rows]  # a delivery without an identity is of the record that the log has there
    row = r.log_row[rows]
    in_log = anonymous & (row >= 0)
    sender[anonymous], seq[anonymous] = NONE, NONE
    sender[in_log], seq[in_log] = r.block.log["sender"][row[in_log]], r.block.log["seq"][row[in_log]]
    present, local = np.unique(r.rows["epoch"][rows], return_inverse=True)
    epochs = [r.facts.epochs.all[number] for number in present.tolist()]
    turns = np.array([e.turn for e in epochs], np.int64)
    legal_start = np.array([e.legal for e in epochs])
    starts = np.array([e.start or 0 for e in epochs], np.int64)
    order = np.lexsort((r.rows["ordinal"][rows], turns[local], seq, sender, offset))
    rows, sender, seq, offset, local = (c[order] for c in (rows, sender, seq, offset, local))
    repeat = np.flatnonzero((offset[1:] == offset[:-1]) & (sender[1:] == sender[:-1]) & (seq[1:] == seq[:-1])) + 1
    now, before = local[repeat], local[repeat - 1]
    legal = legal_start[now] & (turns[now] > turns[before]) & (starts[now] <= offset[repeat])
    for split, mask in (("legal", legal), ("illegal", ~legal)):
        chosen = repeat[mask]
        shown = (
            _repeated(r, int(rows[i]), int(rows[i - 1])) | r.block.identity(int(sender[i]), seq[i])
            for i in chosen[:CAP].tolist()
        )
        tally.report("duplicate_delivery", r.name, len(chosen), shown, split)


def _repeated(r: ReaderBlock, i: int, first: int) -> dict[str, Any]:
    now, before = r.epoch(i), r.epoch(first)
    return r.delivery(
        i,
        **now.holder,
        turn=now.turn,
        epoch_start=now.start,
        legal_start=now.legal,
        start_why=now.why,
        epoch_began_us=now.begin_us,
        first_consumer=before.consumer,
        first_consumer_incarnation=before.incarnation,
        first_assignment=before.assignment,
        first_turn=before.turn,
        first_processed_us=int(r.rows["processed_us"][first]),
    )


def _explain_duplicate(f: Finding, e: Evidence, c: RunData) -> str:
    key = e["first_consumer"], e["first_consumer_incarnation"], e["first_assignment"], f["topic"], f["partition"]
    before = c.facts.epochs.by_key.get(key)
    if before is None or before.high is None:
        return ""
    if e["turn"] == e["first_turn"]:
        return f"{f['consumer']} delivered it twice within one assignment"
    reached, committed = before.high + 1, before.committed
    e |= present(earlier_processed_to=reached, earlier_committed=committed, earlier_end=before.end_reason)
    since = committed if committed is not None else before.start
    if since is not None:
        e["uncommitted_bound"] = max(reached - since, 0)
    done = f"{before.consumer} had processed to {reached}"
    if not e["start_why"].startswith("its checkpoint"):
        done += f" and committed {committed}" if committed is not None else " and committed nothing"
    start = e.get("epoch_start")
    began = f"{f['consumer']} began at {start}: {e['start_why']}"
    if start is not None and f["offset"] < start:
        began += f", and yet delivered {f['offset']}"
    return f"{began}; {done} when its epoch ended ({before.end_reason})"


def dirty_read(r: ReaderBlock, tally: Tally) -> None:
    """Report deliveries without a record in the final log, or with another one at their offset.

    Below the log start the record was evicted since, in a compacted topic it may have been compacted away: no finding.
    A delivery without an identity is judged by presence. Undecided in a partition that was not read back. Records of
    a deleted topic are gone by order.
    """
    if r.block.topic in r.facts.lives.ended:
        tally.add(REMOVED, r.name, value=len(r.at))
        return
    wrong = ~r.present | ~r.same
    removed = np.zeros_like(wrong)
    if r.range.log_start is not None:
        removed |= r.rows["offset"] < r.range.log_start
    if r.block.topic in r.facts.compacted:
        removed |= ~r.present
    tally.add(REMOVED, r.name, value=int((wrong & removed).sum()))
    rows = np.flatnonzero(wrong & ~removed)
    if r.range.log_start is None:
        tally.report_undecided("dirty_read", r.name, len(rows), UNREAD)
    else:
        r.report("dirty_read", rows, lambda i: _dirty(r, i), tally)


def _dirty(r: ReaderBlock, i: int) -> dict[str, Any]:
    in_log, log, row = None, r.block.log, int(r.log_row[i])
    if r.present[i]:
        in_log = r.block.identity(int(log["sender"][row]), log["seq"][row])
    bounds = {"log_start": r.range.log_start, "log_end": r.range.log_end}
    return r.delivery(i, in_log=in_log, **bounds, assignment=r.epoch(i).assignment)


def _explain_dirty(f: Finding, e: Evidence, c: RunData) -> str:
    after = c.observed.next_leader(f["topic"], f["partition"], f["at_us"])
    now = "another record is there now" if e.get("in_log") else "the log has no record there now"
    if after is None or after.broker is None:
        return f"delivered, but {now}"
    e |= present(next_leader=after.broker, next_leader_epoch=after.epoch)
    return f"delivered before broker {after.broker} became leader in epoch {after.epoch}; {now}"


def nonmonotonic_poll(run: RunData, tally: Tally) -> None:
    """Report deliveries within an epoch, in the order of processing, with an offset not above the one before."""
    for e in run.facts.epochs.all:
        if e.topic in run.facts.lives.mixed:
            tally.add(OF_MIXED, e.reader, value=e.rows)
        if run.facts.log_ranges.get((e.topic, e.partition), (None, None))[0] is None:
            tally.add(UNREAD_DELIVERED, e.reader, value=e.rows)
    for key, count, deliveries in falls(run.survey):
        epoch = run.facts.epochs.by_key[key]
        if epoch.topic in run.facts.lives.mixed:
            continue
        tally.report("nonmonotonic_poll", epoch.reader, count, (_fallen(epoch, row) for row in deliveries))


def _fallen(e: Epoch, row: dict[str, Any]) -> dict[str, Any]:
    evidence = {"previous_offset": row["before"], "ordinal": row["ordinal"], **e.holder}
    record = {name: row[name] for name in ("offset", "producer", "incarnation", "seq")}
    position = {"topic": e.topic, "partition": e.partition, "consumer": e.consumer, "at_us": row["processed_us"]}
    return record | position | {"evidence": evidence}


def poll_skip(block: PartitionBlock, tally: Tally) -> None:
    """Report log records that an epoch left out between its start (or first delivery) and its highest delivery."""
    unpolled = block.gaps["polled"] == 0
    gaps = {name: column[unpolled] for name, column in block.gaps.items()}
    for (number,), rows in sections(gaps["epoch"]):
        epoch = block.facts.epochs.all[number]
        begin, end = rows.ints(gaps["begin"]) - block.base, rows.ints(gaps["end"]) - block.base
        left_out = _covered(begin, end, len(block.row)) & (block.row >= 0)
        if epoch.reader not in block.facts.read_uncommitted:
            left_out &= block.committed(np.arange(len(block.row))) != 0
        delivered = block.deliveries["offset"][block.deliveries["epoch"] == number]
        left_out[delivered - block.base] = False
        found = np.flatnonzero(left_out)
        order = np.argsort(begin, kind="stable")
        gap_of = order[np.searchsorted(begin[order], found[:CAP], "right") - 1]
        shown = (
            _left_out(block, epoch, at, {n: int(rows.ints(gaps[n])[gap]) for n in gaps})
            for at, gap in zip(found[:CAP].tolist(), gap_of.tolist(), strict=True)
        )
        tally.report("poll_skip", epoch.reader, len(found), shown)


def _covered(begin: Ints, end: Ints, size: int) -> Any:
    """Return a mask of the positions 0 to size that at least one range covers."""
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, np.clip(begin, 0, size), 1)
    np.add.at(edges, np.clip(end, 0, size), -1)
    return np.cumsum(edges[:-1]) > 0


def _left_out(block: PartitionBlock, epoch: Epoch, at: int, gap: dict[str, int]) -> dict[str, Any]:
    evidence = {"expected_offset": gap["expected"], "delivered_instead": gap["next_offset"], **epoch.holder}
    times = {"consumer": epoch.consumer, "at_us": gap["processed_us"]}
    return block.record(block.log, int(block.row[at]), **times, evidence=evidence)


RULES = {
    "skipped_delivery": Rule(examines=(IN_RANGE,), explain=_explain_skipped, scopes=READERS, reader=undelivered),
    "stalled_delivery": Rule(examines=(IN_RANGE,), explain=_explain_stalled, scopes=READERS, reader=undelivered),
    "lost_processing": Rule(
        examines=(IN_RANGE,),
        explain=_explain_lost,
        scopes=COMMITTING,
        needs_clock=True,
        reader=undelivered,
    ),
    "evicted_delivery": Rule(
        examines=(IN_RANGE, EVICTABLE),
        explain=_explain_evicted,
        scopes=READERS,
        counts_undecided=True,
        reader=evicted_delivery,
    ),
    "duplicate_delivery": Rule(
        examines=(DELIVERED,),
        explain=_explain_duplicate,
        scopes=READERS,
        needs_clock=True,
        reader=duplicate_delivery,
    ),
    "dirty_read": Rule(
        examines=(DELIVERED,),
        explain=_explain_dirty,
        scopes=READERS,
        leaves_out={REMOVED: "the log has removed the records since"},
        counts_undecided=True,
        reader=dirty_read,
    ),
    "nonmonotonic_poll": Rule(
        examines=(DELIVERED,),
        explain="{consumer} delivered {offset} after {previous_offset}",
        scopes=READERS,
        leaves_out={OF_MIXED: "to which of the topics with their name they belong is unknown"},
        run=nonmonotonic_poll,
    ),
    "poll_skip": Rule(
        examines=(DELIVERED,),
        explain="{consumer} went on at {delivered_instead} instead of {expected_offset}",
        scopes=READERS,
        leaves_out={UNREAD_DELIVERED: "their partitions are not in the log that was read back"},
        reads=poll_skip,
    ),
}
