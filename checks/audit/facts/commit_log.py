"""Commits of unknown outcome, decided by the log of `__consumer_offsets`.

A record of the log names group, partition and offset, but not the member that committed it. So it counts for a commit
only if no other commit of that offset may have written it: none in the ledger, none by a fault, and none of a member
that may have committed without a row. Everything else stays undecided:

- ok: a record counts for it; in a transaction, one that ended with a commit
- fail: the record that counts for it was aborted; or the log is whole, has every acknowledged commit of the group, and
  has either no record, of an offset that nobody saw in force, or exactly one for each acknowledged commit
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos.ledger.schemas import COMMIT_LOG
from checks.audit.arrays import NEVER_US, NONE, Ints
from checks.audit.facts.epochs import BEGINS, POSITION, Committer, Life, Row
from checks.audit.facts.offset_changes import OffsetChange
from checks.audit.findings import Reason

COMMIT_SHARED = Reason("another commit of the same offset may have written the record in the log")
COMMIT_WITHOUT_RECORD = Reason(
    "the log of offset commits has no record of them, but it is not whole, or their offset was seen in force"
)
COMMIT_IN_OPEN_TRANSACTION = Reason("their transaction was open when the log of offset commits was read back")
COMMIT_OF_DELETED_TOPIC = Reason("their topic was deleted during the run, and commits of both topics look alike")
CLOCKS_APART = Reason(
    "the clocks of clients and brokers differ, or no acknowledged commit shows that they do not",
    "synchronize the clocks",
)
SKEWED_BROKERS = Reason("a fault changed clocks of brokers, which stamp the log of offset commits")


def commit_log_unread(error: str) -> Reason:
    """Return why the log of a group's commits was not read back, with the error if there was one."""
    why = "the log of offset commits was not read back" + (f" ({error})" if error else "")
    return Reason(why, "run the scenario again, with a user that may describe and read __consumer_offsets")


CLOCK_US, SAME_CLOCK_US = 100_000, 5_000
"""Maximum difference of the times of clients and brokers, and the same on one machine, where the log has ms. With a
larger one, nothing is decided."""
IN_FLIGHT_US = 10_000_000
"""Time after the end of a client within which a request of it may still be carried out."""
Place = tuple[str, str, int]
"""Group, topic and partition."""
TRANSACTION = "transaction"
Logged = Mapping[Place, tuple[Ints, Ints]]
"""By place, the offsets of records, ascending, and the times of these records."""


class Attempt(NamedTuple):
    """A commit of one partition, as its client recorded it."""

    committer: Committer
    topic: str
    partition: int
    offset: int
    kind: str
    outcome: str
    requested_us: int
    completed_us: int

    @property
    def place(self) -> Place:
        """Group, topic and partition."""
        return self.committer.group, self.topic, self.partition

    def may_be(self, at_us: int, clock_us: int) -> bool:
        """Return whether a record of a time may be of it. clock_us: the maximum difference of the clocks.

        An automatic commit is reported afterwards. One without an answer may be carried out at any later time.
        """
        begun = self.kind == "auto" or self.requested_us - clock_us <= at_us
        return begun and (self.outcome == "unknown" or at_us <= self.completed_us + clock_us)


class Decision(NamedTuple):
    """The outcome of a commit, ok or fail, and when it had been carried out at the latest."""

    outcome: Literal["ok", "fail"]
    done_us: int


class Record(NamedTuple):
    """A record of the log that sets an offset. transaction: as in table `commit_log`."""

    appended_us: int
    transaction: str | None
    ended_us: int | None


class Writer(NamedTuple):
    """A member that may have committed on a partition without a row, at some time from begin_us to end_us."""

    member: tuple[str, int]
    begin_us: int
    end_us: int


