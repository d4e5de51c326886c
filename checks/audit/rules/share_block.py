"""The acquisitions of one share group in a block of offsets of one partition, as the rules of share groups see them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Columns, Ints, Mask
from checks.audit.engine.blocks import MISDIRECTED, REFUSED
from checks.audit.engine.group import runs
from checks.audit.facts.shares import LATE_US, ShareMember, ShareRange
from checks.audit.rules.partition_block import PartitionBlock

UNANSWERED = -1
"""The outcome of an acknowledgement without a row."""


class ShareBlock:
    """The acquisitions of one share group in a block, in order of offset and time, with their acknowledgements.

    rows: kind `acquisitions`. acks: kind `acknowledgements`. ack: by row, the index of its acknowledgement, NONE
    without one.
    """

    def __init__(self, block: PartitionBlock, share_range: ShareRange, rows: Columns, acks: Columns) -> None:
        order = np.lexsort((rows["count"], rows["acquired_us"], rows["offset"]))
        self.block, self.range, self.acks = block, share_range, acks
        self.rows = {name: column[order] for name, column in rows.items()}
        self.facts, self.group, self.name = block.facts, share_range.group, share_range.group.name
        self.ack = _matches(self.rows, acks)

    @cached_property
    def repeated(self) -> list[Ints]:
        """The rows of each offset that was acquired more than once, in order of time."""
        starts = runs(self.rows["offset"])
        lengths = np.diff(starts, append=len(self.rows["offset"]))
        return [
            np.arange(start, start + length)
            for start, length in zip(starts[lengths > 1].tolist(), lengths[lengths > 1].tolist(), strict=True)
        ]

    def missing(self) -> Ints:
        """Return the log records that the group sees and no member acquired."""
        log = self.block.log
        got = np.isin(log["offset"], self.rows["offset"])
        return np.flatnonzero(~got & self.visible())

    def visible(self) -> Mask:
        """Return the log records of the block that the group sees, or may see."""
        return self.block.visible(self.group.committed_only)

    def readable(self) -> Mask:
        """Return the log records of the block that the group surely sees."""
        return self.block.readable(self.group.committed_only)

    def member(self, row: int) -> ShareMember:
        """Return the member of an acquisition."""
        return self.facts.shares.members[int(self.rows["member"][row])]

    def outcome(self, row: int) -> int:
        """Return how the acknowledgement of an acquisition ended, `UNANSWERED` without a row."""
        ack = int(self.ack[row])
        return UNANSWERED if ack == NONE else int(self.acks["outcome"][ack])

    def is_stale(self, row: int) -> bool:
        """Return whether the broker refused the acknowledgement: the member did not hold the record any more."""
        return self.outcome(row) == REFUSED

    def is_polled_late(self, row: int, rows: Ints) -> bool:
        """Return whether the broker gave a record before it gave it to somebody else, who polled it earlier.

        It refused the acknowledgement, or the delivery count is below the highest one before, and of no other row.
        rows: all acquisitions of the record, in order of time.
        """
        counts, own = self.rows["count"], self.rows["count"][row]
        overtaken = bool((counts[rows[rows < row]] > own).any()) and int((counts[rows] == own).sum()) == 1
        return overtaken or self.is_stale(row)

    def is_led_between(self, from_us: int, until_us: int) -> bool:
        """Return whether the partition surely got another leader within a time; the observer may see it late."""
        return any(from_us + LATE_US <= at_us <= until_us for at_us in self.range.leader_changes)

    def is_of_former_leader(self, row: int) -> bool:
        """Return whether the broker that gave the record was not the leader when the member acknowledged it."""
        return self.outcome(row) == MISDIRECTED

    def may_reset(self, rows: Ints, until_us: int) -> bool:
        """Return whether locks of some acquisitions may have ended early, and delivery counts fallen back, by a moment.

        The partition got another leader since the record was sent, a member among them ended, or a fault set the start
        offset of the group.
        """
        since = int(self.rows["sent_us"][rows].min())  # a poll may return a record long after the broker gave it
        led = any(since <= at_us <= until_us + LATE_US for at_us in self.range.leader_changes)
        led = led or bool(self.range.changes_between(since, until_us))
        return led or any(self.member(int(row)).may_have_ended(until_us) for row in rows)

    def ended_members(self, since_us: Ints, until_us: int) -> Ints:
        """Return how many members may have taken records with them that were sent at some moments.

        They ended after the send, or so shortly before it that a fetch of them still waited, and before `until_us`.
        """
        members = [m for m in self.facts.shares.members if m.group == self.name and m.may_have_ended(until_us)]
        ends = np.sort(np.array([m.ended_us for m in members], np.int64))
        return len(ends) - np.searchsorted(ends, since_us - self.group.late_us)

    def is_disturbed(self, from_us: int, until_us: int) -> bool:
        """Return whether a fault may have ended connections or lost answers within a time."""
        return any(begin <= until_us and end >= from_us for begin, end in self.facts.shares.disturbed)

    def acquisition(self, row: int, **evidence: Any) -> dict[str, Any]:
        """Return an acquisition as the arguments of a finding."""
        member = self.member(row)
        at = {"consumer": member.consumer, "at_us": int(self.rows["acquired_us"][row])}
        counted = {"delivery_count": int(self.rows["count"][row]), "consumer_incarnation": member.incarnation}
        return self.block.record(self.rows, row, **at, evidence=counted | evidence)


def share_blocks(block: PartitionBlock, acquisitions: Columns, acks: Columns) -> Iterator[ShareBlock]:
    """Yield the rows of each share group that reads the partition of a block."""
    groups = np.array([m.group for m in block.facts.shares.members] or [""])
    for share_range in block.facts.shares.ranges.get((block.topic, block.partition), []):
        own = groups == share_range.group.name
        rows, of_rows = ({n: c[own[side["member"]]] for n, c in side.items()} for side in (acquisitions, acks))
        yield ShareBlock(block, share_range, rows, of_rows)


def _matches(rows: Columns, acks: Columns) -> Ints:
    """Return for each acquisition the index of its acknowledgement: the same member and ordinal."""
    if not len(acks["ordinal"]):
        return np.full(len(rows["ordinal"]), NONE, np.int64)
    members = 1 + max(int(side["member"].max()) for side in (rows, acks) if len(side["member"]))
    wanted, found = (side["ordinal"] * members + side["member"] for side in (rows, acks))
    order = np.argsort(found, kind="stable")
    at = np.minimum(np.searchsorted(found[order], wanted), len(found) - 1)
    return np.where(found[order][at] == wanted, order[at], NONE)
