"""Epochs: (consumer, incarnation, assignment) on one partition, from its first read until it gave the partition up.

There are as many epochs as assignment events, so they are Python objects on the driver. Executors report one summary
per epoch. All rules of the read path depend on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

from chaos.scenario.model import Scenario
from checks.audit.facts.readers import entry_of

KEY = ("consumer", "incarnation", "assignment", "topic", "partition")
BEGINS = ("assigned", "seek")
"""The events that begin an epoch."""
ENDS = ("revoked", "lost", "deleted")
"""The events that end an epoch; deleted: with its topic."""
POSITION = "position"
"""The event that gives the position of an epoch later, where the client library chose it."""
CHECKPOINT = "checkpoint"
"""The event of a complete checkpoint."""
Row = dict[str, Any]
Key = tuple[str, int, int, str, int]
"""The values of `KEY`."""
ReaderPartition = tuple[str, str, int]
"""Reader, topic and partition."""


@dataclass(frozen=True)
class Life:
    """One incarnation of a client. end is stopped, crashed or "" (its end was not recorded)."""

    role: str
    started_us: int | None
    ended_us: int | None
    end: str


@dataclass
class Epoch:
    """One epoch.

    source and position: as recorded. start: the position taken as true, legal: whether it may begin there, why: the
    reason. moved: whether something other than commits of the group's members set that start (a fault, a seek, another
    job) or made auto.offset.reset apply (the committed offset was deleted or lost, or is outside the log).
    instance_id: of a static member. former: how far it had come in a deleted topic, if it goes on in the topic that
    took its place. rows, low, high, first and last: of the offsets delivered in it, first and last in the order of
    processing. restored: whether it began at a stored checkpoint, or again because there was none. committed: the
    highest offset that its own rows committed (ok). passed: the same, including what the observer and the next owner's
    start show. turn: its index among the reader's epochs on the partition, ordered by begin. index: its index among all
    epochs.
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
    index: int = 0
    start: int | None = None
    legal: bool = False
    why: str = ""
    moved: bool = False
    former: int | None = None
    restored: bool = False
    instance_id: str | None = None

    @property
    def key(self) -> Key:
        """The key in deliveries and commits."""
        return self.consumer, self.incarnation, self.assignment, self.topic, self.partition

    @property
    def reader_partition(self) -> ReaderPartition:
        """Reader, topic and partition."""
        return self.reader, self.topic, self.partition

    @property
    def holder(self) -> dict[str, int]:
        """Incarnation of the consumer and assignment, as evidence."""
        return {"consumer_incarnation": self.incarnation, "assignment": self.assignment}

    def rejoined(self, other: Epoch) -> bool:
        """Return whether both are of one static member, in two processes (KIP-345)."""
        return self.instance_id is not None and self.instance_id == other.instance_id and self.member != other.member

    @property
    def member(self) -> tuple[str, int]:
        """Consumer and incarnation."""
        return self.consumer, self.incarnation


@dataclass(frozen=True, order=True)
class Committer:
    """One assignment of a consumer that commits to a group."""

    consumer: str
    incarnation: int
    assignment: int
    mode: str
    group: str

    @property
    def reader(self) -> str:
        """The reader that it belongs to: its group in subscribe mode, itself in assign mode."""
        return self.group if self.mode == "subscribe" else self.consumer


@dataclass(frozen=True)
class OffsetFetch:
    """An epoch (by index) that fetched the committed offset of its group between fetched_us and begin_us.

    next_begin_us: the begin of the reader's next epoch on the partition.
    """

    epoch: int
    group: str
    consumer: str
    fetched_us: int
    begin_us: int
    next_begin_us: int


class Epochs:
    """All epochs, in order of (reader, topic, partition, turn): by reader and partition, and by key."""

    def __init__(self, epochs: Iterable[Epoch]) -> None:
        order = attrgetter("reader", "topic", "partition", "begin_us", "consumer", "incarnation", "assignment")
        self.all = sorted(epochs, key=order)
        self.by_key = {e.key: e for e in self.all}
        self.turns: dict[ReaderPartition, list[Epoch]] = {}
        for epoch in self.all:
            turns = self.turns.setdefault(epoch.reader_partition, [])
            epoch.turn = len(turns)
            turns.append(epoch)
        for index, epoch in enumerate(self.all):
            epoch.index = index


def lives(lifecycle: Iterable[Row]) -> dict[tuple[str, int], Life]:
    """Return every recorded incarnation by (client, incarnation). A crash, seen by the supervisor, outweighs a stop."""
    by_client: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in lifecycle:
        by_client[row["client"], row["incarnation"]].append(row)
    found = {}
    for key, rows in by_client.items():
        times = {row["event"]: row["at_us"] for row in sorted(rows, key=lambda r: -r["at_us"])}
        end = next((event for event in ("crashed", "stopped") if event in times), "")
        found[key] = Life(rows[0]["role"], times.get("started"), times.get(end), end)
    return found