class CommitLog:
    """Tables `commit_log` and `commit_log_range`. The first may be as large as table `commits`."""

    def __init__(self, commits: pa.Table | None = None, ranges: Iterable[Row] = (), skewed: bool = False) -> None:
        """skewed: whether clocks of brokers were changed, so that the times of records prove nothing."""
        self._skewed = skewed
        self._commits = COMMIT_LOG.empty_table() if commits is None else commits
        self.reads: dict[str, Row] = {row["group"]: row for row in ranges}
        """What was read, by group."""

    def why_unread(self, group: str) -> Reason | None:
        """Return why nothing was read of a group, or nothing that proves anything; None if it was read."""
        if self._skewed:
            return SKEWED_BROKERS
        read = self.reads.get(group)
        if read is not None and read["error"] is None:
            return None
        return commit_log_unread(read["error"] if read else "")

    def records(self, offsets: Iterable[int]) -> dict[tuple[Place, int], list[Record]]:
        """Return the records of some offsets, by place and offset."""
        wanted = pa.array(sorted(set(offsets)), pa.int64())
        found: dict[tuple[Place, int], list[Record]] = defaultdict(list)
        for row in self._commits.filter(pc.is_in(self._commits["offset"], wanted)).to_pylist():
            place = row["group"], row["topic"], row["partition"]
            found[place, row["offset"]].append(Record(row["appended_us"], row["transaction"], row["ended_us"]))
        return dict(found)

    def deletions(self) -> dict[Place, list[int]]:
        """Return the times of the records that delete an offset, by place."""
        found: dict[Place, list[int]] = defaultdict(list)
        for row in self._commits.filter(pc.is_null(self._commits["offset"])).to_pylist():
            found[row["group"], row["topic"], row["partition"]].append(row["appended_us"])
        return dict(found)

    def committed(self, groups: Iterable[str]) -> Logged:
        """Return the records of some groups that are not aborted."""
        table = self._commits
        kept = pc.is_in(table["group"], pa.array(sorted(set(groups)), pa.string()))
        kept = pc.and_(kept, pc.is_valid(table["offset"]))
        kept = pc.and_(kept, pc.fill_null(pc.not_equal(table["transaction"], "aborted"), True))
        columns = ["group", "topic", "partition", "offset", "appended_us"]
        table = table.filter(kept).select(columns).sort_by([(name, "ascending") for name in columns])
        places = zip(*(table[name].to_pylist() for name in columns[:3]), strict=True)
        offsets, times = (table[name].to_numpy() for name in columns[3:])
        counts = Counter(places)  # in the order of the table
        ends = np.cumsum(list(counts.values()), dtype=np.int64)
        return {
            place: (offsets[end - n : end], times[end - n : end])
            for (place, n), end in zip(counts.items(), ends.tolist(), strict=True)
        }


@dataclass
class Acknowledged:
    """How the acknowledged commits of a group compare with the log.

    without_record: commits that the log does not have. in_time, apart: commits with one record, which has a time within
    the commit, or another one.
    """

    without_record: int = 0
    in_time: int = 0
    apart: int = 0

    def __add__(self, other: Acknowledged) -> Acknowledged:
        return Acknowledged(
            self.without_record + other.without_record, self.in_time + other.in_time, self.apart + other.apart
        )


@dataclass(frozen=True)
class Decisions:
    """The commits that the log decides, and the reasons for which it leaves others undecided, by reader."""

    of: Mapping[Attempt, Decision] = field(default_factory=dict)
    undecided: Mapping[tuple[str, Reason], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.of)


