"""The drain: waits until every reader has processed every record that it can read.

A log ends with offsets that no consumer receives: transaction markers, and for read_committed also aborted records. So
in topics with transactions, the end offset of the log does not show whether a consumer has read everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from confluent_kafka import Message

from chaos.cluster.api import Cluster
from chaos.errors import ClusterError
from chaos.fleet.fleet import Fleet
from chaos.kafka.client import Kafka, share_positions
from chaos.kafka.partition import TopicPartition
from chaos.kafka.reading import log_consumer, read_to_end
from chaos.kafka.security import Security, librdkafka_settings
from chaos.run.events import UNDRAINED, EventLog
from chaos.scenario.model import Scenario
from chaos.setup.apps import App
from chaos.setup.clients import Consumer, reads_committed
from chaos.setup.names import PRIMARY
from chaos.wait import wait_until

Isolation = Literal["read_committed", "read_uncommitted"]

FIRST_WINDOW, GROWTH = 1000, 8
"""Number of offsets before the end that are read first, and its growth factor while they contain no record."""
TIMEOUT_S = 30.0


def readable_ends(
    bootstrap: str, security: Security | None, ends: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, int]:
    """Return the offset behind the last record that a consumer receives; 0 if it receives none.

    ends: the end offsets of the logs. Raises `ClusterError` if a log cannot be read.
    """
    readable: dict[TopicPartition, int] = {}
    window = FIRST_WINDOW
    while left := {partition: end for partition, end in ends.items() if partition not in readable}:
        begins = {partition: max(0, end - window) for partition, end in left.items()}
        last = _last_records(bootstrap, security, begins, isolation)
        readable |= {partition: offset + 1 for partition, offset in last.items()}
        readable |= {partition: 0 for partition, begin in begins.items() if begin == 0 and partition not in last}
        window *= GROWTH
    return readable


def _last_records(
    bootstrap: str, security: Security | None, begins: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, int]:
    """Return the offset of the last record of each partition, from the given offset on; none without a record."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "isolation.level": isolation}
    last: dict[TopicPartition, int] = {}

    def take(message: Message) -> None:
        partition = TopicPartition(message.topic(), message.partition())
        last[partition] = max(last.get(partition, -1), message.offset())

    with closing(log_consumer({**settings, **librdkafka_settings(security)})) as consumer:
        unread = read_to_end(consumer, begins, TIMEOUT_S, take)
    if unread:
        names = ", ".join(map(str, sorted(unread)))
        raise ClusterError(f"the end of {names} cannot be read, after {TIMEOUT_S:g} s")
    return last


TICK_S = 0.02
OFFSETS_TIMEOUT_S = 60.0
GOING_ON_S = 10.0
"""Time since its last progress within which a reader is not stalled, but has more to do than the drain allows."""
LEVELS: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")

Ends = dict[Isolation, dict[TopicPartition, int]]
"""The end offset of each partition, by isolation level."""


@dataclass(frozen=True)
class Behind:
    """What a reader has left in a partition. done: what it has done, as a number that rises; text: a message.

    holder: who does the work, one partition after another, as far as that is known: the partition itself if not.
    """

    reader: str
    partition: TopicPartition
    done: int
    text: str
    holder: str


def words_of(behind: Sequence[Behind], most: int = 5) -> str:
    """Return what readers have left: the first ones in words, and how many more there are."""
    more = f" and {len(behind) - most} more" if len(behind) > most else ""
    return f"{'; '.join(one.text for one in behind[:most])}{more}"


@dataclass
class Progress:
    """The highest `done` of a reader in a partition, who did that, and when it last rose: None if it never did."""

    done: int
    holder: str
    rose: float | None = None


