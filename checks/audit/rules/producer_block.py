"""One block of seqs of one producer, as the rules of the write path see it.

The identity of a logical record is (producer, seq): a restarted producer continues its seqs under a higher incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Columns, Ints, Mask, nullable
from checks.audit.engine.blocks import BLOCK_BITS, FAIL, OK, Rows
from checks.audit.engine.group import sections
from checks.audit.engine.tally import Tally
from checks.audit.facts.run_facts import ABORTED, COMMITTED, RunFacts
from checks.audit.findings import CAP, UNREAD, Reason

LOG_CUT = Reason(
    "they were acknowledged without an offset, and the log no longer begins at its first record",
    "keep retention beyond the end of the run and delete no records, or use acks other than 0, and a client that "
    "learns offsets",
)
PERHAPS_EARLY = Reason(
    "they are below the start of the log, and a fault changed a clock by which retention deletes records",
    "keep retention.ms beyond the end of the run, or leave the fault out",
)


class ProducerBlock:
    """All sends of some seqs of one producer, and all records of this run in the log that carry them.

    all_sends, all_appends: every row, kinds `sends` and `log` of `blocks.KINDS`. sends, appends: without the records
    that were sent once and are in the log once, at the acknowledged position; appends of a seq are together, in log
    order. sent: one number for (seq, incarnation) of each send. logged: the same for each append.
    """

    def __init__(self, producer: str, number: int, facts: RunFacts, rows: Rows) -> None:
        self.producer, self.number, self.facts = producer, number, facts
        self.all_sends, self.all_appends = rows["sends"], rows["log"]
        odd_sends, odd_appends = _odd_rows(self.all_sends, self.all_appends)
        keys = ("incarnation", "offset", "partition", "topic", "timestamp_us", "seq")
        odd_appends = odd_appends[np.lexsort([self.all_appends[name][odd_appends] for name in keys])]
        self.sends = {name: column[odd_sends] for name, column in self.all_sends.items()}
        self.appends = {name: column[odd_appends] for name, column in self.all_appends.items()}
        lives = np.concatenate([self.sends["incarnation"], self.appends["incarnation"]])
        span = int(lives.max()) + 1 if len(lives) else 1
        within = (1 << BLOCK_BITS) - 1
        self.sent = (self.sends["seq"] & within) * span + self.sends["incarnation"]
        self.logged = (self.appends["seq"] & within) * span + self.appends["incarnation"]

    def appends_of(self, seq: int) -> slice:
        """Return the appends of a seq."""
        first, last = (int(np.searchsorted(self.appends["seq"], seq, side)) for side in ("left", "right"))
        return slice(first, last)

    def appends_of_send(self, send: int) -> Ints:
        """Return the appends of the record of a send, of the same incarnation."""
        of_seq = self.appends_of(int(self.sends["seq"][send]))
        rows: Ints = of_seq.start + np.flatnonzero(self.logged[of_seq] == self.sent[send])
        return rows

    def acknowledged_appends(self, send: int) -> Ints:
        """Return the copy of a send's record at the acknowledged position, or all its appends if none is there."""
        rows, s, c = self.appends_of_send(send), self.sends, self.appends
        here = np.ones(len(rows), np.bool_)
        for name in ("topic", "partition", "offset"):
            here &= c[name][rows] == s[name][send]
        return rows[here] if here.any() else rows

    def visible(self) -> ProducerBlock:
        """Return the block without the appends that read_committed readers do not see."""
        seen, block = self.appends["committed"] != 0, copy(self)
        block.appends = {name: column[seen] for name, column in self.appends.items()}
        block.logged = self.logged[seen]
        return block

    def topic(self, number: int) -> str:
        """Return the name of a topic."""
        return self.facts.topics[number]

    def by_topic(self, side: Columns, rows: Ints) -> Iterator[tuple[str, Ints]]:
        """Yield each topic with its rows among some rows of sends or appends."""
        for (number,), section in sections(side["topic"][rows]):
            yield self.topic(number), section.ints(rows)

    def record(self, side: Columns, i: int, **columns: Any) -> dict[str, Any]:
        """Return the record of a row of sends or appends as the arguments of a finding, with other columns."""
        numbers = {n: nullable(side[n][i]) for n in ("partition", "offset", "incarnation", "seq")}
        return numbers | {"topic": self.topic(int(side["topic"][i])), "producer": self.producer} | columns

    def send(self, i: int, **evidence: Any) -> dict[str, Any]:
        """Return a send as the arguments of a finding."""
        return self.record(self.sends, i, at_us=int(self.sends["completed_us"][i]), evidence=evidence)

    def appended(self, i: int, **evidence: Any) -> dict[str, Any]:
        """Return a copy in the log as the arguments of a finding."""
        return self.record(self.appends, i, at_us=nullable(self.appends["timestamp_us"][i]), evidence=evidence)

    def report(
        self, check: str, side: Columns, rows: Ints, shown: Callable[[int], dict[str, Any]], tally: Tally
    ) -> None:
        """Report some rows of sends or appends by topic; the lowest positions are shown."""
        for topic, of_topic in self.by_topic(side, rows):
            order = np.lexsort([side[n][of_topic] for n in ("seq", "incarnation", "offset", "partition")])
            tally.report(check, topic, len(of_topic), map(shown, of_topic[order[:CAP]].tolist()))

    def report_undecided(self, check: str, rows: Ints, reason: Reason, tally: Tally) -> None:
        """Add sends for which a check could not be decided."""
        for topic, of_topic in self.by_topic(self.sends, rows):
            tally.report_undecided(check, topic, len(of_topic), reason)

    def of_ended(self, sends: Ints, side: Columns | None = None) -> Mask:
        """Return which sends reached a topic that was deleted: what it held is gone by order. side: all of them."""
        ended = [self.facts.topic_ids[label] for label in self.facts.lives.ended if label in self.facts.topic_ids]
        return np.isin((side or self.sends)["topic"][sends], ended)

    def in_compacted(self, sends: Ints) -> Mask:
        """Return which sends are to compacted topics, where a record may be absent because a later one has its key."""
        compacted = [self.facts.topic_ids[t] for t in self.facts.compacted if t in self.facts.topic_ids]
        return np.isin(self.sends["topic"][sends], compacted)

    def absent(self, sends: Ints) -> tuple[Mask, dict[Reason, Mask]]:
        """Return which acknowledged sends, if absent from the log, were evicted, and which are undecided and why.

        Evicted: acknowledged below the offset from which on the log has to hold every record; where retention deletes
        only by timestamps that are behind, only a record that may have one. Undecided: without an
        acknowledged offset (acks=0) where that is not 0, or in a partition that was not read back.
        """
        evicted, unread, unlocated, early = np.zeros((4, len(sends)), np.bool_)
        for (number, partition), rows in sections(self.sends["topic"][sends], self.sends["partition"][sends]):
            at, topic, offset = rows.index, self.topic(number), self.sends["offset"][sends[rows.index]]
            latest_start, start = self.facts.latest_starts.get(topic), self.facts.due_starts.get((topic, partition))
            if latest_start is None or (partition != NONE and start is None):
                unread[at] = True
                continue
            if start is not None:
                below = (offset != NONE) & (offset < start)
                if own := self.facts.backdated.get(topic):
                    at_us = (self.sends[name][sends[at]] for name in ("invoked_us", "completed_us"))
                    below &= own.explains(self.producer, *at_us) | (offset < own.ordered[int(partition)])
                (early if topic in self.facts.perhaps_early else evicted)[at] = below
            if (start if start is not None else latest_start) > 0:
                unlocated[at] = offset == NONE
        return evicted, {UNREAD: unread, LOG_CUT: unlocated, PERHAPS_EARLY: early}


