"""The deliveries that outputs come from: of which life of a topic, and of which stretch of a group of processors."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Columns, Ints, Mask
from checks.audit.rules.partition_block import ReaderBlock

TIMESTAMP_US = 1_000
"""Resolution of the timestamps of records."""


class Stretches:
    """The stretches of a group on a partition: each begins where something set the group back after it had committed.

    begins: by stretch, the turn and the offset at which it begins. passed: by stretch, the offset that it committed.
    """

    def __init__(self, r: ReaderBlock) -> None:
        self._r = r
        self._turns = r.facts.epochs.turns.get((r.name, r.block.topic, r.block.partition), [])
        self.begins, self.passed = [(0, 0)], [NONE]
        for e in self._turns:
            if e.moved and self.passed[-1] != NONE:
                self.begins.append((e.turn, e.start or 0))
                self.passed.append(NONE)
            self.passed[-1] = max(self.passed[-1], NONE if e.passed is None else e.passed)

    def of(self, outputs: Columns) -> Ints:
        """Return the stretch of each output: that of the epoch in which its writer got the input, or else by time."""
        found = np.zeros(len(outputs["offset"]), np.int64)
        if len(self.begins) == 1:
            return found
        _, at, times = np.unique(outputs["offset"], return_inverse=True, return_counts=True)
        delivered = deliveries_of(self._r)
        for i in np.flatnonzero(times[at] > 1).tolist():
            key = (*self._r.facts.senders[int(outputs["sender"][i])], int(outputs["offset"][i]))
            until_us = int(outputs["timestamp"][i]) + TIMESTAMP_US
            turns = [turn for turn, at_us in delivered.get(key, []) if at_us < until_us]
            turns = turns or [e.turn for e in self._turns if e.begin_us < until_us]
            found[i] = sum(begin <= max(turns, default=0) for begin, _ in self.begins[1:])
        return found

    def legal(self, offset: Ints, stretch: Ints) -> Mask:
        """Return which outputs are the first of their input in a stretch that was set back to it.

        stretch: `NONE` for an output that readers do not see. Rows are sorted by offset and stretch.
        """
        found = np.zeros(len(offset), np.bool_)
        if len(self.begins) == 1:
            return found
        seen = np.flatnonzero(stretch != NONE)
        later = (offset[seen[1:]] == offset[seen[:-1]]) & (stretch[seen[1:]] > stretch[seen[:-1]])
        for before, i in zip(seen[:-1][later].tolist(), seen[1:][later].tolist(), strict=True):
            found[i] = self._set_back(int(offset[i]), int(stretch[before]), int(stretch[i]))
        return found

    def _set_back(self, offset: int, after: int, until: int) -> bool:
        """Return whether a stretch after one and up to another began at or below an offset that was committed past."""
        return any(
            self.begins[n][1] <= offset < max(self.passed[after:n], default=NONE) for n in range(after + 1, until + 1)
        )


def deliveries_of(r: ReaderBlock) -> dict[tuple[Any, ...], list[tuple[int, int]]]:
    """Return the turn and time of each delivery of a block, by consumer, incarnation and offset."""
    found: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    columns = (r.rows[name].tolist() for name in ("epoch", "offset", "processed_us"))
    for number, offset, at_us in zip(*columns, strict=True):
        epoch = r.facts.epochs.all[number]
        found.setdefault((*epoch.member, offset), []).append((epoch.turn, at_us))
    return found


def of_this_life(r: ReaderBlock, outputs: Columns) -> Mask:
    """Return the outputs of the life in force of a topic that was deleted: coordinates of two lives are the same.

    A processor writes the delivery row of an input before its output. An output without such a row in this life, of the
    same member and no later than itself, belongs to an earlier life.
    """
    first = {key: min(at_us for _, at_us in times) for key, times in deliveries_of(r).items()}
    kept = np.zeros(len(outputs["offset"]), np.bool_)
    columns = (outputs[name].tolist() for name in ("sender", "offset", "timestamp"))
    for i, (sender, offset, at_us) in enumerate(zip(*columns, strict=True)):
        delivered_us = first.get((*r.facts.senders[sender], offset))
        kept[i] = delivered_us is not None and delivered_us < at_us + TIMESTAMP_US
    return kept
