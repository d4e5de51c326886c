"""Records that a read_committed reader must not see: aborted_read, precommitted_read, aborted_share."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaos.scenario.model import Scenario
from checks.audit.arrays import NONE, Ints, Mask, nullable
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.run_facts import ABORTED, NO_TXN
from checks.audit.findings import CAP, Finding
from checks.audit.rules.partition_block import ReaderBlock
from checks.audit.rules.rule import NO_TRANSACTIONS, READERS, SHARES, Evidence, Rule, RunData, learns
from checks.audit.rules.share_block import ShareBlock
from checks.audit.undecided import NO_REQUEST

READ_OF_TRANSACTIONS = total("read_of_transactions")
"""Delivered records of transactions, by reader."""
POLLED_OF_TRANSACTIONS = total("polled_of_transactions")
"""Those of transactions that were not aborted, with the time of their poll, by reader."""
ACQUIRED_COMMITTED = total("acquired_committed")
"""Acquisitions of share groups that read committed records only, by group."""


_SHOWN = {"still_sent_us": "last_us", "end_requested_us": "requested_us"}


def isolation(r: ReaderBlock, tally: Tally) -> None:
    """Judge both anomalies of a read_committed reader."""
    if not r.range.committed_only or not len(r.at):
        return
    ack = _acknowledgements(r)
    hidden = (r.block.committed(r.at) == 0) & r.same
    _aborted_read(r, ack, hidden, tally)
    _precommitted_read(r, ack, hidden, tally)


def _aborted_read(r: ReaderBlock, ack: Ints, hidden: Mask, tally: Tally) -> None:
    """Report deliveries of records of an aborted transaction.

    Its producer received the abort, or read_committed readers of the final log do not see the record (hidden).
    """
    acks = r.block.acks
    no_txn = np.full(len(r.at), NO_TXN)
    end = np.where(ack >= 0, acks["end"][ack], NO_TXN) if len(acks["offset"]) else no_txn
    tally.add(READ_OF_TRANSACTIONS, r.name, value=int(((end != NO_TXN) | hidden).sum()))

    def shown(i: int) -> dict[str, Any]:
        return r.delivery(
            i,
            told_aborted=bool(end[i] == ABORTED),
            hidden_in_log=bool(hidden[i]),
            assignment=r.epoch(i).assignment,
            polled_us=nullable(r.rows["polled_us"][i]),
        )

    r.report("aborted_read", np.flatnonzero(hidden | (end == ABORTED)), shown, tally)


def _explain_aborted(f: Finding, e: Evidence, c: RunData) -> str:
    reasons = {
        "its producer had been informed that the transaction was aborted": e["told_aborted"],
        "a read_committed reader of the final log does not see it": e["hidden_in_log"],
    }
    reason = " and ".join(text for text, holds in reasons.items() if holds)
    return f"{f['consumer']} delivered it under read_committed, though {reason}"


def _precommitted_read(r: ReaderBlock, ack: Ints, hidden: Mask, tally: Tally) -> None:
    """Report records polled before the end of their transaction was requested, or before its last send was invoked.

    A poll between the request and the client's learning of the end is correct, because brokers know the end first.
    Undetermined between the last send and the end if the ledger does not have the time of the request. A record of an
    aborted transaction is an aborted_read.
    """
    acks, polled_us = r.block.acks, r.rows["polled_us"]
    if not len(acks["offset"]):
        return
    judged = (ack >= 0) & (polled_us != NONE) & ~hidden & (acks["end"][ack] != NO_TXN) & (acks["end"][ack] != ABORTED)
    tally.add(POLLED_OF_TRANSACTIONS, r.name, value=int(judged.sum()))
    possible_us = np.maximum(acks["last_us"], acks["requested_us"])[ack]
    early = judged & (polled_us < possible_us)
    unsure = judged & ~early & (polled_us < acks["unsure_us"][ack])
    tally.report_undetermined("precommitted_read", r.name, int(unsure.sum()), NO_REQUEST)

    def shown(i: int) -> dict[str, Any]:
        times = {name: nullable(acks[column][ack[i]]) for name, column in _SHOWN.items()}
        return r.delivery(i, polled_us=nullable(polled_us[i]), **times, assignment=r.epoch(i).assignment)

    r.report("precommitted_read", np.flatnonzero(early), shown, tally)


def _explain_precommitted(f: Finding, e: Evidence, c: RunData) -> str:
    requested_us = e.get("end_requested_us", 0)
    early_ms = (max(e["still_sent_us"], requested_us) - e["polled_us"]) / 1e3
    late = requested_us > e["still_sent_us"]
    event = "the end of its transaction was requested" if late else "the last send to its transaction"
    return f"{f['consumer']} polled it {early_ms:.1f} ms before {event}"


def _acknowledgements(r: ReaderBlock) -> Ints:
    """Return for each delivery the index of the acknowledgement of that record at that offset.

    NONE without one, and everywhere if no acknowledgement of the block belongs to a transaction.
    """
    acks = r.block.acks
    if not (acks["end"] != NO_TXN).any():
        return np.full(len(r.at), NONE, np.int64)
    names = ("offset", "sender", "seq")
    order = np.lexsort([acks[n] for n in ("last_us", "end", "seq", "sender", "offset")])
    count = len(order)
    columns = [np.concatenate([acks[n][order], r.rows[n]]) for n in names]
    merged = np.lexsort((np.arange(len(columns[0])), columns[2], columns[1], columns[0]))
    same = np.ones(len(merged), np.bool_)
    for column in columns:
        same[1:] &= column[merged][1:] == column[merged][:-1]
    same[0] = False
    group = np.cumsum(~same)
    first = np.full(int(group[-1]) + 1, NONE, np.int64)
    is_ack = merged < count
    first[group[is_ack][::-1]] = order[merged[is_ack]][::-1]
    found = np.empty(len(r.at), np.int64)
    found[merged[~is_ack] - count] = first[group[~is_ack]]
    found[~r.named] = NONE
    return found


def aborted_share(s: ShareBlock, tally: Tally) -> None:
    """Report acquisitions by a read_committed share group of records that the final log hides from such readers."""
    if not s.group.committed_only:
        return
    tally.add(ACQUIRED_COMMITTED, s.name, value=len(s.rows["offset"]))
    at = s.rows["offset"] - s.block.base
    rows = np.flatnonzero(s.block.agree(s.block.row[at], s.rows) & (s.block.committed(at) == 0))
    tally.report("aborted_share", s.name, len(rows), (s.acquisition(int(row)) for row in rows[:CAP]))


_COMMITTED_READERS = (
    READERS.if_any(Scenario.written_in_transactions, NO_TRANSACTIONS)
    .that(lambda r: r.committed_only, "no consumer reads with isolation.level=read_committed")
    .reading(Scenario.written_in_transactions, "no read_committed consumer reads a topic written in transactions")
    .reading(
        lambda s: s.written_in_transactions(learns),
        "no transactional producer learns the offsets of its records, so only a delivery that the final log hides from "
        "read_committed readers would count",
    )
)

RULES = {
    "aborted_read": Rule(
        examines=(READ_OF_TRANSACTIONS,),
        explain=_explain_aborted,
        scopes=_COMMITTED_READERS,
        reader=isolation,
    ),
    "precommitted_read": Rule(
        examines=(POLLED_OF_TRANSACTIONS,),
        explain=_explain_precommitted,
        scopes=_COMMITTED_READERS,
        needs_clock=True,
        reader=isolation,
    ),
    "aborted_share": Rule(
        examines=(ACQUIRED_COMMITTED,),
        explain="{consumer} acquired it under read_committed, though such a reader of the final log does not see it",
        scopes=SHARES.that(lambda g: g.committed_only, "no share group reads with read_committed")
        .if_any(Scenario.written_in_transactions, NO_TRANSACTIONS)
        .reading(Scenario.written_in_transactions, "no share group reads a topic that is written in transactions"),
        shares=aborted_share,
    ),
}
