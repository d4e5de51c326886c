"""An examination from its options to its files: part by part, each with its own errors, and all that was found so far
if it is interrupted."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO
from zoneinfo import ZoneInfo

from kafka.errors import KafkaError

from chaos.cluster.attached.driver import ANSWER_S, check_groups, no_topic, reach
from chaos.errors import AftershockError, UsageError
from chaos.forensics import commits, duplicates, replicas, transactions
from chaos.forensics.model import Findings, Group, Place, Result, Topic
from chaos.forensics.pace import RATE, Pace
from chaos.incident.logs.events import Event
from chaos.kafka.cleanup import list_groups
from chaos.kafka.client import UNKNOWN_GROUP, Kafka
from chaos.kafka.metadata import NO_LEADER, Metadata
from chaos.kafka.offsets_log import OFFSETS_TOPIC, UnreadableError
from chaos.kafka.partition import TopicPartition, group_partition
from chaos.kafka.security import Access, Security
from chaos.report.text import count as count_of
from chaos.run.events import now_us

ERRORS = UnreadableError, KafkaError, ValueError, OSError
"""Errors that end one part only."""


class View(Protocol):
    """What shows the progress."""

    def doing(self, message: str) -> None:
        """Take a text for what goes on from now."""

    def count(self, what: str, done: int, total: int) -> None:
        """Show how far something is."""


@dataclass(frozen=True)
class Asked:
    """What to examine. groups: all if empty. since_s: seconds before now, None for all that is left."""

    bootstrap: str
    security: Security
    command: str
    groups: Sequence[str] = ()
    topics: Sequence[str] = ()
    since_s: float | None = None
    rate: int = RATE
    logs: Sequence[Path] = ()
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))


def prepared(asked: Asked, view: View) -> tuple[Metadata, list[Event], list[str]]:
    """Return the cluster, and the events of the logs with notes. Raises `UsageError`: nothing was examined."""
    view.doing(f"connecting to {asked.bootstrap}")
    try:
        metadata = reach(asked.bootstrap, Access.of(asked.security))
    except AftershockError as e:
        raise UsageError(str(e)) from None
    names = {p.topic for p in metadata.partitions}
    for topic in asked.topics:
        if topic not in names:
            raise UsageError(f"{no_topic(topic, metadata)}; or the user may not describe it")
    view.doing("reading the logs of brokers")
    events, notes = replicas.read(asked.logs, asked.zone, view.doing)
    return metadata, events, notes


class Examination:
    """One examination of a cluster. `result` grows part by part."""

    def __init__(self, asked: Asked, metadata: Metadata, view: View) -> None:
        self._asked, self._metadata, self._view = asked, metadata, view
        made_us = now_us()
        since_us = None if asked.since_s is None else made_us - int(asked.since_s * 1e6)
        cluster = metadata.cluster_id or asked.bootstrap
        self.result = Result(cluster=cluster, made_us=made_us, since_us=since_us, command=asked.command)
        self._pace = Pace(asked.rate)

    @property
    def _since_ms(self) -> int:
        return (self.result.since_us or 0) // 1000

    @property
    def _findings(self) -> Findings:
        return self.result.findings

    def examine(self, table: TextIO, events: Sequence[Event]) -> None:
        """Examine everything that is asked for. Raises `UsageError` if a named group does not exist."""
        self.result.replicas = replicas.judge(events, self.result.since_us or 0, self._findings)
        try:
            with closing(Kafka(self._asked.bootstrap, ANSWER_S, Access.of(self._asked.security))) as kafka:
                self._read_commits(kafka, table)
                self._read_lag(kafka)
                self._ask_transactions(kafka)
                for topic in dict.fromkeys(self._asked.topics):
                    self._search(kafka, topic)
        except KeyboardInterrupt:
            self.result.interrupted = True
            self.result.notes.insert(0, "interrupted: what is below was found before, and parts are missing")
        finally:
            reading = self.result.reading
            reading.bytes, reading.seconds, reading.rate = self._pace.bytes, self._pace.seconds, self._pace.rate
            self.result.decide()

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        """Note why a part cannot be read; the others go on."""
        try:
            yield
        except ERRORS as e:
            self.result.problems.append(f"{name}: {e}")

    def _read_commits(self, kafka: Kafka, table: TextIO) -> None:
        count = sum(p.topic == OFFSETS_TOPIC for p in self._metadata.partitions)
        if not count and not transactions.limits(kafka)[0]:
            self.result.notes.append(f"there is no {OFFSETS_TOPIC}: no group has committed yet")
            return
        if not count:
            why = f"the brokers list no {OFFSETS_TOPIC}: no group has committed yet, or the user may not describe it"
            self.result.problems.append(f"commits: {why}")
            return
        table.write(",".join(commits.COLUMNS) + "\r\n")
        wanted = frozenset(self._asked.groups) or None
        numbers = sorted({group_partition(g, count) for g in wanted} if wanted else range(count))
        read, refused = list[commits.History](), defaultdict[str, list[int]](list)
        for n, number in enumerate(numbers, 1):
            what = f"reading commits in {OFFSETS_TOPIC}/{number} ({n} of {len(numbers)})"
            self._view.doing(what)
            history = commits.History(TopicPartition(OFFSETS_TOPIC, number), wanted, pace=self._pace)
            history.progress = self._progress(what)
            try:
                self._check_leader(history.partition)
                history.take(kafka, self._since_ms)
                self._view.doing(what.replace("reading", "comparing"))
                self.result.groups += commits.judge(history, self._findings, table).values()
                read.append(history)
            except ERRORS as e:
                refused[str(e)].append(number)
            history.entries.clear()
        for why, of in refused.items():
            more = f" and {count_of(len(of) - 1, 'more partition')}" if len(of) > 1 else ""
            self.result.problems.append(f"commits in {OFFSETS_TOPIC}/{of[0]}{more}: {why}")
        self._note_history(read, len(numbers))

    def _check_leader(self, partition: TopicPartition) -> None:
        """Raise `UnreadableError` for a partition without a leader: each request to it would take the time-out."""
        if self._metadata.partitions[partition].leader == NO_LEADER:
            raise UnreadableError("it has no leader")

    def _note_history(self, read: Sequence[commits.History], partitions: int) -> None:
        """Say how much of the history there is."""
        whole = sum(history.whole for history in read)
        ever = "were ever written there" if self.result.since_us is None else "were written there since then"
        if begins := [history.first_us for history in read if history.first_us is not None]:
            self.result.notes.append(
                f"the history of commits is what compaction left in {OFFSETS_TOPIC}: its first commit is of "
                f"{commits.WALL(min(begins))}, and {whole} of {partitions} partitions have all records that {ever}; "
                "where records are missing, commits are missing too"
            )
        if self.result.since_us is not None:
            self.result.notes.append("members of groups are known from their first complete list since then on")
        self.result.notes += [
            f"{history.partition} has more than {commits.MOST_ENTRIES:,} records about groups; only the last ones, "
            f"from offset {history.start:,} on, were examined"
            for history in read
            if history.cut
        ]

    def _progress(self, what: str) -> Callable[[int, int], None]:
        return lambda done, total: self._view.count(what, done, total)

    def _read_lag(self, kafka: Kafka) -> None:
        """Add the state, the committed offsets and the lag of each group. Raises `UsageError` for an unknown one."""
        self._view.doing("asking for groups")
        known = {g.name: g for g in self.result.groups}
        listed = None if self._asked.groups else list_groups(kafka, lambda _: True)
        if listed is None and not self._asked.groups:
            self.result.problems.append("lag: a broker does not list its groups")
        for number, name in enumerate(names := sorted({*known, *self._asked.groups, *(listed or ())}), 1):
            self._view.count("asking for the offsets of groups", number, len(names))
            state, committed = kafka.group(name), kafka.committed_or_none(name, None)
            if name not in known:
                if state is not None and state.state == UNKNOWN_GROUP and not committed:
                    check_groups(kafka, [name])
                self.result.groups.append(known.setdefault(name, Group(name=name)))
            group = known[name]
            group.state = "no answer" if state is None else state.state
            if group.state == UNKNOWN_GROUP:
                group.state = "not a consumer group" if name in (listed or ()) and not committed else "gone"
            group.members = (
                sorted(f"{m.client_id} at {m.host.removeprefix('/')}" for m in state.members) if state else []
            )
            if committed is None:
                self.result.problems.append(f"lag of {name}: its coordinator does not say its offsets")
            _add_offsets(group, committed or {})
        self.result.groups.sort(key=lambda g: g.name)
        every = {TopicPartition(p.topic, p.partition) for g in self.result.groups for p in g.places}
        ends = kafka.end_offsets(sorted(every))
        for group in self.result.groups:
            group.places.sort(key=lambda p: (p.topic, p.partition))
            for place in group.places:
                place.end = ends.get(TopicPartition(place.topic, place.partition))
        commits.beyond(known, self._findings)

    def _ask_transactions(self, kafka: Kafka) -> None:
        self._view.doing("asking for open transactions")
        with self._part("transactions"):
            seen, problem = transactions.ask(kafka, sorted(self._metadata.partitions))
            self.result.problems += [problem] if problem else []
            self.result.transactions = transactions.judge(seen, time.time_ns() // 1_000_000, self._findings)

    def _search(self, kafka: Kafka, name: str) -> None:
        self._view.doing(f"reading {name}")
        topic = Topic(name=name)
        self.result.topics.append(topic)
        with self._part(f"duplicates in {name}"):
            found = self._since_ms, self._pace, topic, self._findings
            problems = duplicates.search(kafka, name, *found, self._view.count)
            self.result.problems += [f"duplicates in {name}: {problem}" for problem in problems]


def _add_offsets(group: Group, committed: Mapping[TopicPartition, int | None]) -> None:
    """Add the offsets that a coordinator has, also on partitions without a commit in the history."""
    places = {TopicPartition(p.topic, p.partition): p for p in group.places}
    for partition, offset in committed.items():
        if partition not in places:
            places[partition] = Place(topic=partition.topic, partition=partition.number)
            group.places.append(places[partition])
        places[partition].offset = offset
