"""Partition leaders and active faults at a moment, for the evidence of findings."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from checks.audit.facts.epochs import Row


@dataclass(frozen=True)
class Leader:
    """The observed leadership of a partition at a moment; None for a value not observed yet."""

    at_us: int
    broker: int | None
    epoch: int | None
    isr: list[int] | None


class Leadership:
    """Leaders of partitions over time, from `cluster` rows of entities such as `orders/0`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._values: dict[tuple[str, str], list[tuple[int, Any]]] = defaultdict(list)
        for row in sorted(rows, key=lambda r: r["at_us"]):
            self._values[row["entity"], row["key"]].append((row["at_us"], _json(row["value"])))

    def at(self, topic: str, partition: int, at_us: int) -> Leader:
        """Return the last leadership observed at or before a moment."""
        entity = f"{topic}/{partition}"
        broker, epoch, isr = (self._last(entity, key, at_us) for key in ("leader", "leader_epoch", "isr"))
        return Leader(at_us, broker, epoch, isr)

    def next(self, topic: str, partition: int, after_us: int) -> Leader | None:
        """Return the first leader of a higher epoch observed after a moment, None if there was none."""
        entity = f"{topic}/{partition}"
        now = self._last(entity, "leader_epoch", after_us)
        for at_us, epoch in self._values[entity, "leader_epoch"]:
            if at_us > after_us and isinstance(epoch, int) and (now is None or epoch > now):
                return self._elected(topic, partition, at_us, epoch)
        return None

    def _elected(self, topic: str, partition: int, at_us: int, epoch: int) -> Leader:
        """Return the first broker that leads in an epoch, which can begin without a leader."""
        found = self.at(topic, partition, at_us)
        if isinstance(found.broker, int) and found.broker >= 0:
            return Leader(at_us, found.broker, epoch, found.isr)
        for later_us, broker in self._values[f"{topic}/{partition}", "leader"]:
            if later_us > at_us and isinstance(broker, int) and broker >= 0:
                return self.at(topic, partition, later_us)
        return Leader(at_us, None, epoch, found.isr)

    def _last(self, entity: str, key: str, at_us: int) -> Any:
        values = self._values[entity, key]
        index = bisect_right(values, at_us, key=lambda v: v[0])
        return values[index - 1][1] if index else None


def _json(text: str | None) -> Any:
    try:
        return json.loads(text) if text is not None else None
    except json.JSONDecodeError:
        return text


def phase_times(faults: Iterable[Row], phase: str) -> dict[str, int]:
    """Return by fault the time of the first row of a phase, such as `injected`, in order of time."""
    found: dict[str, int] = {}
    for row in sorted(faults, key=lambda r: r["at_us"]):
        if row["phase"] == phase:
            found.setdefault(row["fault"], row["at_us"])
    return found


def last_injected(injected: dict[str, int], at_us: int) -> str | None:
    """Return the fault injected last at or before a moment, None if there was none."""
    earlier = [(time_us, fault) for fault, time_us in injected.items() if time_us <= at_us]
    return max(earlier)[1] if earlier else None
