"""The write path, per topic: what was acknowledged against what is in the log.

The identity of a logical record is (producer, seq): a restarted producer goes on with its seq under a higher
incarnation. `judge_writes` gets one block: all sends of some seqs of one producer, and all records of this run in the
log that carry them. Two findings need no block and are made where the log is surveyed: a record whose CRC is wrong
(`corrupt_record`), and one without an identity of this run (the first half of `phantom_write`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.findings import UNDETERMINED, finding
from checks.audit.large.case import COMMITTED, NO_TXN, Case
from checks.audit.large.columns import NONE, Ints, known
from checks.audit.large.cut import OK, OUTCOMES
from checks.audit.large.group import dense, sections
from checks.audit.large.pack import Columns
from checks.audit.large.tally import Tally
from checks.audit.write_block import Block, fates, first, in_log_order, odd, of_copy, of_send
from checks.audit.write_ends import count_transactional, resurrected_write, torn_transaction


def judge_writes(producer: str, block: int, sends: Columns, copies: Columns, case: Case, tally: Tally) -> None:
    """All rules of the write path on one block. sends and copies: columns `cut.SEND` and `cut.COPY`."""
    odd_sends, odd_copies = odd(sends, copies)
    b = Block(producer, case, sends, in_log_order(copies, odd_copies), odd_sends)
    count_transactional(producer, sends, case, tally)
    lost_write(b, tally)
    duplicate_write(b, tally)
    misplaced_write(b, tally)
    resurrected_write(b, tally)
    torn_transaction(b, tally)
    unsent(b, tally)
    unnoticed_failure(b, sends["topic"], tally)
    reordered_write(producer, block, copies, case, tally)


def lost_write(b: Block, tally: Tally) -> None:
    """Acknowledged (producer, incarnation, seq) nowhere in the log.

    Evicted, and no loss: acknowledged below the log start of the read-back. Undetermined: acknowledged without an
    offset (acks=0) where the log no longer starts at 0, in a compacted topic, or in a partition that was not read back.
    A record of a transaction that was aborted, or of which nobody knows the end, need not be there.
    """
    owed = (b.sends["end"] == NO_TXN) | (b.sends["end"] == COMMITTED)
    absent = np.flatnonzero((b.sends["outcome"] == OK) & owed & ~np.isin(b.sent, b.found))
    for (topic, partition), mine in sections(b.sends["topic"][absent], b.sends["partition"][absent]):
        rows = mine.ints(absent)
        evicted, undetermined = fates(b.sends["offset"][rows], b.place(topic), partition, b.case)
        tally.add("sum", "evicted", b.place(topic), value=int(evicted.sum()))
        tally.find([], "lost_write", UNDETERMINED, b.place(topic), int(undetermined.sum()))
        lost = rows[~(evicted | undetermined)]
        log_start, log_end = b.case.ranges.get((b.place(topic), partition), (None, None))
        tally.find(
            (
                finding(
                    "lost_write",
                    b.place(topic),
                    at_us=int(b.sends["completed_us"][i]),
                    **of_send(b, i),
                    evidence={
                        "acked_offset": known(b.sends["offset"][i]),
                        "invoked_us": int(b.sends["invoked_us"][i]),
                        "completed_us": int(b.sends["completed_us"][i]),
                        "log_start": log_start,
                        "log_end": log_end,
                        "other_copies": len(b.found[b.copies_of(int(b.sends["seq"][i]))]),
                    },
                )
                for i in first(lost, b.sends["offset"], b.sends["seq"])
            ),
            "lost_write",
            "",
            b.place(topic),
            len(lost),
        )


def duplicate_write(b: Block, tally: Tally) -> None:
    """One (producer, seq) at two offsets, across incarnations too. Each copy after the first counts.

    Copies that only a read_uncommitted reader sees do not count: their transaction was aborted.
    """
    if (b.copies["committed"] == 0).any():
        b = b.visible()
    seq = b.copies["seq"]
    again = np.flatnonzero(seq[1:] == seq[:-1]) + 1
    for (topic,), mine in sections(b.copies["topic"][again]):
        rows = mine.ints(again)

        def told(i: int) -> dict[str, Any]:
            mine = b.copies_of(int(seq[i]))
            first, last = mine.start, mine.stop
            return {
                "copy": i - first + 1,
                "copies": last - first,
                "first_topic": b.place(int(b.copies["topic"][first])),
                "first_partition": int(b.copies["partition"][first]),
                "first_offset": int(b.copies["offset"][first]),
                "first_incarnation": int(b.copies["incarnation"][first]),
                "first_timestamp_us": known(b.copies["timestamp"][first]),
            }

        tally.find(
            (
                finding("duplicate_write", b.place(topic), evidence=told(i), **of_copy(b, i))
                for i in first(rows, b.copies["partition"], b.copies["offset"])
            ),
            "duplicate_write",
            "",
            b.place(topic),
            len(rows),
        )


def misplaced_write(b: Block, tally: Tally) -> None:
    """Acknowledged at one place, found (in the same incarnation) only at others. Acks without offset have no place."""
    s, c = b.sends, b.copies
    acked = np.flatnonzero((s["outcome"] == OK) & (s["offset"] != NONE) & np.isin(b.sent, b.found))
    names = ("topic", "partition", "offset")
    sides = [np.concatenate([b.sent[acked], b.found]), *(np.concatenate([s[n][acked], c[n]]) for n in names)]
    places, _ = dense(sides)
    elsewhere = ~np.isin(places[: len(acked)], places[len(acked) :])
    elsewhere[[n for n in np.flatnonzero(s["partition"][acked] == NONE) if _at_offset(b, int(acked[n]))]] = False
    wrong = acked[elsewhere]
    for (topic,), mine in sections(s["topic"][wrong]):
        rows = mine.ints(wrong)

        def told(i: int) -> dict[str, Any]:
            at = int(b.copies_of_send(i)[0])
            return {
                "acked_offset": int(s["offset"][i]),
                "found_topic": b.place(int(c["topic"][at])),
                "found_partition": int(c["partition"][at]),
                "found_offset": int(c["offset"][at]),
                "invoked_us": int(s["invoked_us"][i]),
                "completed_us": int(s["completed_us"][i]),
            }

        tally.find(
            (
                finding(
                    "misplaced_write",
                    b.place(topic),
                    at_us=int(s["completed_us"][i]),
                    evidence=told(i),
                    **of_send(b, i),
                )
                for i in first(rows, s["partition"], s["offset"])
            ),
            "misplaced_write",
            "",
            b.place(topic),
            len(rows),
        )


def unsent(b: Block, tally: Tally) -> None:
    """Copies without a row of sends: the second half of `phantom_write`.

    In the log, never sent: of an incarnation that never lived, or of one that stopped with everything on record and
    without this record. One of a crashed incarnation is not a phantom: its row died with it, and it is counted.
    """
    rows = np.flatnonzero(~np.isin(b.found, b.sent))
    for (incarnation, topic), mine in sections(b.copies["incarnation"][rows], b.copies["topic"][rows]):
        life = b.case.lives.get((b.producer, incarnation))
        if life is not None and life != "stopped":
            tally.add("sum", "unsent_present", b.place(topic), value=len(mine))
            continue
        why = "unknown incarnation" if life is None else "the producer stopped without sending it"
        tally.find(
            (
                finding(
                    "phantom_write",
                    b.place(topic),
                    evidence={"why": why, "carried_run": b.case.run},
                    **of_copy(b, i),
                )
                for i in first(mine.ints(rows), b.copies["partition"], b.copies["offset"])
            ),
            "phantom_write",
            "",
            b.place(topic),
            len(mine),
        )


def unnoticed_failure(b: Block, topics: Ints, tally: Tally) -> None:
    """Failed, or never answered, and not in the log, of a producer that looks at no delivery report. topics: of all
    sends of the block."""
    if b.producer.rpartition("/")[0] not in b.case.unwatched:
        return
    for (topic,), mine in sections(topics):
        tally.add("sum", "unwatched", b.place(topic), value=len(mine))
    lost = np.flatnonzero((b.sends["outcome"] != OK) & ~np.isin(b.sent, b.found))
    words = {number: word for word, number in OUTCOMES.items()}
    for (topic,), mine in sections(b.sends["topic"][lost]):
        rows = mine.ints(lost)
        tally.find(
            (
                finding(
                    "unnoticed_failure",
                    b.place(topic),
                    at_us=int(b.sends["completed_us"][i]),
                    **of_send(b, i),
                    evidence={
                        "outcome": words[int(b.sends["outcome"][i])],
                        "invoked_us": int(b.sends["invoked_us"][i]),
                    },
                )
                for i in first(rows, b.sends["seq"], b.sends["incarnation"])
            ),
            "unnoticed_failure",
            "",
            b.place(topic),
            len(rows),
        )


def reordered_write(producer: str, block: int, copies: Columns, case: Case, tally: Tally) -> None:
    """Along the offsets of a partition an incarnation's seq does not increase: a record stands behind one that was sent
    later. A further copy of a seq that stands further up already is a duplicate, not a reorder."""
    for (topic, partition, life), mine in sections(copies["topic"], copies["partition"], copies["incarnation"]):
        seq, offset, stamp = (mine.ints(copies[n]) for n in ("seq", "offset", "timestamp"))
        later = case.lowest_later(producer, life, case.topics[topic], partition, block)
        if (seq[1:] > seq[:-1]).all() and (offset[1:] > offset[:-1]).all() and (later is None or offset[-1] < later):
            continue
        order = np.lexsort((offset, seq))
        order = order[np.concatenate([[True], seq[order][1:] != seq[order][:-1]])]
        seq, offset, stamp = seq[order], offset[order], stamp[order]
        lowest = np.full(len(seq), np.iinfo(np.int64).max if later is None else later)
        lowest[:-1] = np.minimum(np.minimum.accumulate(offset[:0:-1])[::-1], lowest[-1])
        wrong = np.flatnonzero(offset > lowest)
        seq_at = dict(zip(offset.tolist(), seq.tolist(), strict=True)) if len(wrong) else {}
        tally.find(
            (
                finding(
                    "reordered_write",
                    case.topics[topic],
                    topic=case.topics[topic],
                    partition=partition,
                    offset=int(offset[i]),
                    producer=producer,
                    incarnation=life,
                    seq=int(seq[i]),
                    at_us=known(stamp[i]),
                    evidence={"after_seq": seq_at.get(int(lowest[i])), "after_offset": int(lowest[i])},
                )
                for i in first(wrong, offset, seq)
            ),
            "reordered_write",
            "",
            case.topics[topic],
            len(wrong),
        )


def _at_offset(b: Block, send: int) -> bool:
    """Whether a copy stands at the acknowledged offset of the topic, where the partition was not told."""
    mine = b.copies_of_send(send)
    c, s = b.copies, b.sends
    return bool(((c["topic"][mine] == s["topic"][send]) & (c["offset"][mine] == s["offset"][send])).any())
