"""Epochs: (consumer, incarnation, assignment) on one partition, from where it began to read until it gave it up.

There are as many as assignment events, never as many as records, so they are plain Python objects on the driver; what
the records say of them arrives as one tally per epoch. Everything about the read path hangs on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

import pyarrow as pa

from checks.audit.tables import AUDIT_TABLES

KEY = ("consumer", "incarnation", "assignment", "topic", "partition")
Row = dict[str, Any]
Key = tuple[str, int, int, str, int]


@dataclass(frozen=True)
class Life:
    """One incarnation of a client. end is stopped, crashed or "" (never seen)."""

    role: str
    started_us: int | None
    ended_us: int | None
    end: str


@dataclass
class Epoch:
    """One epoch. source and position are as recorded; start is the position taken as true, legal whether it may be.

    rows, low, high, first and last are of the offsets delivered in it, first and last in the order of processing.
    committed: highest offset it committed (ok) by its own rows. passed: the same with what the observer and
    the next owner's start give away. turn: its place among the reader's epochs on the partition, by begin.
    """

    reader: str
    consumer: str
    incarnation: int
    assignment: int
    topic: str
    partition: int
    mode: str
    group: str | None
    member_id: str | None
    generation: int | None
    source: str | None
    position: int | None
    begin_us: int
    end_us: int = 0
    end_reason: str = "open"
    end_generation: int | None = None
    rows: int = 0
    low: int | None = None
    high: int | None = None
    first: int | None = None
    last: int | None = None
    committed: int | None = None
    passed: int | None = None
    turn: int = 0
    start: int | None = None
    legal: bool = False
    why: str = ""

    @property
    def key(self) -> Key:
        """What deliveries and commits name it by."""
        return self.consumer, self.incarnation, self.assignment, self.topic, self.partition

    @property
    def place(self) -> tuple[str, str, int]:
        """Reader, topic and partition."""
        return self.reader, self.topic, self.partition

    @property
    def holder(self) -> tuple[str, int]:
        """Consumer and incarnation: one member."""
        return self.consumer, self.incarnation


@dataclass(frozen=True)
class Question:
    """An epoch (by number) that asked for the committed offset of its group, between fetched_us and begin_us.

    next_begin_us: when the reader's next epoch on the partition began.
    """

    epoch: int
    group: str
    consumer: str
    fetched_us: int
    begin_us: int
    next_begin_us: int


@dataclass
class Epochs:
    """All epochs, in order of (reader, topic, partition, turn)."""

    all: list[Epoch] = field(default_factory=list)

    def by_place(self) -> dict[tuple[str, str, int], list[Epoch]]:
        """The epochs of each reader on each partition, in turn."""
        places: dict[tuple[str, str, int], list[Epoch]] = defaultdict(list)
        for epoch in self.all:
            places[epoch.place].append(epoch)
        return places


def lives(lifecycle: Iterable[Row]) -> dict[tuple[str, int], Life]:
    """Each incarnation that the lifecycle knows. A crash outweighs a stop: the supervisor saw it die."""
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in lifecycle:
        found[row["client"], row["incarnation"]].append(row)
    result = {}
    for key, rows in found.items():
        times = {row["event"]: row["at_us"] for row in sorted(rows, key=lambda r: -r["at_us"])}
        end = "crashed" if "crashed" in times else "stopped" if "stopped" in times else ""
        result[key] = Life(rows[0]["role"], times.get("started"), times.get(end), end)
    return result


def build(
    assignments: list[Row],
    known_lives: dict[tuple[str, int], Life],
    delivered: list[Row],
    committed: dict[Key, int],
    drive_end_us: int,
) -> Epochs:
    """Put the epochs together. One whose assignment row is missing is taken from its deliveries, with no position."""
    found: dict[Key, Epoch] = {}
    for row in assignments:
        if row["event"] in ("assigned", "seek"):
            found.setdefault(_key(row), _begun(row))
    for row in delivered:
        epoch = found.setdefault(_key(row), _begun({**row, "at_us": row["polled_us"]}))
        epoch.rows, epoch.low, epoch.high = row["rows"], row["low"], row["high"]
        epoch.first, epoch.last = row["first"], row["last"]
    for key, offset in committed.items():
        if key in found:
            found[key].committed = offset
    _end(found, assignments, known_lives, drive_end_us)
    order = attrgetter("reader", "topic", "partition", "begin_us", "consumer", "incarnation", "assignment")
    ordered = sorted(found.values(), key=order)
    epochs = Epochs(ordered)
    for turns in epochs.by_place().values():
        for turn, epoch in enumerate(turns):
            epoch.turn = turn
    return epochs


def _key(row: Row) -> Key:
    return row["consumer"], row["incarnation"], row["assignment"], row["topic"], row["partition"]


def _begun(row: Row) -> Epoch:
    subscribe = row["mode"] == "subscribe"
    return Epoch(
        reader=row["group"] if subscribe else row["consumer"],
        **{name: row[name] for name in KEY},
        mode=row["mode"],
        group=row["group"],
        member_id=row.get("member_id"),
        generation=row.get("generation"),
        source=row.get("source"),
        position=row.get("position"),
        begin_us=row["at_us"],
    )


def _end(
    found: dict[Key, Epoch], assignments: list[Row], known: dict[tuple[str, int], Life], drive_end_us: int
) -> None:
    """An epoch ends with its revoked or lost row, or the consumer's next epoch there, or the consumer's life."""
    closes = {_key(r): r for r in sorted(assignments, key=lambda r: -r["at_us"]) if r["event"] in ("revoked", "lost")}
    follower = _followers(found)
    for key, epoch in found.items():
        life = known.get(epoch.holder)
        if close := closes.get(key):
            epoch.end_us, epoch.end_reason, epoch.end_generation = close["at_us"], close["event"], close["generation"]
        elif after := follower.get(key):
            epoch.end_us, epoch.end_reason = after.begin_us, "replaced"
        elif life and life.ended_us is not None:
            epoch.end_us, epoch.end_reason = life.ended_us, life.end
        else:
            epoch.end_us = max(drive_end_us, epoch.begin_us)
    _last_generations(found, assignments)


def _followers(found: dict[Key, Epoch]) -> dict[Key, Epoch]:
    """The next epoch of the same member on the same partition."""
    held: dict[tuple[Any, ...], list[Epoch]] = defaultdict(list)
    for epoch in found.values():
        held[epoch.holder, epoch.topic, epoch.partition].append(epoch)
    for epochs in held.values():
        epochs.sort(key=attrgetter("assignment"))
    return {a.key: b for epochs in held.values() for a, b in pairwise(epochs)}


def _last_generations(found: dict[Key, Epoch], assignments: list[Row]) -> None:
    """The last generation in which a member is known to have held a partition, where its end does not say."""
    seen: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for row in assignments:
        if row["generation"] is not None:
            seen[row["consumer"], row["incarnation"]].append((row["at_us"], row["generation"]))
    for epoch in found.values():
        if epoch.end_generation is not None or epoch.generation is None:
            continue
        # what replaced it may be of a later generation, in which it was not held on these terms any more
        replaced = epoch.end_reason == "replaced"
        held = [g for at, g in seen[epoch.holder] if epoch.begin_us <= at <= epoch.end_us and not replaced]
        epoch.end_generation = max(held, default=epoch.generation)


def ownership_table(epochs: Epochs) -> pa.Table:
    """Who held which partition from when to when."""
    schema = AUDIT_TABLES["ownership"]
    return pa.table([[getattr(e, name) for e in epochs.all] for name in schema.names], schema=schema)
