"""Segments: the deliveries of one epoch in one part, summarised by their ends and by the offsets that fell back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from checks.audit.arrays import Ints, nullable
from checks.audit.engine.group import Rows, sections
from checks.audit.engine.parts import Part
from checks.audit.facts.epochs import Key
from checks.audit.findings import CAP

Segment = dict[str, Any]
"""path, mode, group, rows, low, high, polled_us, `first` (the first delivery as `_Deliveries.delivery` returns it),
`last` (the last offset), `falls` (number of offsets not above the one before) and `fallen` (at most CAP of those
deliveries)."""


def segments(part: Part) -> Iterator[tuple[Key, str, Rows, Segment]]:
    """Yield key, reader, rows and segment of each epoch in a part of deliveries."""
    deliveries = _Deliveries(part)
    (groups, group_names), (modes, mode_names) = part.codes("group"), part.codes("mode")
    (consumers, clients), (topics, names) = part.codes("consumer"), part.codes("topic")
    keys = consumers, part.ints("incarnation"), part.ints("assignment"), topics, part.ints("partition"), groups, modes
    for (c, life, assignment, topic, partition, g, m), rows in sections(*keys):
        group, mode = (group_names[g] if g >= 0 else None), mode_names[m]
        reader = (group if mode == "subscribe" else clients[c]) or ""
        segment = deliveries.segment(rows) | {"path": part.path, "mode": mode, "group": group}
        yield (clients[c], life, assignment, names[topic], partition), reader, rows, segment


class _Deliveries:
    """The columns of a part from which segments are made."""

    def __init__(self, part: Part) -> None:
        self._ordinal, self._offset, self._polled = (part.ints(n) for n in ("ordinal", "offset", "polled_us"))
        self._processed, self._seq = part.ints("processed_us"), part.ints("seq")
        self._codes, self._producers = part.codes("producer")
        self._incarnation = part.ints("producer_incarnation")

    def segment(self, rows: Rows) -> Segment:
        """Return the segment of some rows of one epoch."""
        ordinal, offset = rows.ints(self._ordinal), rows.ints(self._offset)
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
            "first": self.delivery(_row(rows, order, 0), None),
            "polled_us": int(rows.ints(self._polled).min()),
            "falls": len(falls),
            "fallen": [self.delivery(_row(rows, order, i), int(offset[i - 1])) for i in shown],
        }

    def delivery(self, row: int, before: int | None) -> dict[str, Any]:
        """Return one delivery with the offset delivered before it."""
        code = int(self._codes[row])
        return {
            "offset": int(self._offset[row]),
            "ordinal": int(self._ordinal[row]),
            "processed_us": int(self._processed[row]),
            "producer": self._producers[code] if code >= 0 else None,
            "incarnation": nullable(self._incarnation[row]),
            "seq": nullable(self._seq[row]),
            "before": before,
        }


def _row(rows: Rows, order: Ints | None, nth: int) -> int:
    if order is None and nth == 0:
        return rows.first
    return int(rows.index[nth if order is None else order[nth]])
