"""Share groups: lost_share, stalled_share, redelivered_share, miscounted_share, lock_overrun, overlimit_share."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import NEVER_US, NONE, Ints, Mask, nullable
from checks.audit.engine.blocks import OK, REJECT, RELEASE
from checks.audit.engine.counters import CONFIRMED, JUDGED, SHARE_RANGE
from checks.audit.engine.tally import Tally
from checks.audit.findings import CAP, OPEN, Finding, Reason
from checks.audit.rules.rule import SHARES, Evidence, Rule, RunData
from checks.audit.rules.share_block import ShareBlock

NO_SHARE_BEGIN = Reason(
    "where the share group began is unknown: with share.auto.offset.reset=latest it begins at the end of the log",
    "set share.auto.offset.reset=earliest",
)
UNSEEN_ACQUISITIONS = Reason(
    "locks may have expired before a poll returned the records, which the ledger does not show",
    "lower max_poll_records, with share.acquire.mode=record_limit, so that no record waits in a member",
)
SHARE_RESET = Reason(
    "their delivery count may have fallen back with a new leader or the end of a member, and their last "
    "acknowledgement has no answer"
)
DISTURBED = Reason("a fault may have ended the connection of a member, and so its locks")
LOCK_WHEN = Reason(
    "when the broker locked them is unknown: a member may hold records for some time before a poll returns them",
    "lower max_poll_records, with share.acquire.mode=record_limit, so that no record waits in a member",
)
NO_LOCK = Reason(
    "the lock duration of the brokers is unknown", "set share.record.lock.duration.ms in the settings of the group"
)
NO_LIMIT = Reason(
    "the delivery limit of the brokers is unknown", "set share.delivery.count.limit in the settings of the group"
)

ANSWER_US = 1_000_000
"""Time from a lock to the poll that returns its record, on a loaded machine; no more than half of the lock counts."""


def unacquired(s: ShareBlock, tally: Tally) -> None:
    """Report log records in the range of a share group that no member acquired.

    lost_share: the group is past the record, by the offsets and the lag that its coordinator gave. stalled_share: it is
    not. A group that begins at the latest offset has a range only from the first record that it acquired on. If locks
    may have ended as often as the delivery limit allows before a poll returned the record, the broker may have archived
    it: undecided. A lock ends when it expires, or with its member. Undecided are records from the last stable offset
    on, for a group that reads committed ones.
    """
    missing, log = s.missing(), s.block.log
    past = log["offset"][missing] < s.range.past
    before = log["offset"][missing] < (NEVER_US if s.range.start is None else s.range.start)
    due = ~before & s.readable()[missing]
    archived = past & _may_be_archived(s, log["timestamp_us"][missing])
    for check, mask in (("lost_share", past), ("stalled_share", ~past)):
        tally.report_undecided(check, s.name, int((mask & before).sum()), NO_SHARE_BEGIN)
        tally.report_undecided(check, s.name, int((mask & ~before & ~due).sum()), OPEN)
        rows = missing[mask & due & ~archived]
        tally.report(check, s.name, len(rows), (_missing(s, int(row)) for row in rows[:CAP]))
    tally.report_undecided("lost_share", s.name, int((due & archived).sum()), UNSEEN_ACQUISITIONS)


def _may_be_archived(s: ShareBlock, written_us: Ints) -> Mask:
    """Return the records that no poll returned though all their deliveries may have ended."""
    lock_us, limit = s.group.lock_us, s.group.limit
    if lock_us is None or limit is None:
        return np.ones(len(written_us), np.bool_)
    end_us = s.facts.shares.end_us
    expired = limit - s.ended_members(written_us, end_us)  # deliveries with a lock that has to expire
    may: Mask = (written_us == NONE) | (end_us - written_us >= expired * lock_us)
    return may


def _missing(s: ShareBlock, row: int) -> dict[str, Any]:
    log = s.block.log
    evidence: dict[str, Any] = {"range_start": s.range.start, "group_past": None if s.range.done else s.range.past}
    for change in s.range.offset_changes:
        start = change.offset(s.block.topic, s.block.partition)
        if start is not None and start > log["offset"][row]:
            evidence |= {"moved_by": change.fault, "moved_to": start}
    return s.block.record(log, row, at_us=nullable(log["timestamp_us"][row]), evidence=evidence)


def redelivered_share(s: ShareBlock, tally: Tally) -> None:
    """Report records that were acquired again after the broker had confirmed their accept or reject.

    A member may get a record from its own buffer long after the broker gave it the record. If the broker refuses its
    acknowledgement, or if its delivery count is lower, it had the record from before: no finding. Nor is it one if a
    fault set the group back to the record meanwhile. If the count may have fallen back, only a leader that came after
    the accept, and took the acknowledgement, is proof; else undecided. A confirmed acknowledgement alone is none: a
    broker confirms any below the start offset of the group (`SharePartition.acknowledge`).
    """
    confirmed = s.ack != NONE
    if len(s.acks["outcome"]):
        confirmed &= (s.acks["outcome"][s.ack] == OK) & (s.acks["type"][s.ack] != RELEASE)
    tally.add(CONFIRMED, s.name, value=int(confirmed.sum()))
    found, unsure = [], 0
    for rows in s.repeated:
        for first in rows[confirmed[rows]].tolist():
            again = _again(s, first, rows)
            found += [(row, first) for row, sure in again if sure]
            unsure += sum(not sure for _, sure in again)
            break  # once for each record
    tally.report_undecided("redelivered_share", s.name, unsure, SHARE_RESET)
    shown = (_redelivered(s, row, first) for row, first in found[:CAP])
    tally.report("redelivered_share", s.name, len(found), shown)


def _again(s: ShareBlock, first: int, rows: Ints) -> list[tuple[int, bool]]:
    """Return the acquisitions after the accept or reject of another one, each with whether they certainly were."""
    ended_us, count = int(s.acks["completed_us"][s.ack[first]]), int(s.rows["count"][first])
    found = []
    for row in rows[s.rows["acquired_us"][rows] > ended_us].tolist():
        own = int(s.rows["count"][row])
        if row == first or s.is_stale(row) or _set_back(s, row, ended_us):
            continue
        if own > count:
            found.append((row, True))
        elif s.is_of_former_leader(row):
            continue  # it gave the record before the accept; after it, the count would be higher
        elif s.may_reset(rows, int(s.rows["acquired_us"][row])) or _disturbed(s, rows, row):
            led = s.is_led_between(ended_us, int(s.rows["acquired_us"][row]))
            found.append((row, led and s.outcome(row) == OK))
        elif not s.is_polled_late(row, rows):
            found.append((row, True))
    return found


def _set_back(s: ShareBlock, row: int, since_us: int) -> bool:
    """Return whether a fault set the start offset to the record of an acquisition, or before it, since a moment."""
    offset, block = int(s.rows["offset"][row]), s.block
    offset_changes = s.range.changes_between(since_us, int(s.rows["acquired_us"][row]))
    return any((change.offset(block.topic, block.partition) or 0) <= offset for change in offset_changes)


def _disturbed(s: ShareBlock, rows: Ints, row: int) -> bool:
    return s.is_disturbed(int(s.rows["acquired_us"][rows].min()), int(s.rows["acquired_us"][row]))


def _redelivered(s: ShareBlock, row: int, first: int) -> dict[str, Any]:
    ack = int(s.ack[first])
    how = "reject" if s.acks["type"][ack] == REJECT else "accept"
    ended_us = int(s.acks["completed_us"][ack])
    return s.acquisition(row, ended_by=s.member(first).consumer, ended_with=how, ended_us=ended_us)


def miscounted_share(s: ShareBlock, tally: Tally) -> None:
    """Report delivery counts that are not one more than the highest one before.

    A higher count means acquisitions that no poll returned. The end of a member explains one of them: it took records
    with it that it had fetched, and not polled. Any other held the record until its lock expired, so it needs that
    time; if there was enough of it, undecided. A count that fell back is legal after a new leader or the end of a
    member; while a fault may have ended a connection, undecided.
    """
    found: list[tuple[int, int]] = []
    for rows in _odd(s):
        highest = 0
        for i, row in enumerate(rows.tolist()):
            count, at_us = int(s.rows["count"][row]), int(s.rows["acquired_us"][row])
            unseen, taken = count - highest - 1, _taken_along(s, row)
            if unseen < 0 and (s.is_polled_late(row, rows) or s.is_of_former_leader(row)):
                continue
            if unseen > taken and not _fits(s, row, unseen - taken, rows[: i + 1]):
                found.append((row, highest))
            elif unseen > taken:
                tally.report_undecided("miscounted_share", s.name, 1, UNSEEN_ACQUISITIONS)
            elif unseen < 0 and not s.may_reset(rows[:i], at_us):
                if _disturbed(s, rows, row):
                    tally.report_undecided("miscounted_share", s.name, 1, DISTURBED)
                else:
                    found.append((row, highest))
            highest = count
    shown = (s.acquisition(row, count_before=before) for row, before in found[:CAP])
    tally.report("miscounted_share", s.name, len(found), shown)


def _odd(s: ShareBlock) -> list[Ints]:
    """Return the rows of each offset with delivery counts other than 1, 2, 3, …"""
    ones = [np.array([row]) for row in _single(s) if s.rows["count"][row] != 1]
    several = [rows for rows in s.repeated if not _is_counted(s.rows["count"][rows])]
    return [*ones, *several]


def _single(s: ShareBlock) -> list[int]:
    together = np.zeros(len(s.rows["offset"]), np.bool_)
    for rows in s.repeated:
        together[rows] = True
    single: list[int] = np.flatnonzero(~together).tolist()
    return single


def _is_counted(counts: Ints) -> bool:
    """Return whether the counts are 1 to n, in any order: a poll may return a record late."""
    return bool((np.sort(counts) == np.arange(1, len(counts) + 1)).all())


def _taken_along(s: ShareBlock, row: int) -> int:
    """Return how many members may have had a record that was acquired later, and ended before they polled it."""
    sent_us, at_us = s.rows["sent_us"][[row]], int(s.rows["acquired_us"][row])
    return int(s.ended_members(sent_us, at_us)[0])


def _fits(s: ShareBlock, row: int, unseen: int, rows: Ints) -> bool:
    """Return whether so many acquisitions that no poll returned may have come before one."""
    at_us, sent_us, lock_us = int(s.rows["acquired_us"][row]), int(s.rows["sent_us"][row]), s.group.lock_us
    if lock_us is None or sent_us == NONE or at_us - sent_us >= unseen * lock_us:
        return True
    return s.may_reset(rows, at_us) or s.is_disturbed(sent_us, at_us)


def lock_overrun(s: ShareBlock, tally: Tally) -> None:
    """Report acquisitions while the lock of the one before was in force.

    The ledger has the time at which a poll returned a record. The broker may have locked it earlier, but not before the
    record was sent, nor before the last release that it confirmed. An acquisition within the lock duration from then on
    is an overrun; one within it from the poll on is undecided, except shortly before its end: the answer of the broker
    takes time, so a lock that expires in time seems to end early. Locks end early with the leader and with the member.
    """
    lock_us = s.group.lock_us
    for rows in s.repeated:
        for i, row in enumerate(rows.tolist()[1:], start=1):
            held, at_us = int(rows[i - 1]), int(s.rows["acquired_us"][row])
            if _gave_up(s, held, at_us) or s.is_polled_late(row, rows):
                continue
            if lock_us is None:
                tally.report_undecided("lock_overrun", s.name, 1, NO_LOCK)
                continue
            end_us = int(s.rows["acquired_us"][held]) + lock_us
            begin_us = _earliest(s, rows[:i])
            certain = begin_us is not None and at_us < begin_us + lock_us
            if at_us >= end_us - (0 if certain else min(ANSWER_US, lock_us // 2)) or s.may_reset(rows[:i], at_us):
                continue
            if _disturbed(s, rows[: i + 1], row):
                tally.report_undecided("lock_overrun", s.name, 1, DISTURBED)
            elif certain:
                tally.report("lock_overrun", s.name, 1, [_overrun(s, row, held)])
            else:
                tally.report_undecided("lock_overrun", s.name, 1, LOCK_WHEN)


def _gave_up(s: ShareBlock, row: int, at_us: int) -> bool:
    """Return whether the member of an acquisition had acknowledged it by a moment."""
    ack = int(s.ack[row])
    return ack != NONE and int(s.acks["requested_us"][ack]) <= at_us


def _earliest(s: ShareBlock, rows: Ints) -> int | None:
    """Return the earliest moment at which the broker may have given the last of some acquisitions; None if unknown."""
    times = [int(s.rows["sent_us"][rows[-1]])]
    for row in rows[:-1].tolist():
        ack = int(s.ack[row])
        if ack != NONE and s.acks["type"][ack] == RELEASE and s.acks["outcome"][ack] == OK:
            times.append(int(s.acks["requested_us"][ack]))
    return None if max(times) == NONE else max(times)


def _overrun(s: ShareBlock, row: int, held: int) -> dict[str, Any]:
    return s.acquisition(row, held_by=s.member(held).consumer, held_since_us=int(s.rows["acquired_us"][held]))


def overlimit_share(s: ShareBlock, tally: Tally) -> None:
    """Report acquisitions with a delivery count above the delivery limit. Undecided without a known limit."""
    limit = s.group.limit
    if limit is None:
        rows = np.flatnonzero(s.rows["count"] > 1)
        tally.report_undecided("overlimit_share", s.name, len(rows), NO_LIMIT)
        return
    rows = np.flatnonzero(s.rows["count"] > limit)
    tally.report("overlimit_share", s.name, len(rows), (s.acquisition(int(r), limit=limit) for r in rows[:CAP]))


def _explain_lost(f: Finding, e: Evidence, c: RunData) -> str:
    if "moved_by" in e:
        return f"fault {e['moved_by']} set {f['scope']} to {e['moved_to']} before a member had acquired it"
    past = f"at {e['group_past']}" if "group_past" in e else "at the end of the log"
    return f"no member of {f['scope']} acquired it, and the group, which began at {e['range_start']}, is {past}"


RULES = {
    "lost_share": Rule(
        examines=(SHARE_RANGE,),
        explain=_explain_lost,
        scopes=SHARES,
        counts_undecided=True,
        needs_log_times=True,
        shares=unacquired,
    ),
    "stalled_share": Rule(
        examines=(SHARE_RANGE,),
        explain="no member of {scope} had acquired it when the drain ended",
        scopes=SHARES,
        counts_undecided=True,
        shares=unacquired,
    ),
    "redelivered_share": Rule(
        examines=(CONFIRMED,),
        explain="{consumer} acquired it again (delivery count {delivery_count}) after the {ended_with} of {ended_by}",
        scopes=SHARES,
        needs_clock=True,
        counts_undecided=True,
        shares=redelivered_share,
    ),
    "miscounted_share": Rule(
        examines=(JUDGED,),
        explain="{consumer} acquired it with delivery count {delivery_count} after one of {count_before}",
        scopes=SHARES,
        needs_clock=True,
        counts_undecided=True,
        shares=miscounted_share,
    ),
    "lock_overrun": Rule(
        examines=(JUDGED,),
        explain="{consumer} acquired it while {held_by} held its lock",
        scopes=SHARES,
        needs_clock=True,
        counts_undecided=True,
        shares=lock_overrun,
    ),
    "overlimit_share": Rule(
        examines=(JUDGED,),
        explain="{consumer} acquired it with delivery count {delivery_count}, and the limit is {limit}",
        scopes=SHARES,
        counts_undecided=True,
        shares=overlimit_share,
    ),
}
