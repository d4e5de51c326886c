"""One block of offsets of one partition, as the rules of the read path see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from checks.audit.arrays import NONE, Columns, Ints, Mask, nullable
from checks.audit.engine import group
from checks.audit.engine.blocks import Rows
from checks.audit.engine.group import sections
from checks.audit.engine.tally import Tally
from checks.audit.facts.epochs import Epoch
from checks.audit.facts.ranges import ReadRange
from checks.audit.facts.run_facts import RunFacts
from checks.audit.findings import CAP


class PartitionBlock:
    """The log records of some offsets of a partition, all deliveries of them, the gaps of epochs, acknowledgements, and
    the outputs that processors made from them.

    Columns: see `blocks.KINDS` (log: kind `records`). base: the lowest offset. row: by offset less base, the
    index of the log record, NONE without one. named: by index of `RunFacts.senders`, whether the producer is known.
    """

    def __init__(self, topic: str, partition: int, facts: RunFacts, rows: Rows) -> None:
        self.topic, self.partition, self.facts = topic, partition, facts
        self.log, self.deliveries, self.gaps, self.acks = (rows[n] for n in ("records", "deliveries", "gaps", "acks"))
        self.outputs, self.ack_runs = rows["outputs"], rows["ack_runs"]
        located = (self.log, self.deliveries, self.acks, self.outputs, rows["acquisitions"])
        offsets = [c["offset"] for c in located if len(c["offset"])]
        self.base = min((int(o.min()) for o in offsets), default=0)
        self.row = np.full(max((int(o.max()) for o in offsets), default=-1) - self.base + 1, NONE, np.int32)
        self.row[self.log["offset"] - self.base] = np.arange(len(self.log["offset"]))
        self.named: Mask = facts.named

    def readers(self) -> Iterator[ReaderBlock]:
        """Yield the rows of each reader of the partition."""
        epoch = self.deliveries["epoch"]
        present = {number: self.facts.epochs.all[number].reader for number in epoch[group.runs(epoch)].tolist()}
        names = sorted(set(present.values()))
        reader_of = np.zeros(max(present, default=0) + 1, np.int64)
        for number, name in present.items():
            reader_of[number] = names.index(name)
        by_reader = {names[i]: rows for (i,), rows in sections(reader_of[epoch])}
        nothing = group.Rows(np.zeros(1, np.int64), np.zeros(1, np.int64))
        for read_range in self.facts.read_ranges.get((self.topic, self.partition), []):
            rows = by_reader.get(read_range.reader, nothing)
            yield ReaderBlock(self, read_range, {n: rows.ints(c) for n, c in self.deliveries.items()})

    def agree(self, log_row: npt.NDArray[np.int32], rows: Columns) -> Mask:
        """Return whether each row carries the identity of the log record at its offset. log_row: see `row`."""
        if not len(self.log["offset"]):
            return np.zeros(len(log_row), np.bool_)
        sender, seq = self.log["sender"][log_row], self.log["seq"][log_row]
        found: Mask = (log_row >= 0) & (sender == rows["sender"]) & (seq == rows["seq"])
        return found

    def committed(self, at: Ints) -> Ints:
        """Return whether read_committed readers see the record at each offset (less base): 1, 0, or NONE if unknown."""
        if not len(self.log["offset"]):
            return np.full(len(at), NONE, np.int64)
        row = self.row[at]
        return np.where(row >= 0, self.log["committed"][row], NONE)

    def visible(self, committed_only: bool) -> Mask:
        """Return the log records that a reader or group sees, or may see, by its isolation level."""
        committed = self.log["committed"]
        return committed != 0 if committed_only else np.ones(len(committed), np.bool_)

    def readable(self, committed_only: bool) -> Mask:
        """Return the log records that a reader or group surely sees.

        With read_committed, none can be read from the last stable offset on while a transaction is open (KIP-98).
        """
        committed = self.log["committed"]
        return committed == 1 if committed_only else np.ones(len(committed), np.bool_)

    def identity(self, sender: int, seq: int) -> dict[str, Any]:
        """Return the identity of a record as columns of a finding. sender: its index."""
        producer, incarnation = self.facts.senders[sender] if sender >= 0 else (None, NONE)
        return {"producer": producer, "incarnation": nullable(incarnation), "seq": nullable(seq)}

    def record(self, side: Columns, i: int, **columns: Any) -> dict[str, Any]:
        """Return the record of a row of log, deliveries or acks as the arguments of a finding, with other columns."""
        position = {"topic": self.topic, "partition": self.partition, "offset": int(side["offset"][i])}
        return position | self.identity(int(side["sender"][i]), side["seq"][i]) | columns


class ReaderBlock:
    """The deliveries of one reader in a block, compared with the log.

    at: offsets less base. log_row: index of the log record at the offset, NONE without one. present: whether there is
    one. named: whether the delivery carries an identity. same: whether it is the record in the log, or carries no
    identity.
    """

    def __init__(self, block: PartitionBlock, read_range: ReadRange, rows: Columns) -> None:
        self.block, self.range, self.rows = block, read_range, rows
        self.facts, self.name = block.facts, read_range.reader
        self.at = rows["offset"] - block.base
        self.log_row = block.row[self.at]
        self.present = self.log_row >= 0
        self.named = block.named[rows["sender"]]
        self.same = block.agree(self.log_row, rows) | ~self.named

    def visible(self) -> Mask:
        """Return the log records of the block that the reader sees, or may see."""
        return self.block.visible(self.range.committed_only)

    def readable(self) -> Mask:
        """Return the log records of the block that the reader surely sees."""
        return self.block.readable(self.range.committed_only)

    def in_range(self) -> int:
        """Return the number of log records of the block that the reader has to deliver, 0 if its range is unknown."""
        start = self.range.start
        return 0 if start is None else int(((self.block.log["offset"] >= start) & self.readable()).sum())

    def delivery(self, i: int, **evidence: Any) -> dict[str, Any]:
        """Return a delivery as the arguments of a finding."""
        at_us, consumer = int(self.rows["processed_us"][i]), self.epoch(i).consumer
        return self.block.record(self.rows, i, consumer=consumer, at_us=at_us, evidence=evidence)

    def report(self, check: str, rows: Ints, shown: Callable[[int], dict[str, Any]], tally: Tally) -> None:
        """Report deliveries as findings of one check; deliveries of the lowest offsets are shown."""
        first = rows[np.argsort(self.rows["offset"][rows], kind="stable")[:CAP]].tolist()
        tally.report(check, self.name, len(rows), map(shown, first))

    def epoch(self, i: int) -> Epoch:
        """Return the epoch of a delivery."""
        return self.facts.epochs.all[int(self.rows["epoch"][i])]

    def repeated(self) -> Ints:
        """Return the deliveries of offsets that were delivered more than once."""
        counts = np.bincount(self.at, minlength=1)
        return np.flatnonzero(counts[self.at] > 1) if len(self.at) and counts.max() > 1 else np.zeros(0, np.int64)
