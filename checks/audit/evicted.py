"""What was gone from the log before a reader that was owed it could read it.

Only what an acknowledgement placed below the log start is known to have been there: of records without an acknowledged
offset (acks=0, outcome unknown) nobody can say which of them retention or delete-records removed.
"""

from __future__ import annotations

import numpy as np

from checks.audit.findings import CAP, UNDETERMINED, Finding, finding
from checks.audit.large.case import COMMITTED, NO_TXN, UNDECIDED
from checks.audit.large.columns import NONE, known
from checks.audit.large.pack import Columns
from checks.audit.large.tally import Tally
from checks.audit.read_block import Reader


def evicted_delivery(r: Reader, acks: Columns, tally: Tally) -> None:
    """Acknowledged at an offset of the reader's range that is below the log start at read-back, and of which nothing
    was ever delivered to it.

    It was evicted (retention, delete-records) before it was read, and is neither lost nor skipped. The range begins
    where the reader first began on the partition; where that is not known, or where nobody learned the end of the
    record's transaction, it is undetermined. Records of aborted transactions are owed to read_uncommitted readers only.
    """
    log_start = r.owed.log_start
    if not len(acks["offset"]) or log_start is None:
        return
    owed = np.ones(len(acks["offset"]), np.bool_)
    if r.owed.committed_only:
        owed = np.isin(acks["end"], (NO_TXN, COMMITTED, UNDECIDED))
    begin = 0 if r.owed.begun_at is None else r.owed.begun_at
    rows = np.flatnonzero(owed & (acks["offset"] < log_start) & (acks["offset"] >= begin))
    rows = rows[np.lexsort((acks["seq"][rows], acks["who"][rows], acks["offset"][rows]))]
    rows = rows[np.unique(acks["offset"][rows], return_index=True)[1]]
    tally.add("sum", "evictable", r.name, value=len(rows))
    delivered = np.isin(acks["offset"][rows], r.rows["offset"])
    missing = rows[~delivered]
    unsure = acks["end"][missing] == UNDECIDED if r.owed.committed_only else np.zeros(len(missing), np.bool_)
    if r.owed.begun_at is None:
        unsure |= True
    tally.find([], "evicted_delivery", UNDETERMINED, r.name, int(unsure.sum()))
    found = missing[~unsure]
    tally.find([_evicted(r, acks, i) for i in found[:CAP].tolist()], "evicted_delivery", "", r.name, len(found))


def _evicted(r: Reader, acks: Columns, i: int) -> Finding:
    producer, incarnation = r.case.who[int(acks["who"][i])]
    evidence = {
        "log_start": r.owed.log_start,
        "log_end": r.owed.log_end,
        "begun_at": r.owed.begun_at,
        "highest_delivered": r.owed.high,
        "highest_committed": r.owed.passed,
        "acked_us": int(acks["completed_us"][i]),
    }
    return finding(
        "evicted_delivery",
        r.name,
        **r.at_offset(int(acks["offset"][i])),
        producer=producer,
        incarnation=known(incarnation if incarnation is not None else NONE),
        seq=known(acks["seq"][i]),
        at_us=int(acks["completed_us"][i]),
        evidence=evidence,
    )
