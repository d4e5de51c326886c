"""Deliveries: duplicate_delivery, dirty_read, nonmonotonic_poll, poll_skip."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Ints
from checks.audit.engine.counters import DELIVERED
from checks.audit.engine.group import sections
from checks.audit.engine.survey_facts import falls
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.epochs import Epoch
from checks.audit.findings import CAP, Finding
from checks.audit.rules.partition_block import PartitionBlock, ReaderBlock
from checks.audit.rules.rule import READERS, Evidence, Rule, RunData, present
from checks.audit.undecided import UNREAD

REMOVED = total("removed_since")
"""Deliveries of records that retention, compaction or an administrator removed from the log since, by reader."""
OF_MIXED = total("delivered_of_mixed")
"""Deliveries of which it is unknown to which life of their topic they belong, by reader."""
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
    legal_start = np.array([e.legal and e.start is not None for e in epochs])
    starts = np.array([e.start if e.start is not None else 0 for e in epochs], np.int64)
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
    A delivery without an identity is judged by presence. Undetermined in a partition that was not read back. Records of
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
        tally.report_undetermined("dirty_read", r.name, len(rows), UNREAD)
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
        counts_undetermined=True,
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
