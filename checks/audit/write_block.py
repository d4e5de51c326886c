"""One block of seqs of one producer, reduced to what is odd in it, for the rules of `write_path`."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from checks.audit.findings import CAP
from checks.audit.large.case import ABORTED, COMMITTED, Case
from checks.audit.large.columns import NONE, Ints, Mask, known
from checks.audit.large.cut import FAIL, OK
from checks.audit.large.pack import Columns
from checks.audit.large.survey import BLOCK_BITS


def odd(sends: Columns, copies: Columns) -> tuple[Ints, Ints]:
    """The rows of both sides that are not simply sent once and found once, at the place that was acknowledged."""
    everything = [c["seq"] for c in (sends, copies) if len(c["seq"])]
    base = min((int(s.min()) for s in everything), default=0)
    size = max((int(s.max()) for s in everything), default=0) - base + 1
    sent, found = sends["seq"] - base, copies["seq"] - base
    once = (np.bincount(sent, minlength=size) == 1) & (np.bincount(found, minlength=size) == 1)
    row = np.zeros(size, np.int64)
    row[found] = np.arange(len(found))
    of = row[sent[once[sent]]]
    which = np.flatnonzero(once[sent])
    same = copies["incarnation"][of] == sends["incarnation"][which]
    here = copies["topic"][of] == sends["topic"][which]
    for name in ("partition", "offset"):
        told = sends[name][which]
        here &= (told == NONE) | (told == copies[name][of])
    fine = np.where(sends["outcome"][which] == OK, here, sends["outcome"][which] != FAIL)
    end, seen = sends["end"][which], copies["committed"][of]
    fine &= np.where(end == COMMITTED, seen == 1, np.where(end == ABORTED, seen == 0, True))
    simple = np.zeros(size, np.bool_)
    simple[sent[which[same & fine]]] = True
    return np.flatnonzero(~simple[sent]), np.flatnonzero(~simple[found])


def in_log_order(copies: Columns, rows: Ints) -> Columns:
    """These rows, the copies of a seq together and in the order in which they came into the log."""
    keys = ("incarnation", "offset", "partition", "topic", "timestamp", "seq")
    order = rows[np.lexsort([copies[name][rows] for name in keys])]
    return {name: column[order] for name, column in copies.items()}


@dataclass
class Block:
    """The odd ones of a block: rows of `sends`, and copies in the log, sorted. Both with one number for (seq, life)."""

    producer: str
    case: Case
    sends: Columns
    copies: Columns
    odd: Ints

    def __post_init__(self) -> None:
        self.sends = {name: column[self.odd] for name, column in self.sends.items()}
        lives = np.concatenate([self.sends["incarnation"], self.copies["incarnation"]])
        span = int(lives.max()) + 1 if len(lives) else 1
        within = (1 << BLOCK_BITS) - 1
        self.sent = (self.sends["seq"] & within) * span + self.sends["incarnation"]
        self.found = (self.copies["seq"] & within) * span + self.copies["incarnation"]

    def copies_of(self, seq: int) -> slice:
        """Where the copies of a seq stand."""
        first, last = (int(np.searchsorted(self.copies["seq"], seq, side)) for side in ("left", "right"))
        return slice(first, last)

    def copies_of_send(self, send: int) -> Ints:
        """The copies of the very record that a row of sends is about."""
        mine = self.copies_of(int(self.sends["seq"][send]))
        found: Ints = mine.start + np.flatnonzero(self.found[mine] == self.sent[send])
        return found

    def copies_told(self, send: int) -> Ints:
        """Of the copies of a send's record the one at the acknowledged place, or all if none stands there."""
        found, s, c = self.copies_of_send(send), self.sends, self.copies
        here = np.ones(len(found), np.bool_)
        for name in ("topic", "partition", "offset"):
            here &= c[name][found] == s[name][send]
        return found[here] if here.any() else found

    def visible(self) -> Block:
        """The same without the copies that read_committed readers do not see."""
        seen, less = self.copies["committed"] != 0, copy(self)
        less.copies = {name: column[seen] for name, column in self.copies.items()}
        less.found = self.found[seen]
        return less

    def place(self, topic: int) -> str:
        """A topic's name."""
        return self.case.topics[topic]


def fates(offset: Ints, topic: str, partition: int, case: Case) -> tuple[Mask, Mask]:
    """Of acknowledged records of one partition that are not in the log: which were evicted, which are undetermined."""
    starts = [start for (name, _), (start, _) in case.ranges.items() if name == topic and start is not None]
    log_start = case.ranges.get((topic, partition), (None, None))[0]
    none = np.zeros(len(offset), np.bool_)
    if not starts or (partition != NONE and log_start is None):
        return none, ~none
    evicted = (offset != NONE) & (offset < log_start) if log_start is not None else none
    if topic in case.compacted:
        return evicted, ~evicted
    cut = (log_start if log_start is not None else max(starts)) > 0
    return evicted, (offset == NONE) & cut


def of_send(b: Block, i: int) -> dict[str, Any]:
    """Place and identity of a row of sends."""
    s = b.sends
    place = {"topic": b.place(int(s["topic"][i])), "partition": known(s["partition"][i])}
    who = {"producer": b.producer, "incarnation": int(s["incarnation"][i]), "seq": int(s["seq"][i])}
    return {**place, "offset": known(s["offset"][i]), **who}


def of_copy(b: Block, i: int) -> dict[str, Any]:
    """Place, identity and time of a copy in the log."""
    c = b.copies
    place = {"topic": b.place(int(c["topic"][i])), "partition": int(c["partition"][i]), "offset": int(c["offset"][i])}
    who = {"producer": b.producer, "incarnation": int(c["incarnation"][i]), "seq": int(c["seq"][i])}
    return {**place, **who, "at_us": known(c["timestamp"][i])}


def first(rows: Ints, *keys: Ints) -> list[int]:
    """At most CAP of the rows, the lowest keys first."""
    order = np.lexsort([key[rows] for key in reversed(keys)])
    return [int(i) for i in rows[order[:CAP]]]
