"""Offsets of a group or share group that a fault deleted or set, or that were lost (`lost_offsets.py`).

A redelivery from a moved offset is legal, and a commit below the offset that was in force before the change is no
rewind. A record that the reader leaves out because of a change is still a skip.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from checks.audit.arrays import NEVER_US
from checks.audit.facts.epochs import Row

STALE_ANSWER_US = 2_000_000
"""Up to this long after a change the observer may report the former offset: its request was already on its way."""
BY_FAULT = "fault"
"""The mode of a committed offset that a fault set."""


@dataclass(frozen=True)
class OffsetChange:
    """A change of a group's committed offsets, at some time from from_us to to_us.

    fault: the fault that made it, "" if none did. sure: whether the change certainly happened. offsets: by partition
    such as orders/0, None for a deleted offset; None if a fault deleted the whole group; empty if the group was no
    longer known. lost_offset: the committed offset that was no longer in force, though no fault changed it.
    interrupted: whether the coordinator had been interrupted just before that. in_log: whether the log of
    `__consumer_offsets` still has that commit at the end, None if that is not known.
    """

    fault: str
    group: str
    from_us: int
    to_us: int
    sure: bool
    offsets: dict[str, int | None] | None
    lost_offset: int | None = None
    interrupted: bool = False
    in_log: bool | None = None

    @property
    def recreates(self) -> bool:
        """Whether the group may begin again at generation 1 after it."""
        return self.offsets is None or not self.fault

    def touches(self, topic: str, partition: int) -> bool:
        """Return whether it changes a partition."""
        return self.offsets is None or f"{topic}/{partition}" in self.offsets

    def offset(self, topic: str, partition: int) -> int | None:
        """Return the offset that it set, None if it deleted it."""
        return None if self.offsets is None else self.offsets[f"{topic}/{partition}"]


def group_recreated(offset_changes: Iterable[OffsetChange], group: str | None, from_us: int, to_us: int) -> bool:
    """Return whether a group may have begun again in a time span: generations before and after do not compare."""
    return any(m.recreates and m.group == group and m.from_us <= to_us and m.to_us >= from_us for m in offset_changes)


def offset_changes_of(faults: Iterable[Row]) -> list[OffsetChange]:
    """Return the changes by faults. A fault that failed may or may not have changed offsets."""
    phases: dict[tuple[str, str, str], dict[str, Row]] = defaultdict(dict)
    for row in sorted(faults, key=lambda r: -r["at_us"]):
        if row["kind"].startswith(("group.", "share.")):
            phases[row["fault"], row["kind"], row["target"]][row["phase"]] = row
    found = []
    for (fault, kind, target), rows in phases.items():
        done, failed = rows.get("injected"), rows.get("failed")
        result = done or failed
        begun = rows.get("injecting") or result
        offsets = _object(evidence_of(result).get("offsets")) if result else {}
        if begun is None or (kind != "group.delete" and not offsets):
            continue  # the affected partitions are unknown
        to_us = result["at_us"] if result else NEVER_US
        affected = None if kind == "group.delete" else offsets
        group = target.removeprefix("group ")
        found.append(OffsetChange(fault, group, min(begun["at_us"], to_us), to_us, done is not None, affected))
    return found


def evidence_of(row: Row) -> dict[str, Any]:
    """Return the evidence of a row of table `faults`; empty if it is not a JSON object."""
    try:
        return _object(json.loads(row["evidence"] or "{}"))
    except json.JSONDecodeError:
        return {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