@dataclass(frozen=True)
class Decider:
    """What decides the commits of a run.

    writers: by place, the members that may have committed without a row. offset_changes: by faults. seen: the offsets
    that somebody saw in force. deleted: topics that were deleted during the run. one_clock: whether clients and brokers
    are known to have the same clock.
    """

    log: CommitLog
    writers: Mapping[Place, Sequence[Writer]]
    offset_changes: Sequence[OffsetChange]
    seen: frozenset[tuple[Place, int]]
    deleted: frozenset[str]
    one_clock: bool

    @property
    def clock_us(self) -> int:
        """The maximum difference of the times of clients and brokers."""
        return SAME_CLOCK_US if self.one_clock else CLOCK_US

    def decide(self, attempts: Iterable[Attempt], acknowledged: Mapping[str, Acknowledged]) -> Decisions:
        """Return the decisions on the attempts without an outcome.

        attempts: with them, all others of the same places and offsets that did not fail; duplicates count separately.
        acknowledged: by group.
        """
        by_offset: dict[tuple[Place, int], list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            by_offset[attempt.place, attempt.offset].append(attempt)
        logged = self.log.records(offset for _, offset in by_offset)
        found: dict[Attempt, Decision] = {}
        undecided = Counter[tuple[str, Reason]]()
        for key, same in by_offset.items():
            for i, attempt in enumerate(same):
                if attempt.outcome != "unknown":
                    continue
                others = [*same[:i], *same[i + 1 :]]
                compared = acknowledged.get(attempt.committer.group, Acknowledged())
                result = self._decide(attempt, others, logged.get(key, ()), compared)
                if isinstance(result, Decision):
                    found[attempt] = result
                else:
                    undecided[attempt.committer.reader, result] += 1
        return Decisions(found, undecided)

    def _decide(
        self, attempt: Attempt, others: Sequence[Attempt], logged: Iterable[Record], acknowledged: Acknowledged
    ) -> Decision | Reason:
        if reason := self.log.why_unread(attempt.committer.group):
            return reason
        if attempt.topic in self.deleted:
            return COMMIT_OF_DELETED_TOPIC
        if acknowledged.apart or not (acknowledged.in_time or self.one_clock):
            return CLOCKS_APART
        alike = [r for r in logged if (r.transaction is not None) == (attempt.kind == TRANSACTION)]
        records = [r for r in alike if attempt.may_be(r.appended_us, self.clock_us)]
        complete = self.log.reads[attempt.committer.group]["whole"] and not acknowledged.without_record
        if not records:
            if not complete or (attempt.place, attempt.offset) in self.seen:
                return COMMIT_WITHOUT_RECORD
            return Decision("fail", attempt.completed_us)
        mine = [r for r in records if not self._may_be_of_another(r, attempt, others)]
        if not mine and complete and _explained(logged, others):
            return Decision("fail", attempt.completed_us)
        ends = {r.transaction for r in mine}
        if len(ends) != 1:
            return COMMIT_SHARED
        if "open" in ends:
            return COMMIT_IN_OPEN_TRANSACTION
        if "aborted" in ends:
            return Decision("fail", attempt.completed_us)
        done_us = max(r.appended_us if r.ended_us is None else r.ended_us for r in mine)
        return Decision("ok", max(attempt.completed_us, done_us + self.clock_us))

    def _may_be_of_another(self, record: Record, attempt: Attempt, others: Iterable[Attempt]) -> bool:
        """Return whether something else than an attempt may have written a record of its offset."""
        at_us = record.appended_us
        if any(o.may_be(at_us, self.clock_us) for o in others):
            return True
        group, topic, partition = attempt.place
        for m in self.offset_changes:
            near = m.from_us - self.clock_us <= at_us <= m.to_us + self.clock_us
            if near and m.group == group and m.touches(topic, partition):
                return True
        member = attempt.committer.consumer, attempt.committer.incarnation
        return any(
            w.member != member and w.begin_us - self.clock_us <= at_us <= w.end_us + IN_FLIGHT_US
            for w in self.writers.get(attempt.place, ())
        )


def _explained(records: Iterable[Record], others: Iterable[Attempt]) -> bool:
    """Return whether acknowledged commits wrote all records of an offset: each wrote at least one, by a request."""
    acknowledged = [o.kind for o in others if o.outcome == "ok"]
    written = [r for r in records if r.transaction != "aborted"]
    return len(acknowledged) == len(written) and set(acknowledged) <= {"sync", "async"}


def writers_without_row(
    assignments: Iterable[Row], lives: Mapping[tuple[str, int], Life], automatic: frozenset[str]
) -> dict[Place, list[Writer]]:
    """Return by place the members that may have committed there without a row of the ledger.

    These are members that did not stop in order, and members of readers with automatic commits, from their first
    assignment of the partition on.
    """
    found: dict[Place, list[Writer]] = defaultdict(list)
    for row in assignments:
        member = row["consumer"], row["incarnation"]
        life = lives.get(member)
        reader = row["group"] if row["mode"] == "subscribe" else row["consumer"]
        complete = life is not None and life.end == "stopped" and reader not in automatic
        if row["event"] in BEGINS and row["group"] is not None and not complete:
            end_us = NEVER_US if life is None or life.ended_us is None else life.ended_us
            found[row["group"], row["topic"], row["partition"]].append(Writer(member, row["at_us"], end_us))
    return found


def offsets_seen(
    sightings: Mapping[Place, Iterable[tuple[int, int]]], assignments: Iterable[Row]
) -> frozenset[tuple[Place, int]]:
    """Return the offsets that the observer saw in force, and those at which a reader began, unless it had them from
    elsewhere.
    """
    seen = {(place, offset) for place, found in sightings.items() for _, offset in found}
    for r in assignments:
        begun = r["event"] in ("assigned", POSITION) and r["source"] in (None, "committed")
        if begun and r["group"] is not None and r["position"] is not None:
            seen.add(((r["group"], r["topic"], r["partition"]), r["position"]))
    return frozenset(seen)


def known(number: int) -> int:
    """Return a time of a column, 0 if it is missing."""
    return 0 if number == NONE else number
