"""Checkpoints of readers in assign mode: the offsets from which a later incarnation may restore.

A reader stores its offsets with each result, so its checkpoint is the offset after its last processed record; or it
stores them apart from the results at an interval, as Flink and Spark do. Then each complete checkpoint has a row, and
what was processed after the last one is processed again. A reader in which no checkpoint was complete begins at its
given start again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from checks.audit.facts.epochs import CHECKPOINT, Epoch, Row
from checks.audit.facts.readers import Reader

NOT_RESTORED = "its checkpoint was"
"""How the reason of an illegal start begins, of a reader that had a checkpoint."""


class Checkpoints:
    """The rows of complete checkpoints."""

    def __init__(self, assignments: Iterable[Row]) -> None:
        self._stored: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
        for row in sorted(assignments, key=lambda r: (r["incarnation"], r["at_us"], r["position"] or 0)):
            if row["event"] == CHECKPOINT and row["position"] is not None:
                self._stored[row["consumer"], row["topic"], row["partition"]].append(row)

    def last_before(self, e: Epoch) -> int | None:
        """Return the last checkpoint of the earlier incarnations of an epoch's consumer, None without one."""
        rows = self._stored.get((e.consumer, e.topic, e.partition), [])
        return next((row["position"] for row in reversed(rows) if row["incarnation"] < e.incarnation), None)


def judge_checkpoint(e: Epoch, earlier: list[Epoch], reader: Reader, checkpoints: Checkpoints) -> None:
    """Judge the restore from a checkpoint.

    A stored checkpoint may be later than the last one with a row, if its process died before it wrote the row; and a
    reader with idempotent results begins after those that it finds. It begins nowhere before the start of the reader,
    and nowhere beyond what was processed.
    """
    before = sorted((p for p in earlier if p.consumer == e.consumer), key=lambda p: (p.incarnation, p.assignment))
    begun = before[0].start if before else None
    processed = next((p.last + 1 for p in reversed(before) if p.last is not None), begun)
    stored = checkpoints.last_before(e) if reader.stores_checkpoints else processed
    lowest = begun if stored is None else stored
    e.start = e.position if e.position is not None else e.first
    e.legal = e.start is None or lowest is None or lowest <= e.start <= max(lowest, processed or 0)
    e.why = "its checkpoint" if e.legal else f"{NOT_RESTORED} {lowest}, not {e.start}"
    e.restored = e.legal and reader.stores_checkpoints
    if e.restored and e.start != stored:
        e.why += ", or what was processed after the last one with a row"
