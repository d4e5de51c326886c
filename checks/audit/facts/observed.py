"""Observations over time: the `cluster` rows of a run, read as time spans in which values were in force.

Each row is a change. A value is in force from its row to the next row of the same key, or to the end of the drive.
While no broker answered, nothing is known.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from checks.audit.facts.epochs import Row

OFFSETS_TOPIC = "__consumer_offsets"


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


class Observed:
    """The `cluster` rows of a run. end_us: the end of the drive."""

    def __init__(self, rows: Iterable[Row], end_us: int) -> None:
        self.end_us = end_us
        self._rows: dict[str, list[tuple[int, str, Any]]] = defaultdict(list)
        for row in sorted(rows, key=lambda r: r["at_us"]):
            self._rows[row["entity"]].append((row["at_us"], row["key"], _json(row["value"])))

    def entities(self, key: str) -> list[str]:
        """Return the entities for which a key was ever recorded."""
        return sorted(e for e, rows in self._rows.items() if any(k == key for _, k, _ in rows))

    def count(self, entity: str, key: str) -> int:
        """Return the number of recorded changes of a key, including the first value."""
        return sum(k == key for _, k, _ in self._rows.get(entity, ()))

    def first(self, entity: str, key: str) -> int | None:
        """Return the time of the first value of a key, None if it was never recorded."""
        return next((at for at, k, _ in self._rows.get(entity, ()) if k == key), None)

    def last(self, entity: str, key: str) -> Any:
        """Return the last value of a key, None if it was never recorded."""
        return next((v for _, k, v in reversed(self._rows.get(entity, ())) if k == key), None)

    def spans(self, *watched: tuple[str, str]) -> Iterator[Span]:
        """Yield the spans between changes of these (entity, key) pairs; values by key, None before the first row."""
        changes = sorted(
            ((at, k, v) for e, key in watched for at, k, v in self._rows.get(e, ()) if k == key), key=lambda c: c[0]
        )
        values: dict[str, Any] = {key: None for _, key in watched}
        begin: int | None = None
        for at, key, value in changes:
            if begin is not None and at > begin:
                yield Span(begin, at, dict(values), open=False)
            values[key], begin = value, at
        if begin is not None:
            yield Span(begin, max(self.end_us, begin), dict(values), open=True)


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
    partitions = observed.last(OFFSETS_TOPIC, "partitions")
    if not isinstance(partitions, int) or partitions < 1:
        return None
    name = f"{OFFSETS_TOPIC}/{java_hash(group) % partitions}"
    return name if observed.count(name, "leader") else None


def java_hash(text: str) -> int:
    """Return `Utils.abs(text.hashCode())` of Kafka: Java's 32-bit hash over UTF-16 code units, without its sign.

    `Utils.abs` is `Math.abs` (0 for the lowest number), not `Utils.toPositive`, which clears the sign bit.
    """
    units, value = text.encode("utf-16-be", "surrogatepass"), 0
    for i in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[i : i + 2], "big")) & 0xFFFFFFFF
    return abs(value - 2**32 if value >= 2**31 else value) % 2**31
