"""What the observer and the faults say about a moment: who led a partition, with which ISR, under which fault."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from checks.audit.epochs import Row


@dataclass(frozen=True)
class Leader:
    """Leadership of a partition at a moment, as observed; None where nothing was seen yet."""

    at_us: int
    broker: int | None
    epoch: int | None
    isr: list[int] | None


class Leadership:
    """Leaders of partitions over time, from `cluster` rows of entities such as `orders/0`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        values: dict[tuple[str, str], list[tuple[int, Any]]] = defaultdict(list)
        for row in sorted(rows, key=lambda r: r["at_us"]):
            values[row["entity"], row["key"]].append((row["at_us"], _json(row["value"])))
        self._values = values

    def at(self, topic: str, partition: int, at_us: int) -> Leader:
        """The last that was seen at or before a moment."""
        entity = f"{topic}/{partition}"
        broker, epoch, isr = (self._last(entity, key, at_us) for key in ("leader", "leader_epoch", "isr"))
        return Leader(at_us, broker, epoch, isr)

    def next(self, topic: str, partition: int, after_us: int) -> Leader | None:
        """The first leader of a higher epoch seen after a moment; None if there was none."""
        entity = f"{topic}/{partition}"
        now = self._last(entity, "leader_epoch", after_us)
        for at_us, epoch in self._values[entity, "leader_epoch"]:
            if at_us > after_us and isinstance(epoch, int) and (now is None or epoch > now):
                return self._elected(topic, partition, at_us, epoch)
        return None

    def _elected(self, topic: str, partition: int, at_us: int, epoch: int) -> Leader:
        """An epoch can begin without a leader: take the first broker that leads in it."""
        entity = f"{topic}/{partition}"
        found = self.at(topic, partition, at_us)
        if isinstance(found.broker, int) and found.broker >= 0:
            return Leader(at_us, found.broker, epoch, found.isr)
        for later_us, broker in self._values[entity, "leader"]:
            if later_us > at_us and isinstance(broker, int) and broker >= 0:
                return self.at(topic, partition, later_us)
        return Leader(at_us, None, epoch, found.isr)

    def _last(self, entity: str, key: str, at_us: int) -> Any:
        seen = self._values[entity, key]
        index = bisect_right(seen, at_us, key=lambda v: v[0])
        return seen[index - 1][1] if index else None


class Faults:
    """When each fault was at work: from its injection to its heal."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._injected: dict[str, tuple[int, str]] = {}
        self._healed: dict[str, int] = {}
        for row in sorted(rows, key=lambda r: r["at_us"]):
            if row["phase"] == "injected":
                self._injected.setdefault(row["fault"], (row["at_us"], row["kind"]))
            elif row["phase"] == "healed":
                self._healed.setdefault(row["fault"], row["at_us"])

    def active(self, at_us: int) -> str:
        """The names of the faults at work at a moment; empty if none was."""
        names = [
            name
            for name, (injected, _) in self._injected.items()
            if injected <= at_us and at_us <= self._healed.get(name, at_us)
        ]
        return ", ".join(names)

    def last_before(self, at_us: int) -> str:
        """The fault injected last before a moment; empty if there was none."""
        earlier = [(injected, name) for name, (injected, _) in self._injected.items() if injected <= at_us]
        return max(earlier)[1] if earlier else ""


def _json(text: str | None) -> Any:
    try:
        return json.loads(text) if text is not None else None
    except json.JSONDecodeError:
        return text
