"""One block of offsets of one partition, laid out so that the rules of `read_path` can look things up in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checks.audit.epochs import Epoch
from checks.audit.findings import CAP, finding
from checks.audit.large.case import Case
from checks.audit.large.columns import NONE, Ints, Mask, known
from checks.audit.large.pack import Columns
from checks.audit.large.tally import Tally
from checks.audit.ranges import Owed


@dataclass
class Place:
    """The log of a block: at which row of it an offset stands, NONE where it does not."""

    topic: str
    partition: int
    log: Columns
    case: Case
    base: int
    row: npt.NDArray[np.int32]
    named: Mask
    """By number of `Case.who`: whether there is a producer's name."""

    @classmethod
    def of(cls, topic: str, partition: int, log: Columns, deliveries: Columns, acks: Columns, case: Case) -> Place:
        """Lay the log out by offset."""
        offsets = [c["offset"] for c in (log, deliveries, acks) if len(c["offset"])]
        base = min((int(o.min()) for o in offsets), default=0)
        row = np.full(max((int(o.max()) for o in offsets), default=-1) - base + 1, NONE, np.int32)
        row[log["offset"] - base] = np.arange(len(log["offset"]))
        named = np.array([name is not None for name, _ in case.who] or [False])
        return cls(topic, partition, log, case, base, row, named)

    def committed(self, at: Ints) -> Ints:
        """Whether read_committed readers see the record there (offsets less base): 1, 0, or NONE."""
        if not len(self.log["offset"]):
            return np.full(len(at), NONE, np.int64)
        row = self.row[at]
        return np.where(row >= 0, self.log["committed"][row], NONE)


class Reader:
    """One reader's deliveries in a block, held against the log."""

    def __init__(self, place: Place, owed: Owed, rows: Columns) -> None:
        self.place, self.owed, self.case, self.name, self.rows = place, owed, place.case, owed.reader, rows
        self.at = rows["offset"] - place.base
        self.in_log = place.row[self.at]
        self.present = self.in_log >= 0
        self.named = place.named[rows["who"]]
        if len(place.log["offset"]):
            who, seq = place.log["who"][self.in_log], place.log["seq"][self.in_log]
            equal = self.present & (who == rows["who"]) & (seq == rows["seq"])
        else:
            equal = np.zeros(len(self.at), np.bool_)
        self.same = equal | ~self.named

    def visible(self) -> Mask:
        """Of the records in the log of the block, those that it sees by its isolation level."""
        committed = self.place.log["committed"]
        return committed != 0 if self.owed.committed_only else np.ones(len(committed), np.bool_)

    def in_range(self) -> int:
        """Log records of the block that it has to deliver; none where its range is not known."""
        start = self.owed.range_start
        return 0 if start is None else int(((self.place.log["offset"] >= start) & self.visible()).sum())

    def delivery(self, i: int) -> dict[str, Any]:
        """Place and identity of a delivery."""
        producer, incarnation = self.case.who[int(self.rows["who"][i])]
        return {
            **self.at_offset(int(self.rows["offset"][i])),
            "producer": producer,
            "incarnation": known(incarnation),
            "seq": known(self.rows["seq"][i]),
            "at_us": int(self.rows["processed_us"][i]),
        }

    def find(self, check: str, rows: Ints, evidence: Callable[[int], dict[str, Any]], tally: Tally) -> None:
        """Merge findings of one check in, each of them a delivery; those of the lowest offsets are shown."""
        lowest = rows[np.argsort(self.rows["offset"][rows], kind="stable")[:CAP]]
        shown = [
            finding(check, self.name, evidence=evidence(i), consumer=self.epoch(i).consumer, **self.delivery(i))
            for i in lowest.tolist()
        ]
        tally.find(shown, check, "", self.name, len(rows))

    def at_offset(self, offset: int) -> dict[str, Any]:
        """A place of this block."""
        return {"topic": self.place.topic, "partition": self.place.partition, "offset": offset}

    def epoch(self, i: int) -> Epoch:
        """The epoch of a delivery."""
        return self.case.epochs[int(self.rows["epoch"][i])]

    def again(self) -> Ints:
        """The deliveries of offsets that were delivered more than once."""
        counts = np.bincount(self.at, minlength=1)
        return np.flatnonzero(counts[self.at] > 1) if len(self.at) and counts.max() > 1 else np.zeros(0, np.int64)
