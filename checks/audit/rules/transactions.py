"""Transactions in the log, and what read_committed readers must not see of them.

torn_transaction, hanging_transaction; aborted_read, precommitted_read, aborted_share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from chaos.scenario.model import Scenario
from checks.audit.arrays import NONE, Columns, Ints, Mask, among, nullable
from checks.audit.engine.blocks import OK, UNKNOWN
from checks.audit.engine.counters import TRANSACTION_WRITERS
from checks.audit.engine.group import dense, sections
from checks.audit.engine.tally import Aggregate, Tally, collection, total, union
from checks.audit.facts.observed import Span, joined
from checks.audit.facts.run_facts import ABORTED, COMMITTED, NO_TXN, UNKNOWN_END
from checks.audit.findings import CAP, OPEN, Finding, Reason
from checks.audit.rules.partition_block import ReaderBlock
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import NO_TRANSACTIONS, READERS, SHARES, TOPICS, Evidence, Rule, RunData, learns, present
from checks.audit.rules.share_block import ShareBlock

NO_REQUEST = Reason(
    "the ledger does not say when the end of their transaction was requested",
    "run the scenario again: clients record it now",
)

ABSENT = -2
"""In place of whether a record is visible: it is not in the log."""
PART_HIDDEN = "of unknown end and is seen in part: other records of it are seen, and this one is hidden,"
PART_ABSENT = "of unknown end and is seen in part: other records of it are seen, and this one is absent,"
HANGS_US = 10_000_000
"""Maximum time without progress of the last stable offset after the end of every transaction that explains it."""
IN_TRANSACTIONS = total("in_transactions")
"""Records of transactions that `torn_transaction` judges, by topic."""
UNSEEN = total("unseen_of_transactions")
"""Records of transactions that are not in the log: deleted, compacted, or with a deleted topic; by topic."""
VISIBLE_PART = union("visible_part")
"""(producer, incarnation, transaction) of unknown end at the border of a block of seqs, with a visible record there."""
HIDDEN_PART: Aggregate[list[tuple[str, int, list[dict[str, Any]], Reason | None]]] = collection("hidden_part")
"""By producer, incarnation and transaction of unknown end without a visible record in a block of seqs: topic, number of
acknowledged records that are not visible, some of them, and why it is unknown whether they should be."""
STABLE_OFFSETS = total("stable_offsets")
"""Observed changes of last stable offsets, by topic."""


def torn_transaction(b: ProducerBlock, tally: Tally) -> None:
    """Report records on the wrong side of their transaction.

    These are the acknowledged records of a committed transaction that read_committed readers do not see (hidden, or
    absent and not evicted), and records of an aborted transaction that they see. A record of an aborted transaction is
    judged without an acknowledgement too: its request may arrive after the abort, in the next transaction (KIP-890).
    Undecided if their visibility is unknown. If the client never learned the end of a transaction, either side is
    right, but all acknowledged records are on the same one. In a compacted topic, `lost_key` judges absent records.
    """
    _count_transactional(b, tally)
    _half_visible(b, tally)
    s = b.sends
    inside = np.flatnonzero(_judged(s))
    ended = b.of_ended(inside)
    gone, inside = inside[ended], inside[~ended]
    evicted, unsure = b.absent(inside)
    evicted |= b.in_compacted(inside)
    gone = np.concatenate([gone, inside[evicted & ~among(b.sent[inside], b.logged)]])
    for topic, rows in b.by_topic(s, gone):
        tally.add(UNSEEN, topic, value=len(rows))
    reasons = [next((reason for reason, mask in unsure.items() if mask[i]), None) for i in range(len(inside))]
    whys = list(map(partial(_torn, b), inside.tolist(), evicted.tolist(), reasons))
    why = dict(zip(inside.tolist(), whys, strict=True))
    for reason in dict.fromkeys(w for w in whys if isinstance(w, Reason)):
        b.report_undecided("torn_transaction", inside[np.array([w == reason for w in whys])], reason, tally)

    def shown(i: int) -> dict[str, Any]:
        return b.send(i, why=why[i], invoked_us=int(s["invoked_us"][i]))

    b.report(
        "torn_transaction", s, inside[np.array([isinstance(w, str) and bool(w) for w in whys], np.bool_)], shown, tally
    )


def _half_visible(b: ProducerBlock, tally: Tally) -> None:
    """Report the acknowledged records that are not visible of a transaction of unknown end with a visible record.

    A transaction may continue in the next block of seqs: the first and the last one of an incarnation in this block are
    decided by `half_visible_elsewhere` if this block does not decide them.
    """
    s, c = b.all_sends, b.all_appends
    rows = np.flatnonzero((s["outcome"] == OK) & (s["end"] == UNKNOWN_END))
    rows = rows[~b.of_ended(rows, s)]
    if not len(rows):
        return
    seen = _visibility(s, c, rows)
    txn, life = s["txn"][rows], s["incarnation"][rows]
    transactions, _ = dense([life, txn])
    has_visible = np.isin(transactions, transactions[seen == 1])
    edge = np.zeros(len(rows), np.bool_)
    for (_,), of_life in sections(life):
        numbers = of_life.ints(txn)
        edge[of_life.index] = (numbers == numbers.min()) | (numbers == numbers.max())
    for (number, transaction), _ in sections(life[has_visible & edge], txn[has_visible & edge]):
        tally.add(VISIBLE_PART, value={(b.producer, number, transaction)})
    torn = np.flatnonzero((seen != 1) & (has_visible | edge))
    if len(torn):
        _report_half(b, rows[torn], seen[torn], has_visible[torn], tally)


def _visibility(sends: Columns, appends: Columns, rows: Ints) -> Ints:
    """Return of some sends whether read_committed readers see the record: 1, 0, NONE if unknown, `ABSENT` without one.

    Of several appends of a record, the one at the acknowledged position counts. If none is there, any copy does, unless
    the record was sent again.
    """
    seqs = sends["seq"][rows]
    near, again = (np.flatnonzero(np.isin(side["seq"], seqs)) for side in (appends, sends))
    found = np.full(len(rows), ABSENT, np.int64)
    for names in (("seq", "incarnation"), ("seq", "incarnation", "topic", "partition", "offset")):
        keys, count = dense([np.concatenate([sends[n][rows], appends[n][near], sends[n][again]]) for n in names])
        own, of_appends, of_sends = np.split(keys, [len(rows), len(rows) + len(near)])
        best = np.full(count, ABSENT, np.int64)
        for value in (0, NONE, 1):  # the most visible copy counts
            best[of_appends[appends["committed"][near] == value]] = value
        if len(names) == 2:
            best[np.bincount(of_sends, minlength=count) > 1] = ABSENT
        found = np.where(best[own] != ABSENT, best[own], found)
    return found


def _report_half(b: ProducerBlock, rows: Ints, seen: Ints, decided: Mask, tally: Tally) -> None:
    """Report sends that are not visible. decided: whether a record of the transaction is visible in this block."""
    block, s = copy(b), b.all_sends
    block.sends = s
    evicted, unsure = block.absent(rows)
    absent = (seen == ABSENT) & ~evicted & ~block.in_compacted(rows)
    why = dict(zip(rows.tolist(), np.where(seen == 0, PART_HIDDEN, PART_ABSENT).tolist(), strict=True))

    def shown(i: int) -> dict[str, Any]:
        return block.send(i, why=why[i], invoked_us=int(s["invoked_us"][i]))

    parts: list[tuple[Reason | None, Mask]] = [(OPEN, seen == NONE)]
    parts += [(reason, mask & absent) for reason, mask in unsure.items()]
    parts.append((None, (seen == 0) | (absent & ~np.any([*unsure.values()], axis=0))))
    for reason, mask in parts:
        if reason:
            block.report_undecided("torn_transaction", rows[mask & decided], reason, tally)
        else:
            block.report("torn_transaction", s, rows[mask & decided], shown, tally)
        elsewhere = rows[mask & ~decided]
        for (life, txn), section in sections(s["incarnation"][elsewhere], s["txn"][elsewhere]):
            for topic, some in block.by_topic(s, section.ints(elsewhere)):
                part = topic, len(some), [] if reason else [shown(i) for i in some[:CAP].tolist()], reason
                tally.add(HIDDEN_PART, b.producer, life, txn, value=[part])


def half_visible_elsewhere(run: RunData, tally: Tally) -> None:
    """Report the hidden records of `_half_visible` of transactions with a visible record in another block of seqs."""
    visible = tally.members(VISIBLE_PART)
    for transaction, found in list(tally.each(HIDDEN_PART)):
        for topic, count, rows, reason in found if transaction in visible else ():
            if reason:
                tally.report_undecided("torn_transaction", topic, count, reason)
            else:
                tally.report("torn_transaction", topic, count, rows)


def _judged(sends: Columns) -> Mask:
    """Return which sends to judge: acknowledged ones of known end, and unknown ones of aborted transactions.

    An unknown send of a record that was sent again is left out, because its copy may belong to the other send.
    """
    acknowledged = (sends["outcome"] == OK) & np.isin(sends["end"], (COMMITTED, ABORTED))
    unknown: Mask = (sends["outcome"] == UNKNOWN) & (sends["end"] == ABORTED)
    if unknown.any():
        records = np.stack([sends["seq"], sends["incarnation"]])
        _, record, times = np.unique(records, axis=1, return_inverse=True, return_counts=True)
        unknown &= times[record.reshape(-1)] == 1
    judged: Mask = acknowledged | unknown
    return judged


def _torn(b: ProducerBlock, i: int, evicted: bool, unsure: Reason | None) -> str | Reason:
    """Return why a record is on the wrong side, empty if it is not, or why that is unknown.

    unsure: why it is unknown whether an absent record was evicted.
    """
    seen = b.appends["committed"][b.acknowledged_appends(i)]
    visible = bool((seen == 1).any())
    if len(seen) and not visible and (seen == NONE).any():
        return OPEN
    if b.sends["end"][i] == ABORTED:
        return "aborted, yet seen" if visible else ""
    if len(seen):
        return "" if visible else "committed, yet hidden"
    if unsure and not evicted:
        return unsure
    return "" if evicted else "committed, yet absent"


def _count_transactional(b: ProducerBlock, tally: Tally) -> None:
    if not b.facts.transactions:
        return
    s = b.all_sends
    undecided = (s["outcome"] == OK) & (s["end"] == UNKNOWN_END)
    for topic, rows in b.by_topic(s, np.flatnonzero(_judged(s) | undecided)):
        tally.add(IN_TRANSACTIONS, topic, value=len(rows))


def hanging_transaction(run: RunData, tally: Tally) -> None:
    """Report partitions with a last stable offset that stays below the end for longer than `HANGS_US`.

    The time counts from the end of every transaction that was open when it stopped; at the end of the drive any such
    time is a finding. Only observations with an answer of the partition's leader count. Only transactions of producers
    that wrote in transactions to the partition explain it, and only if their end is known. A topic that applications
    may write to is left out unless the wire is judged: an open transaction of theirs would be a finding.
    """
    writers = run.survey.members(TRANSACTION_WRITERS)
    ended = [t for t in run.transactions if t["outcome"] in ("committed", "aborted")]
    keys = ("last_stable_offset", "end_offset", "offsets_answer")
    for entity in run.observed.entities("last_stable_offset"):
        topic, _, number = entity.rpartition("/")
        if topic in run.scenario.with_unseen_transactions:
            continue
        partition = int(number)
        tally.add(STABLE_OFFSETS, topic, value=len(run.observed.changes(entity, "last_stable_offset")))
        for offset, span in joined(_stuck(run.observed.spans(*((entity, key) for key in keys)))):
            explaining = [
                t["ended_us"]
                for t in ended
                if t["began_us"] <= span.begin_us and (topic, partition, t["producer"], t["incarnation"]) in writers
            ]
            unexplained_us = span.end_us - min(max([span.begin_us, *explaining]), span.end_us)
            if unexplained_us > HANGS_US or (span.open and unexplained_us > 0):
                evidence: dict[str, Any] = {
                    "stood_from_us": span.begin_us,
                    "stood_until_us": span.end_us,
                    "unexplained_for_us": unexplained_us,
                    "end_offset": span.values["end_offset"],
                    "at_the_end": span.open,
                }
                position = {"topic": topic, "partition": partition, "offset": offset, "at_us": span.begin_us}
                tally.report("hanging_transaction", topic, 1, [position | {"evidence": evidence}])


def _stuck(spans: Iterable[Span]) -> Iterator[tuple[int | None, Span]]:
    """Yield the last stable offset of each span if it is below the end and the leader answers, else None."""
    for s in spans:
        lso, end = s.values["last_stable_offset"], s.values["end_offset"]
        below = isinstance(lso, int) and isinstance(end, int) and lso < end and s.values["offsets_answer"] is not False
        yield (lso if below else None), s


def _explain_hanging(f: Finding, e: Evidence, c: RunData) -> str:
    e |= present(fault=c.last_fault(e["stood_from_us"]))
    sentence = (
        f"the last stable offset stayed at {f['offset']} for {e['unexplained_for_us'] / 1e6:.1f} s below the end "
        f"{e['end_offset']}, and no recorded transaction was open"
    )
    sentence += ", to the end of the drive" if e["at_the_end"] else ", then it moved on"
    return sentence + (f"; the last fault before was {e['fault']}" if "fault" in e else "")


READ_OF_TRANSACTIONS = total("read_of_transactions")
"""Delivered records of transactions, by reader."""
POLLED_OF_TRANSACTIONS = total("polled_of_transactions")
"""Deliveries of transactions that were not aborted, with the time of their poll, by reader."""
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
    Undecided between the last send and the end if the ledger does not have the time of the request. A record of an
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
    tally.report_undecided("precommitted_read", r.name, int(unsure.sum()), NO_REQUEST)

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
    "torn_transaction": Rule(
        examines=(IN_TRANSACTIONS,),
        explain="its transaction was {why} by read_committed readers of the final log",
        scopes=TOPICS.among(Scenario.written_in_transactions, NO_TRANSACTIONS),
        leaves_out={UNSEEN: "the log does not have their records any more"},
        writes=torn_transaction,
        run=half_visible_elsewhere,
    ),
    "hanging_transaction": Rule(
        examines=(STABLE_OFFSETS,),
        explain=_explain_hanging,
        scopes=TOPICS.among(lambda s: s.topics_with_markers - s.with_unseen_transactions, NO_TRANSACTIONS),
        needs_clock=True,
        run=hanging_transaction,
    ),
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
