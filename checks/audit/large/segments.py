"""Segments: what one epoch delivered in one part, told by its ends, and where its order fell back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from checks.audit.epochs import Key
from checks.audit.findings import CAP
from checks.audit.large.columns import NONE, Ints, Part
from checks.audit.large.group import Rows, sections

Segment = dict[str, Any]
"""path, mode, group, rows, low, high, polled_us, `first` (the first delivery, see `_Deliveries.told`), `last` (the last
offset), `falls` (how many offsets were not above the one before) and `fallen` (at most CAP of those deliveries)."""


def segments(part: Part) -> Iterator[tuple[Key, str, Rows, Segment]]:
    """Of each epoch in a part of deliveries: its key, its reader, its rows and its segment."""
    rows = _Deliveries(part)
    (groups, group_names), (modes, mode_names) = part.codes("group"), part.codes("mode")
    (consumers, clients), (topics, names) = part.codes("consumer"), part.codes("topic")
    keys = consumers, part.ints("incarnation"), part.ints("assignment"), topics, part.ints("partition"), groups, modes
    for (c, life, number, topic, partition, g, m), mine in sections(*keys):
        group, mode = (group_names[g] if g >= 0 else None), mode_names[m]
        reader = (group if mode == "subscribe" else clients[c]) or ""
        segment = rows.segment(mine) | {"path": part.path, "mode": mode, "group": group}
        yield (clients[c], life, number, names[topic], partition), reader, mine, segment


class _Deliveries:
    """The columns of a part that segments are made of."""

    def __init__(self, part: Part) -> None:
        self._ordinal, self._offset, self._polled = (part.ints(n) for n in ("ordinal", "offset", "polled_us"))
        self._processed, self._seq = part.ints("processed_us"), part.ints("seq")
        self._codes, self._producers = part.codes("producer")
        self._incarnation = part.ints("producer_incarnation")

    def segment(self, mine: Rows) -> Segment:
        """The segment of some rows of one epoch."""
        ordinal, offset = mine.ints(self._ordinal), mine.ints(self._offset)
        order = None
        if (ordinal[1:] < ordinal[:-1]).any():
            order = np.argsort(ordinal, kind="stable")
            offset = offset[order]
        falls = np.flatnonzero(offset[1:] <= offset[:-1]) + 1
        shown = falls[np.argsort(offset[falls], kind="stable")[:CAP]].tolist()
        return {
            "rows": len(offset),
            "low": int(offset.min()),
            "high": int(offset.max()),
            "last": int(offset[-1]),
            "first": self._told(_row(mine, order, 0), None),
            "polled_us": int(mine.ints(self._polled).min()),
            "falls": len(falls),
            "fallen": [self._told(_row(mine, order, i), int(offset[i - 1])) for i in shown],
        }

    def _told(self, row: int, before: int | None) -> dict[str, Any]:
        """One delivery, and the offset of the one before."""
        code, incarnation, seq = (int(c[row]) for c in (self._codes, self._incarnation, self._seq))
        return {
            "offset": int(self._offset[row]),
            "ordinal": int(self._ordinal[row]),
            "processed_us": int(self._processed[row]),
            "producer": self._producers[code] if code >= 0 else None,
            "incarnation": None if incarnation == NONE else incarnation,
            "seq": None if seq == NONE else seq,
            "before": before,
        }


def _row(mine: Rows, order: Ints | None, nth: int) -> int:
    if order is None and nth == 0:
        return mine.first
    return int(mine.index[nth if order is None else order[nth]])
