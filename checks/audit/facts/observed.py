"""Observations over time: values of the `cluster` rows at a moment, and the time spans in which they were in force.

Each row is a change. A value is in force from its row to the next row of the same key, or to the end of the drive.
While no broker answered, nothing is known.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.kafka.partition import group_partition
from checks.audit.facts.epochs import Row

OFFSETS_TOPIC = "__consumer_offsets"
UNKNOWN_GROUP = "Dead"
"""State of a group that its coordinator does not know."""


@dataclass(frozen=True)
class Span:
    """A time span in which some values were in force together. open: it lasts to the end of the drive."""

    begin_us: int
    end_us: int
    values: dict[str, Any]
    open: bool

    @property
    def length_us(self) -> int:
        """Its length in microseconds."""
        return self.end_us - self.begin_us


@dataclass(frozen=True)
class Leader:
    """The observed leadership of a partition at a moment; None for a value not observed yet."""

    at_us: int
    broker: int | None
    epoch: int | None
    isr: list[int] | None


class Observed:
    """The `cluster` rows of a run. end_us: the end of the drive."""

    def __init__(self, rows: Iterable[Row], end_us: int) -> None:
        self.end_us = end_us
        self._values: dict[tuple[str, str], list[tuple[int, Any]]] = defaultdict(list)
        for row in sorted(rows, key=lambda r: r["at_us"]):
            self._values[row["entity"], row["key"]].append((row["at_us"], _json(row["value"])))

    def entities(self, key: str) -> list[str]:
        """Return the entities for which a key was ever recorded."""
        return sorted(entity for entity, recorded in self._values if recorded == key)

    def changes(self, entity: str, key: str) -> list[tuple[int, Any]]:
        """Return time and value of each recorded change of a key, including the first value."""
        return self._values.get((entity, key), [])

    def value(self, entity: str, key: str, at_us: int) -> Any:
        """Return the last value of a key at or before a moment, None if there was none."""
        changes = self.changes(entity, key)
        index = bisect_right(changes, at_us, key=lambda change: change[0])
        return changes[index - 1][1] if index else None

    def spans(self, *watched: tuple[str, str]) -> Iterator[Span]:
        """Yield the spans between changes of these (entity, key) pairs; values by key, None before the first row."""
        changes = sorted(((at, key, v) for e, key in watched for at, v in self.changes(e, key)), key=lambda c: c[0])
        values: dict[str, Any] = {key: None for _, key in watched}
        begin: int | None = None
        for at, key, value in changes:
            if begin is not None and at > begin:
                yield Span(begin, at, dict(values), open=False)
            values[key], begin = value, at
        if begin is not None:
            yield Span(begin, max(self.end_us, begin), dict(values), open=True)

    def leader(self, topic: str, partition: int, at_us: int) -> Leader:
        """Return the last leadership observed at or before a moment."""
        broker, epoch, isr = (
            self.value(f"{topic}/{partition}", key, at_us) for key in ("leader", "leader_epoch", "isr")
        )
        return Leader(at_us, broker, epoch, isr)

    def next_leader(self, topic: str, partition: int, after_us: int) -> Leader | None:
        """Return the first leader of a higher epoch observed after a moment, None if there was none.

        The epoch can begin without a leader; its broker is None if none was seen.
        """
        entity = f"{topic}/{partition}"
        now = self.value(entity, "leader_epoch", after_us)
        epochs = self.changes(entity, "leader_epoch")
        higher = (c for c in epochs if c[0] > after_us and isinstance(c[1], int) and (now is None or c[1] > now))
        at_us, epoch = next(higher, (0, None))
        if epoch is None:
            return None
        found = self.leader(topic, partition, at_us)
        if isinstance(found.broker, int) and found.broker >= 0:
            return Leader(at_us, found.broker, epoch, found.isr)
        for later_us, broker in self.changes(entity, "leader"):
            if later_us > at_us and isinstance(broker, int) and broker >= 0:
                return self.leader(topic, partition, later_us)
        return Leader(at_us, None, epoch, found.isr)


def phase_times(faults: Iterable[Row], phase: str) -> dict[str, int]:
    """Return by fault the time of the first row of a phase, such as `injected`, in order of time."""
    found: dict[str, int] = {}
    for row in sorted(faults, key=lambda r: r["at_us"]):
        if row["phase"] == phase:
            found.setdefault(row["fault"], row["at_us"])
    return found


def injections(faults: Sequence[Row]) -> dict[str, int]:
    """Return by fault the time of its injection, and by `fault: node` the end of each node that it restarts in turn."""
    found = phase_times(faults, "injected")
    for row in faults:
        if row["phase"] == "injected":
            steps = (_json(row["evidence"]) or {}).get("steps", [])
            found |= {f"{row['fault']}: {step['node']}": step["down_us"] for step in steps}
    return found


def _json(text: str | None) -> Any:
    try:
        return json.loads(text) if text is not None else None
    except json.JSONDecodeError:
        return None


def joined(spans: Iterable[tuple[Any, Span]]) -> Iterator[tuple[Any, Span]]:
    """Join neighbouring spans of equal keys, leaving out those with the key None; values are of the last span."""
    current: tuple[Any, Span] | None = None
    for key, s in spans:
        if current and current[0] == key and current[1].end_us == s.begin_us:
            current = key, Span(current[1].begin_us, s.end_us, s.values, s.open)
            continue
        if current and current[0] is not None:
            yield current
        current = key, s
    if current and current[0] is not None:
        yield current


def offsets_partition(observed: Observed, group: str) -> str | None:
    """Return the partition of `__consumer_offsets` that holds a group, None if its leader was never observed."""
    partitions = observed.value(OFFSETS_TOPIC, "partitions", observed.end_us)
    if not isinstance(partitions, int) or partitions < 1:
        return None
    name = f"{OFFSETS_TOPIC}/{group_partition(group, partitions)}"
    return name if observed.changes(name, "leader") else None
