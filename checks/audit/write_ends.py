"""What was told of a send, or of its transaction, and does not fit what read_committed readers see of it in the log."""

from __future__ import annotations

import numpy as np

from checks.audit.findings import UNDETERMINED, finding
from checks.audit.large.case import ABORTED, COMMITTED, NO_TXN, UNDECIDED, Case
from checks.audit.large.columns import NONE
from checks.audit.large.cut import FAIL, OK
from checks.audit.large.group import sections
from checks.audit.large.pack import Columns
from checks.audit.large.tally import Tally
from checks.audit.write_block import Block, fates, first, of_copy, of_send


def count_transactional(producer: str, sends: Columns, case: Case, tally: Tally) -> None:
    """How many acknowledged records were sent in transactions of known end, by topic."""
    if not any(name == producer for name, _ in case.transactions):
        return
    inside = np.flatnonzero((sends["outcome"] == OK) & np.isin(sends["end"], (COMMITTED, ABORTED)))
    for (topic,), mine in sections(sends["topic"][inside]):
        tally.add("sum", "in_transactions", case.topics[topic], value=len(mine))


def resurrected_write(b: Block, tally: Tally) -> None:
    """Told to the producer as definitely failed, yet in the log of the same incarnation.

    In a transaction only if read_committed readers see it; undetermined where it is not known whether they do. A record
    that was sent again in the same incarnation, by a send that did not fail, is that send's.
    """
    s, c = b.sends, b.copies
    failed = np.flatnonzero((s["outcome"] == FAIL) & np.isin(b.sent, b.found))
    failed = failed[~np.isin(b.sent[failed], b.sent[s["outcome"] != FAIL])]
    for (topic,), mine in sections(s["topic"][failed]):
        found, unknown = [], 0
        for i in mine.ints(failed).tolist():
            copies = b.copies_of_send(i)
            seen = c["committed"][copies]
            if s["end"][i] == NO_TXN or (seen == 1).any():
                found.append((i, int(copies[np.argmax(seen == 1)])))
            else:
                unknown += bool((seen == NONE).any())
        tally.find([], "resurrected_write", UNDETERMINED, b.place(topic), unknown)
        shown = [
            finding(
                "resurrected_write",
                b.place(topic),
                evidence={"invoked_us": int(s["invoked_us"][i]), "failed_us": int(s["completed_us"][i])},
                **of_copy(b, at),
            )
            for i, at in found
        ]
        tally.find(shown, "resurrected_write", "", b.place(topic), len(found))


def torn_transaction(b: Block, tally: Tally) -> None:
    """A record on the wrong side of its transaction: each acknowledged one of a committed transaction that
    read_committed readers do not see (hidden, or absent and not evicted), each one of an aborted one that they do see.

    Undetermined where it is not known what they see. What the client never learned the end of may be either.
    """
    s, c = b.sends, b.copies
    inside = np.flatnonzero((s["outcome"] == OK) & (s["end"] != NO_TXN) & (s["end"] != UNDECIDED))
    for (topic, partition), mine in sections(s["topic"][inside], s["partition"][inside]):
        rows = mine.ints(inside)
        gone, undetermined = fates(s["offset"][rows], b.place(topic), partition, b.case)
        found: list[tuple[int, str]] = []
        unknown = 0
        for i, evicted, unclear in zip(rows.tolist(), gone.tolist(), undetermined.tolist(), strict=True):
            seen = c["committed"][b.copies_told(i)]
            if len(seen) and not (seen == 1).any() and (seen == NONE).any():
                unknown += 1
            elif s["end"][i] == ABORTED:
                found += [(i, "aborted, yet seen")] * bool((seen == 1).any())
            elif len(seen):
                found += [(i, "committed, yet hidden")] * (not (seen == 1).any())
            elif unclear:
                unknown += 1
            elif not evicted:
                found.append((i, "committed, yet absent"))
        tally.find([], "torn_transaction", UNDETERMINED, b.place(topic), unknown)
        why = dict(found)
        shown = [
            finding(
                "torn_transaction",
                b.place(topic),
                at_us=int(s["completed_us"][i]),
                evidence={"why": why[i], "invoked_us": int(s["invoked_us"][i])},
                **of_send(b, i),
            )
            for i in first(np.array(list(why), np.int64), s["offset"], s["seq"])
        ]
        tally.find(shown, "torn_transaction", "", b.place(topic), len(found))
