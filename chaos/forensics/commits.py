"""The history of offset commits in `__consumer_offsets`, partition by partition of that log."""

from __future__ import annotations

import csv
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, NamedTuple, TextIO

from chaos.forensics.members import GroupRecord, Membership, group_record
from chaos.forensics.model import MOST_NAMED, CommitRow, Finding, Findings, Group, Place
from chaos.forensics.pace import Pace
from chaos.kafka.client import Kafka
from chaos.kafka.offsets_log import LoggedCommit, Part, fetch
from chaos.kafka.partition import TopicPartition
from chaos.report.text import Clock, duration

MOST_ENTRIES = 400_000
"""Records of one partition that are kept; of a longer history, the older half is dropped."""
ROWS = 12
"""The last commits of each partition that the page shows; `commits.csv` has all."""
ANSWER_S = 30.0
STEPS, TIMES_MEDIAN, TIMES_USUAL, SMALLEST = 8, 20, 5, 100
"""An unusual step: with at least so many other steps, above these multiples of their median and of what nine in ten do
not exceed, and at least so large."""
COLUMNS = ("group", "topic", "partition", "time", "offset", "metadata", "who", "how", "log_partition", "log_offset")
WALL = Clock(0).wall
IN_TRANSACTION = "a producer in a transaction"


class Entry(NamedTuple):
    """A record in force from a position of the log on. gap: the last offset up to which records may be missing."""

    position: int
    gap: int
    record: LoggedCommit | GroupRecord