def _odd_rows(sends: Columns, appends: Columns) -> tuple[Ints, Ints]:
    """Return the rows of both sides that are not simply sent once and in the log once at the acknowledged position."""
    seqs = [c["seq"] for c in (sends, appends) if len(c["seq"])]
    base = min((int(s.min()) for s in seqs), default=0)
    size = max((int(s.max()) for s in seqs), default=0) - base + 1
    sent, logged = sends["seq"] - base, appends["seq"] - base
    once = (np.bincount(sent, minlength=size) == 1) & (np.bincount(logged, minlength=size) == 1)
    row = np.zeros(size, np.int64)
    row[logged] = np.arange(len(logged))
    append_of = row[sent[once[sent]]]
    send = np.flatnonzero(once[sent])
    same = appends["incarnation"][append_of] == sends["incarnation"][send]
    here = appends["topic"][append_of] == sends["topic"][send]
    for name in ("partition", "offset"):
        acknowledged = sends[name][send]
        here &= (acknowledged == NONE) | (acknowledged == appends[name][append_of])
    fine = np.where(sends["outcome"][send] == OK, here, sends["outcome"][send] != FAIL)
    end, seen = sends["end"][send], appends["committed"][append_of]
    fine &= np.where(end == COMMITTED, seen == 1, np.where(end == ABORTED, seen == 0, True))
    simple = np.zeros(size, np.bool_)
    simple[sent[send[same & fine]]] = True
    return np.flatnonzero(~simple[sent]), np.flatnonzero(~simple[logged])