@dataclass
class Drain:
    """The drain of one run.

    during: called at every check with the fleet and with what is behind; it may raise to end the wait. group_of:
    returns the group of an application, None without one.
    """

    scenario: Scenario
    cluster: Cluster
    kafka: Kafka
    fleet: Fleet
    events: EventLog
    during: Callable[[Fleet, Sequence[Behind]], None]
    group_of: Callable[[str], str | None] = lambda app: None
    _highest: dict[TopicPartition, int] = field(default_factory=dict)
    """The end offset of each partition, the records of open transactions included."""
    _progress: dict[tuple[str, TopicPartition], Progress] = field(default_factory=dict)
    _over: bool = False

    def run(self, partitions: list[TopicPartition]) -> bool:
        """Wait until all readers are at the ends. Returns False, with a note, after `limits.drain`.

        If all that are behind still make progress then, an event `undrained` names them: they are slow, not stalled.
        A member that still works on one of its partitions may not have come to the others yet.
        Processors first: their output is complete only when they are at the ends of their input, one after another.
        """
        readers, shares, apps = self.scenario.readers, self.scenario.shares, self.scenario.apps
        if not readers and not shares and not apps:
            return False
        deadline = time.monotonic() + self.scenario.limits.drain
        processors = [entry for entry in readers if entry.name in {p.name for p in self.scenario.processors}]
        ends = self._ends(partitions, deadline)
        while apps and self._wait_while(partial(self._unprocessed, ends), deadline):
            if ends == (ends := self._ends(partitions, deadline)):
                break
        while processors and self._wait(processors, ends, deadline):
            if ends == (ends := self._ends(partitions, deadline)):
                break
        drained = self._wait(readers, ends, deadline)
        return self._wait_while(self._unfinished, deadline) and drained

    def _wait(self, readers: Sequence[Consumer], ends: Ends, deadline: float) -> bool:
        return self._wait_while(partial(self._behind, readers, ends), deadline)

    def _wait_while(self, unmet: Callable[[], list[Behind]], deadline: float) -> bool:
        while behind := unmet():
            self._note_progress(behind)
            self.during(self.fleet, behind)
            if time.monotonic() > deadline:
                self._give_up(behind)
                return False
            time.sleep(TICK_S)
        return True

    def _note_progress(self, behind: list[Behind]) -> None:
        for one in behind:
            known = self._progress.setdefault((one.reader, one.partition), Progress(one.done, one.holder))
            known.holder = one.holder
            if one.done > known.done:
                known.done, known.rose = one.done, time.monotonic()

    def _give_up(self, behind: list[Behind]) -> None:
        limit = f"{self.scenario.limits.drain:g} s (limits.drain)"
        self.events.note(f"not drained after {limit}: {words_of(behind)}")
        if not self._over and all(map(self._goes_on, behind)):
            self.events.emit(UNDRAINED, readers=sorted({one.reader for one in behind}), limit=limit)
        self._over = True  # what waits for readers that are behind is behind, too

    def _goes_on(self, one: Behind) -> bool:
        own = [p for (reader, _), p in self._progress.items() if (reader, p.holder) == (one.reader, one.holder)]
        last = max((p.rose for p in own if p.rose is not None), default=None)
        return last is not None and time.monotonic() - last < min(GOING_ON_S, self.scenario.limits.drain / 2)

    def _unfinished(self) -> list[Behind]:
        """Return each partition in which a share group has records without a final state."""
        unfinished = []
        for group, topics in {share.group: share.topics for share in self.scenario.shares}.items():
            partitions = [partition for partition in self._highest if partition.topic in topics]
            found = share_positions(self.kafka, group, partitions) or {}
            for partition in partitions:
                lag = at.lag if (at := found.get(partition)) is not None else None
                if lag != 0:
                    left = "an unknown number of records" if lag is None else f"{lag:,} records"
                    done = 0 if lag is None else self._highest[partition] - lag
                    text = f"{group} has {left} to finish in {partition}"
                    unfinished.append(Behind(group, partition, done, text, str(partition)))
        return unfinished

    def _unprocessed(self, all_ends: Ends) -> list[Behind]:
        """Return each partition in which the group of an application has not done all records up to the end.

        The end is the end of committed records, because a group never commits beyond an open transaction.
        """
        found = []
        for app in self.scenario.apps:
            for group, topics in self._groups(app) if app.name not in self.scenario.left_apps else ():
                ends = {p: end for p, end in all_ends["read_committed"].items() if p.topic in topics}
                done = self.kafka.done(group, ends) or {}
                for partition, end in ends.items():
                    if (at := done.get(partition, 0)) < end:
                        text = f"{app.name} (group {group}) has done {at} of {end} in {partition}"
                        found.append(Behind(app.name, partition, at, text, app.name))
        return found

    def _groups(self, app: App) -> Iterator[tuple[str, list[str]]]:
        """Yield the groups of an application with their topics: the one that was given or found, and other sinks."""
        own = self.group_of(app.name)
        if own is not None:
            yield own, app.reads
        if app.connect is not None and app.cluster == PRIMARY:
            yield from ((group, topics) for group, topics in app.connect.sinks.items() if group != own)

    def _ends(self, partitions: list[TopicPartition], deadline: float) -> Ends:
        """Return where reading ends, once no transaction is open; the records of an open one are not readable yet."""
        request = partial(self._all_ends, partitions)
        unanswered = "the end offsets of some partitions are not answered"
        ends = self._highest = wait_until(request, OFFSETS_TIMEOUT_S, unanswered)
        if not self.scenario.transactional:
            return dict.fromkeys(LEVELS, ends)
        while {p: stable for p, (_, stable) in self.kafka.stable_offsets(partitions).items()} != ends:
            if time.monotonic() > deadline:
                self.events.note(f"a transaction is still open after {self.scenario.limits.drain:g} s")
                break
            time.sleep(TICK_S)
            ends = self._highest = wait_until(request, OFFSETS_TIMEOUT_S, unanswered)
        security = self.cluster.state.platform_security
        return {level: readable_ends(self.cluster.bootstrap, security, ends, level) for level in LEVELS}

    def _all_ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offset of every partition; empty until all are answered."""
        ends = self.kafka.end_offsets(partitions)
        return ends if len(ends) == len(partitions) else {}

    def _entries_of(self, group: str) -> list[Consumer]:
        """Return the entries that make up a group; those without a member yet only if no member has joined."""
        entries: list[Consumer] = [e for e in self.scenario.readers if e.mode == "subscribe" and e.group == group]
        return [e for e in entries if self.fleet.present(e.name)] or entries

    def _readers(self, readers: Sequence[Consumer]) -> Iterator[tuple[str, list[Consumer], list[str]]]:
        """Yield each group once and each assign-mode consumer: its name, entries, and names for `Fleet.positions`."""
        seen: set[str] = set()
        for entry in readers:
            if entry.mode == "assign":
                for client in self.fleet.clients(entry.name):
                    yield client, [entry], [client]
            elif entry.group not in seen:
                seen.add(entry.group)
                entries = self._entries_of(entry.group)
                yield entry.group, entries, [e.name for e in entries]

    def _behind(self, readers: Sequence[Consumer], all_ends: Ends) -> list[Behind]:
        """Return each partition in which a reader has not reached the end."""
        found = []
        for reader, entries, names in self._readers(readers):
            ends = all_ends["read_committed" if reads_committed(entries[0]) else "read_uncommitted"]
            existing = {partition.topic for partition in ends}
            topics = {topic for entry in entries for topic in entry.topics_among(existing)}
            positions, holders = self.fleet.positions(*names), self.fleet.holders(*names)
            for partition, end in ends.items():
                at = positions.get(str(partition), 0)
                # a position in a deleted topic may be beyond the end of the topic that has its name now
                beyond = partition.topic in self.scenario.deleted_topics and at > self._highest.get(partition, at)
                if partition.topic in topics and (at < end or beyond):
                    position = positions.get(str(partition), "no position")
                    text = f"{reader} is at {position} of {end} in {partition}"
                    holder = holders.get(str(partition), str(partition))
                    found.append(Behind(reader, partition, at, text, holder))
        return found