@dataclass
class History(Part):
    """A partition of `__consumer_offsets` with its commits and members, in the order in which they came into force.

    A commit in a transaction is in force from its marker on. cut: whether older entries were dropped. first_us: the
    time of the first commit that is kept.
    """

    pace: Pace = field(default_factory=Pace)
    progress: Callable[[int, int], None] = lambda done, total: None
    entries: list[Entry] = field(default_factory=list)
    cut: bool = False
    first_us: int | None = None

    def take(self, kafka: Kafka, since_ms: int) -> None:
        """Read the partition from a time on. Raises `UnreadableError`, `ValueError` or `KafkaError`."""
        self.read(kafka, since_ms, time.monotonic() + ANSWER_S)
        self.finish()

    def finish(self) -> None:
        """Add what is in open transactions, and bring all entries into the order of their force."""
        for commit in (c for commits in self._open.values() for c in commits):
            commit.transaction = "open"
            self.entries.append(Entry(self.end or 0, self.gap, commit))
        self.entries.sort(key=lambda e: e.position)  # stable: entries of one position keep their order
        found = (e.record.appended_us for e in self.entries if isinstance(e.record, LoggedCommit))
        self.first_us = next(found, None)

    def _check_size(self) -> None:
        """Take any size: `MOST_ENTRIES` bounds what is kept."""

    def _fetch(self, kafka: Kafka, at: int, deadline: float) -> bytes:
        self.progress(at - (self.start or 0), (self.end or 0) - (self.start or 0))
        with self.pace.taking() as took:
            answer = fetch(kafka, self.partition, at, time.monotonic() + ANSWER_S, size=self.pace.size)
            took(len(answer.records))
            return answer.records

    def _add_batch(self, batch: Any) -> None:
        super()._add_batch(batch)
        self.entries += (Entry(c.log_offset, self.gap, c) for c in self.commits if not batch.is_transactional)
        self.commits.clear()
        if len(self.entries) > MOST_ENTRIES:
            del self.entries[: MOST_ENTRIES // 2]
            self.cut, self.start = True, self.entries[0].position

    def _note(self, record: Any) -> None:
        found = group_record(record)
        if found and (self.groups is None or found.group in self.groups):
            self.entries.append(Entry(found.log_offset, self.gap, found))

    def _end(self, producer: int, marker: Any) -> None:
        ended = self._open.get(producer, ())
        super()._end(producer, marker)
        self.entries += (Entry(marker.offset, self.gap, c) for c in ended)


def judge(history: History, findings: Findings, table: TextIO | None = None) -> dict[str, Group]:
    """Return the groups of a partition of the log, and add what was found; write all commits as CSV."""
    groups: dict[str, Group] = {}
    places: dict[tuple[str, str, int], _Track] = {}
    members: dict[str, Membership] = defaultdict(Membership)
    # what was dropped is missing, too
    dropped = (history.start or 0) - 1 if history.cut else -1
    writer = csv.writer(table) if table else None
    for entry in history.entries:
        record, gap = entry.record, max(entry.gap, dropped)
        if isinstance(record, GroupRecord):
            members[record.group].take(record)
            continue
        key = record.group, record.topic, record.partition
        group = groups.setdefault(record.group, Group(name=record.group))
        if key not in places:
            places[key] = _Track(record.group, Place(topic=record.topic, partition=record.partition))
            group.places.append(places[key].place)
        row = places[key].take(entry, gap, members[record.group])
        if writer:
            where = record.log_partition, record.log_offset
            writer.writerow([*key, WALL(row.at_us), row.offset, row.metadata, row.who, row.how, *where])
    for track in places.values():
        members_of = members[track.group]
        standalone = not members_of.ever
        for finding in track.done():
            if not (standalone and finding.kind == "foreign"):
                findings.add(finding)
        if standalone and track.foreign and not groups[track.group].notes:
            groups[track.group].notes.append(
                "the log shows no member of this group at any time: its commits come from tools, or from clients that "
                "assign partitions themselves"
            )
    return groups


@dataclass
class _Track:
    """The history of a group on one partition, while its commits pass."""

    group: str
    place: Place
    foreign: int = 0
    _last: LoggedCommit | None = None
    _last_position: int = -1
    _removal: Finding | None = None
    _rows: deque[CommitRow] = field(default_factory=lambda: deque(maxlen=ROWS))
    _findings: list[Finding] = field(default_factory=list)
    _steps: list[int] = field(default_factory=list)
    _large: list[tuple[int, LoggedCommit, CommitRow]] = field(default_factory=list)

    def take(self, entry: Entry, gap: int, members: Membership) -> CommitRow:
        """Take the next commit in force, and return its row."""
        commit = entry.record
        assert isinstance(commit, LoggedCommit)
        at_us = commit.appended_us if commit.ended_us is None else commit.ended_us
        # a commit in a transaction needs no member, and the members may have changed until its marker
        who = IN_TRANSACTION if commit.transaction else members.who(gap, commit.topic, commit.partition)
        place = f"__consumer_offsets/{commit.log_partition}@{commit.log_offset}"
        how = f"transaction {commit.transaction}" if commit.transaction else ""
        row = CommitRow(
            at_us=at_us, offset=commit.offset, metadata=commit.metadata or "", who=who, how=how, place=place
        )
        if commit.offset is None:
            row.who = "the coordinator, or a request to delete"
            self._remove(row)
        elif commit.transaction in ("aborted", "open"):
            self.place.aborted += commit.transaction == "aborted"
            self.place.commits += 1
        else:
            self.place.commits += 1
            self._compare(commit, gap, row)
            if members.known(gap) == {} and not commit.transaction:
                self._note_foreign(commit.offset, members, row)
            self._last, self._last_position, self._removal = commit, entry.position, None
            self.place.offset = commit.offset
        self.place.first_us = at_us if self.place.first_us is None else self.place.first_us
        self.place.last_us = at_us
        self._rows.append(row)
        return row

    def _remove(self, row: CommitRow) -> None:
        if self._removal is None:
            last = self._last
            age = duration(row.at_us - last.appended_us) if last else ""
            words = f"{last.offset:,} was removed {age} after its commit" if last else "its offset was removed"
            self._removal = self._found("removed", words, row)
        self.place.offset = None

    def _compare(self, commit: LoggedCommit, gap: int, row: CommitRow) -> None:
        """Compare a commit with the one in force before. One after a removal may be of another topic of the name."""
        last, offset = self._last, commit.offset
        if last is None or last.offset is None or offset is None:
            return
        if self._removal is not None:
            self._removal.words += f"; the next commit is {offset:,} at {WALL(row.at_us)}"
            return
        whole = self._last_position > gap
        if offset < last.offset:
            between = "" if whole else "; compaction may have removed commits, or a removal, between the two"
            words = _change(last, offset)
            self._found("rewind", f"fell {words}; committed by: {row.who}{between}", row)
        elif whole and offset > last.offset:
            self._steps.append(step := offset - last.offset)
            if step >= SMALLEST:
                self._large.append((step, last, row))
                if len(self._large) > 2 * MOST_NAMED:  # only the largest ones can be unusual
                    self._large = sorted(self._large, key=lambda found: -found[0])[:MOST_NAMED]

    def _note_foreign(self, offset: int, members: Membership, row: CommitRow) -> None:
        self.foreign += 1
        since = "" if members.changed_us is None else f" since {WALL(members.changed_us)}"
        before = "no commit" if self._last is None or self._last.offset is None else f"{self._last.offset:,}"
        self._found("foreign", f"committed {offset:,} (before: {before}), and the group had no members{since}", row)

    def _found(self, kind: str, words: str, row: CommitRow) -> Finding:
        where = f"{self.group} on {TopicPartition(self.place.topic, self.place.partition)}"
        finding = Finding(kind=kind, where=where, at_us=row.at_us, words=words, place=row.place)
        self._findings.append(finding)
        return finding

    def _unusual(self) -> Iterator[tuple[str, CommitRow]]:
        """Yield the steps that are by far larger than the others."""
        if len(self._steps) <= STEPS:
            return
        usual = median(self._steps)
        for step, last, row in self._large:
            if step <= TIMES_MEDIAN * usual:
                continue
            others = list(self._steps)
            others.remove(step)
            if step > TIMES_USUAL * quantiles(others, n=10)[-1]:
                usual_words = f"its {len(others):,} other steps have a median of {median(others):,.0f}"
                yield f"rose {_change(last, row.offset or 0)}; {usual_words}; committed by: {row.who}", row

    def done(self) -> list[Finding]:
        """Return what was found, and complete the place."""
        for words, row in self._unusual():
            self._found("jump", words, row)
        self.place.rows = list(self._rows)
        self.place.found = sorted({f.kind for f in self._findings})
        return self._findings


def _change(last: LoggedCommit, offset: int) -> str:
    return f"from {last.offset:,} ({WALL(last.appended_us)}) to {offset:,}"


def beyond(groups: Mapping[str, Group], findings: Findings) -> None:
    """Add the partitions with a committed offset above the end of their log, which was asked afterwards."""
    for group in groups.values():
        for place in group.places:
            if place.offset is not None and place.end is not None and place.offset > place.end:
                words = f"{place.offset:,} is committed, and the log ends at {place.end:,}"
                where = f"{group.name} on {TopicPartition(place.topic, place.partition)}"
                shown = place.rows[-1].place if place.rows else ""
                findings.add(Finding(kind="beyond", where=where, at_us=place.last_us, words=words, place=shown))
                place.found = sorted({*place.found, "beyond"})
