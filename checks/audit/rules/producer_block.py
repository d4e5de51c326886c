"""One block of seqs of one producer, as the rules of the write path see it.

The identity of a logical record is (producer, seq): a restarted producer continues its seqs under a higher incarnation.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Columns, Ints, Mask, nullable
from checks.audit.engine.blocks import FAIL, OK
from checks.audit.engine.survey import BLOCK_BITS
from checks.audit.facts.run_facts import ABORTED, COMMITTED, RunFacts
from checks.audit.findings import CAP


@dataclass
class ProducerBlock:
    """All sends of some seqs of one producer, and all records of this run in the log that carry them.

    all_sends, all_copies: every row, columns `blocks.SEND` and `blocks.COPY`. sends, copies: without the records that
    were sent once and are in the log once, at the acknowledged position; copies of a seq are together, in log order.
    """

    producer: str
    number: int
    facts: RunFacts
    all_sends: Columns
    all_copies: Columns

    def __post_init__(self) -> None:
        odd_sends, odd_copies = _odd_rows(self.all_sends, self.all_copies)
        keys = ("incarnation", "offset", "partition", "topic", "timestamp", "seq")
        odd_copies = odd_copies[np.lexsort([self.all_copies[name][odd_copies] for name in keys])]
        self.sends = {name: column[odd_sends] for name, column in self.all_sends.items()}
        self.copies = {name: column[odd_copies] for name, column in self.all_copies.items()}
        lives = np.concatenate([self.sends["incarnation"], self.copies["incarnation"]])
        span = int(lives.max()) + 1 if len(lives) else 1
        within = (1 << BLOCK_BITS) - 1
        self.sent = (self.sends["seq"] & within) * span + self.sends["incarnation"]
        """One number for (seq, incarnation) of each send."""
        self.logged = (self.copies["seq"] & within) * span + self.copies["incarnation"]
        """The same for each copy."""

    def copies_of(self, seq: int) -> slice:
        """Return the copies of a seq."""
        first, last = (int(np.searchsorted(self.copies["seq"], seq, side)) for side in ("left", "right"))
        return slice(first, last)

    def copies_of_send(self, send: int) -> Ints:
        """Return the copies of the record of a send, of the same incarnation."""
        of_seq = self.copies_of(int(self.sends["seq"][send]))
        rows: Ints = of_seq.start + np.flatnonzero(self.logged[of_seq] == self.sent[send])
        return rows

    def acknowledged_copies(self, send: int) -> Ints:
        """Return the copy of a send's record at the acknowledged position, or all its copies if none is there."""
        rows, s, c = self.copies_of_send(send), self.sends, self.copies
        here = np.ones(len(rows), np.bool_)
        for name in ("topic", "partition", "offset"):
            here &= c[name][rows] == s[name][send]
        return rows[here] if here.any() else rows

    def visible(self) -> ProducerBlock:
        """Return the block without the copies that read_committed readers do not see."""
        seen, block = self.copies["committed"] != 0, copy(self)
        block.copies = {name: column[seen] for name, column in self.copies.items()}
        block.logged = self.logged[seen]
        return block

    def topic(self, number: int) -> str:
        """Return the name of a topic."""
        return self.facts.topics[number]

    def send(self, i: int) -> dict[str, Any]:
        """Return position and identity of a send as columns of a finding."""
        s = self.sends
        return {
            "topic": self.topic(int(s["topic"][i])),
            "partition": nullable(s["partition"][i]),
            "offset": nullable(s["offset"][i]),
            "producer": self.producer,
            "incarnation": int(s["incarnation"][i]),
            "seq": int(s["seq"][i]),
            "at_us": int(s["completed_us"][i]),
        }

    def copy(self, i: int) -> dict[str, Any]:
        """Return position, identity and time of a copy in the log as columns of a finding."""
        c = self.copies
        return {
            "topic": self.topic(int(c["topic"][i])),
            "partition": int(c["partition"][i]),
            "offset": int(c["offset"][i]),
            "producer": self.producer,
            "incarnation": int(c["incarnation"][i]),
            "seq": int(c["seq"][i]),
            "at_us": nullable(c["timestamp"][i]),
        }

    def absent(self, offset: Ints, topic: str, partition: int) -> tuple[Mask, Mask]:
        """Return which acknowledged records of a partition that are not in the log were evicted, which are
        undetermined.

        Evicted: acknowledged below the log start at read-back. Undetermined: without an acknowledged offset (acks=0)
        where the log does not start at 0, in a compacted topic, or in a partition that was not read back.
        """
        ranges = self.facts.log_ranges
        starts = [start for (name, _), (start, _) in ranges.items() if name == topic and start is not None]
        log_start = ranges.get((topic, partition), (None, None))[0]
        none = np.zeros(len(offset), np.bool_)
        if not starts or (partition != NONE and log_start is None):
            return none, ~none
        evicted = (offset != NONE) & (offset < log_start) if log_start is not None else none
        if topic in self.facts.compacted:
            return evicted, ~evicted
        truncated = (log_start if log_start is not None else max(starts)) > 0
        return evicted, (offset == NONE) & truncated


def _odd_rows(sends: Columns, copies: Columns) -> tuple[Ints, Ints]:
    """Return the rows of both sides that are not simply sent once and in the log once at the acknowledged position."""
    seqs = [c["seq"] for c in (sends, copies) if len(c["seq"])]
    base = min((int(s.min()) for s in seqs), default=0)
    size = max((int(s.max()) for s in seqs), default=0) - base + 1
    sent, logged = sends["seq"] - base, copies["seq"] - base
    once = (np.bincount(sent, minlength=size) == 1) & (np.bincount(logged, minlength=size) == 1)
    row = np.zeros(size, np.int64)
    row[logged] = np.arange(len(logged))
    copy_of = row[sent[once[sent]]]
    send = np.flatnonzero(once[sent])
    same = copies["incarnation"][copy_of] == sends["incarnation"][send]
    here = copies["topic"][copy_of] == sends["topic"][send]
    for name in ("partition", "offset"):
        acknowledged = sends[name][send]
        here &= (acknowledged == NONE) | (acknowledged == copies[name][copy_of])
    fine = np.where(sends["outcome"][send] == OK, here, sends["outcome"][send] != FAIL)
    end, seen = sends["end"][send], copies["committed"][copy_of]
    fine &= np.where(end == COMMITTED, seen == 1, np.where(end == ABORTED, seen == 0, True))
    simple = np.zeros(size, np.bool_)
    simple[sent[send[same & fine]]] = True
    return np.flatnonzero(~simple[sent]), np.flatnonzero(~simple[logged])


def lowest(rows: Ints, *keys: Ints) -> list[int]:
    """Return at most CAP of the rows, the lowest keys first."""
    order = np.lexsort([key[rows] for key in reversed(keys)])
    return [int(i) for i in rows[order[:CAP]]]