def torn_tombstones(clients: dict[tuple[str, int], Life], scenario: Scenario) -> frozenset[str]:
    """Return the topics to which a producer may have written tombstones without a row.

    Any incarnation that did not stop in order may have. A later one need not send these records again: it may go on
    after the last record with a row, fail, or stop before.
    """
    torn = {entry_of(client) for (client, _), life in clients.items() if life.end != "stopped"}
    return frozenset(t for p in scenario.producers if p.tombstone_every and p.name in torn for t in p.written)


def build(
    assignments: list[Row],
    clients: dict[tuple[str, int], Life],
    delivered: list[Row],
    committed: dict[Key, int],
    drive_end_us: int,
) -> Epochs:
    """Build the epochs from table `assignments` and the summaries of their deliveries and commits.

    An epoch without an assignment row is built from its deliveries, without a position.
    """
    found: dict[Key, Epoch] = {}
    for row in assignments:
        if row["event"] in BEGINS:
            found.setdefault(key_of(row), _epoch(row))
    for row in delivered:
        epoch = found.setdefault(key_of(row), _epoch({**row, "at_us": row["polled_us"]}))
        epoch.rows, epoch.low, epoch.high = row["rows"], row["low"], row["high"]
        epoch.first, epoch.last = row["first"], row["last"]
    _add_positions(found, assignments)
    for key, offset in committed.items():
        if key in found:
            found[key].committed = offset
    _set_ends(found, assignments, clients, drive_end_us)
    return Epochs(found.values())


def _add_positions(found: dict[Key, Epoch], assignments: list[Row]) -> None:
    """Set the positions that became known later, where the row of the assignment has neither position nor source."""
    for row in assignments:
        epoch = found.get(key_of(row)) if row["event"] == POSITION else None
        if epoch and epoch.source is None and epoch.position is None:
            epoch.position = row["position"]


def key_of(row: Row) -> Key:
    """Return the epoch of a row of the tables `assignments`, `deliveries` or `commits`."""
    return row["consumer"], row["incarnation"], row["assignment"], row["topic"], row["partition"]


def _epoch(row: Row) -> Epoch:
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
        instance_id=row.get("instance_id"),
    )


def _set_ends(
    found: dict[Key, Epoch], assignments: list[Row], clients: dict[tuple[str, int], Life], drive_end_us: int
) -> None:
    """End each epoch with its own row, the member's next epoch there, or the end of the member."""
    closing = closing_rows(assignments)
    successors = _successors(found)
    for key, epoch in found.items():
        life = clients.get(epoch.member)
        if row := closing.get(key):
            epoch.end_us, epoch.end_reason, epoch.end_generation = row["at_us"], row["event"], row["generation"]
        elif successor := successors.get(key):
            epoch.end_us, epoch.end_reason = successor.begin_us, "replaced"
        elif life and life.ended_us is not None:
            epoch.end_us, epoch.end_reason = life.ended_us, life.end
        else:
            epoch.end_us = max(drive_end_us, epoch.begin_us)
    _set_last_generations(found, assignments)


def closing_rows(assignments: Iterable[Row]) -> dict[Key, Row]:
    """Return the first row of table `assignments` that ends each epoch."""
    return {key_of(r): r for r in sorted(assignments, key=lambda r: -r["at_us"]) if r["event"] in ENDS}


def _successors(found: dict[Key, Epoch]) -> dict[Key, Epoch]:
    """Return the next epoch of the same member on the same partition, by key."""
    held: dict[tuple[Any, ...], list[Epoch]] = defaultdict(list)
    for epoch in found.values():
        held[epoch.member, epoch.topic, epoch.partition].append(epoch)
    for epochs in held.values():
        epochs.sort(key=attrgetter("assignment"))
    return {a.key: b for epochs in held.values() for a, b in pairwise(epochs)}


def _set_last_generations(found: dict[Key, Epoch], assignments: list[Row]) -> None:
    """Set the last generation in which a member is known to have held a partition, unless its end row gives it."""
    generations: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for row in assignments:
        if row["generation"] is not None:
            generations[row["consumer"], row["incarnation"]].append((row["at_us"], row["generation"]))
    for epoch in found.values():
        if epoch.end_generation is not None or epoch.generation is None:
            continue
        # a replacement may belong to a later generation, in which this epoch no longer held the partition
        replaced = epoch.end_reason == "replaced"
        held = [g for at, g in generations[epoch.member] if epoch.begin_us <= at <= epoch.end_us and not replaced]
        epoch.end_generation = max(held, default=epoch.generation)
