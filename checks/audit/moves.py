"""Committed offsets of a group that a fault deleted or set: commits of nobody's, which explain where the group begins.

What it takes from the reader is no anomaly of the reader's: a redelivery from there is legal, and a commit below what
was in force before is no rewind. What it makes the reader leave out is a skip all the same.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from checks.audit.epochs import Row

NEVER_US = 1 << 62
SEEN_LATE_US = 2_000_000
"""So long after a move the observer may still tell what was committed before: its answer was on its way."""
BY_FAULT = "fault"
"""In the place of the mode of who committed an offset."""


@dataclass(frozen=True)
class Move:
    """What one fault did to a group's offsets, at some time from from_us to to_us.

    sure: whether it did. offsets: by partition, such as orders/0, None for one that was deleted; None: the whole group.
    """

    fault: str
    group: str
    from_us: int
    to_us: int
    sure: bool
    offsets: dict[str, int | None] | None

    def touches(self, topic: str, partition: int) -> bool:
        """Whether it is about a partition."""
        return self.offsets is None or f"{topic}/{partition}" in self.offsets

    def to(self, topic: str, partition: int) -> int | None:
        """The offset that it set, None if it deleted it."""
        return None if self.offsets is None else self.offsets[f"{topic}/{partition}"]


def begun_anew(moves: Iterable[Move], group: str | None, from_us: int, to_us: int) -> bool:
    """Whether a group may have been deleted in a time: then its generations begin again, and do not compare."""
    return any(m.offsets is None and m.group == group and m.from_us <= to_us and m.to_us >= from_us for m in moves)


def moves_of(faults: Iterable[Row]) -> list[Move]:
    """What faults of the kinds `group.*` did, as their rows tell it: one that failed may have been done or not."""
    phases: dict[tuple[str, str, str], dict[str, Row]] = defaultdict(dict)
    for row in sorted(faults, key=lambda r: -r["at_us"]):
        if row["kind"].startswith("group."):
            phases[row["fault"], row["kind"], row["target"]][row["phase"]] = row
    found = []
    for (fault, kind, target), rows in phases.items():
        begun = rows.get("injecting") or rows.get("injected") or rows.get("failed")
        if begun is None:
            continue
        done, failed = rows.get("injected"), rows.get("failed")
        told = done or failed
        offsets = _offsets(told) if told else {}
        if kind != "group.delete" and not offsets:
            continue  # nobody knows which
        to_us = done["at_us"] if done else failed["at_us"] if failed else NEVER_US
        whole = None if kind == "group.delete" else offsets
        group = target.removeprefix("group ")
        found.append(Move(fault, group, min(begun["at_us"], to_us), to_us, done is not None, whole))
    return found


def _offsets(row: Row) -> dict[str, int | None]:
    try:
        evidence = json.loads(row["evidence"] or "{}")
    except json.JSONDecodeError:
        return {}
    offsets = evidence.get("offsets") if isinstance(evidence, dict) else None
    return offsets if isinstance(offsets, dict) else {}
