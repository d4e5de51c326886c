"""Parts in which each life of a topic is a separate topic; see `checks.audit.facts.topic_lives`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from checks.audit.arrays import NEVER_US, NONE, Ints, Mask
from checks.audit.engine.counters import BETWEEN, EXTENTS, SETTLED, UNLOCATED, UNSETTLED
from checks.audit.engine.group import sections
from checks.audit.engine.parts import Part
from checks.audit.engine.tally import Tally
from checks.audit.facts.topic_lives import Ack, Extent, Position, Record, TopicLives
from checks.audit.findings import SEVERAL_LIVES

_TIMES = {
    "sends": ("invoked_us", "completed_us"),
    "deliveries": ("sent_us", "polled_us"),
    "commits": ("requested_us", "completed_us"),
}
"""The earliest and the latest moment at which a row may have reached its topic."""
_IDENTITY = {
    "sends": ("producer", "incarnation", "seq"),
    "deliveries": ("producer", "producer_incarnation", "seq"),
    "commits": (),
}


def open_part(table: str, path: str, data: Any, columns: Sequence[str], lives: TopicLives) -> Part:
    """Return the part; if topics were deleted and created again, each row has the life of its topic."""
    if lives and table in _TIMES:
        return LivePart(table, path, data, columns, lives)
    return Part(table, path, data, columns)


class LivePart(Part):
    """A part of sends, deliveries or commits with lives in place of topics."""

    def __init__(self, table: str, path: str, data: Any, columns: Sequence[str], lives: TopicLives) -> None:
        needed = (*_TIMES[table], *_IDENTITY[table], "topic", "partition", "offset", "outcome")
        added = [name for name in needed if not (name == "outcome" and table == "deliveries")]
        super().__init__(table, path, data, tuple(dict.fromkeys((*columns, *added))))
        self._lives = lives

    @property
    def unsure(self) -> Mask:
        """The rows that may belong to the life in force or to an earlier one."""
        return self._assigned[2]

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Return a column of texts: of topics the lives, of commits that may be of an earlier life no `ok`."""
        if not self.rows or name not in ("topic", "outcome"):
            return super().codes(name)
        if name == "topic":
            return self._assigned[:2]
        codes, names = super().codes(name)
        if self.table != "commits" or "ok" not in names:
            return codes, names
        return np.where(self.unsure & (codes == names.index("ok")), len(names), codes), [*names, "unknown"]

    def unsettled(self) -> list[Record]:
        """Return the records of the rows that by time may belong to the life in force or to an earlier one.

        Rows without an identity have none.
        """
        found = []
        for topic, rows, earliest, latest in self._by_time:
            in_force = np.array([not life.ended for life in self._lives.of[topic]], np.bool_)
            found += [self._record(row) for row in rows[(earliest < latest) & in_force[latest]].tolist()]
        return [record for record in found if record is not None]

    @cached_property
    def _assigned(self) -> tuple[Ints, list[str], Mask]:
        plain, names = super().codes("topic")
        codes, labels = plain.astype(np.int64), list(names)
        unsure = np.zeros(self.rows, np.bool_)
        first, last = self._times
        for code, topic in enumerate(names):
            if topic not in self._lives.of:
                continue
            rows = np.flatnonzero(plain == code)
            if self.table == "commits":  # the log does not show them
                earliest, chosen = self._lives.bounds(topic, first[rows], last[rows])
                unsure[rows] = earliest < chosen
            else:
                in_log = partial(self._in_log, rows)
                placed = partial(self._placed, rows)
                chosen, unsure[rows] = self._lives.choose(topic, first[rows], last[rows], in_log, placed)
            numbers = []
            for label in (*(life.label for life in self._lives.of[topic]), self._lives.unclear(topic)):
                if label not in labels:
                    labels.append(label)
                numbers.append(labels.index(label))
            codes[rows] = np.array(numbers, np.int64)[chosen]
        used, codes = np.unique(codes, return_inverse=True)
        return codes, [labels[code] for code in used.tolist()], unsure

    @cached_property
    def _identities(self) -> tuple[Ints, list[str], Ints, Ints, Ints, list[str]]:
        producer, incarnation, seq = _IDENTITY[self.table]
        return (*super().codes(producer), self.ints(incarnation), self.ints(seq), *super().codes("topic"))

    def _record(self, row: int) -> Record | None:
        codes, producers, incarnation, seq, topics, names = self._identities
        if codes[row] < 0 or seq[row] == NONE:
            return None
        return names[topics[row]], producers[codes[row]], int(incarnation[row]), int(seq[row])

    def _in_log(self, rows: Ints, i: int) -> bool | None:
        """Return what the final log shows of the record of one of some rows; see `TopicLives.choose`."""
        row = int(rows[i])
        record = self._record(row)
        positions = self._lives.settled.get(record, frozenset()) if record else frozenset()
        position = partition, offset = self._position(row)
        if (offset == NONE and positions) or position in positions:
            return True
        *_, topics, names = self._identities
        there = names[topics[row]], partition
        if partition != NONE and there not in self._lives.partitions:
            return False
        return False if offset != NONE and there in self._lives.steady else None

    def _placed(self, rows: Ints, i: int) -> int | None:
        """Return the index of the life of one of some rows, of several that have ended; see `TopicLives.choose`.

        The record of a delivery is in the life that acknowledged it. One that is not known to be acknowledged at an
        offset may be in any of them.
        """
        row = int(rows[i])
        record = self._record(row)
        if record is None:
            return None
        if self.table == "deliveries" and record in self._lives.unlocated:
            return len(self._lives.of[record[0]])
        return self._lives.placed.get((record, self._position(row)))

    def acks_between(self) -> Iterator[Ack]:
        """Yield the acknowledgements that may belong to several lives that have ended."""
        first, last = self._times
        for topic, rows, earliest, latest in self._acks():
            for i in np.flatnonzero(earliest < latest).tolist():
                row, record, between = int(rows[i]), self._record(int(rows[i])), (int(earliest[i]), int(latest[i]))
                if record is not None and self._lives.may_be_several(topic, *between):
                    yield Ack(record, self._position(row), int(first[row]), int(last[row]), *between)

    def unlocated(self) -> Iterator[Record]:
        """Yield the records that may be in several lives that have ended, at an offset that is not known."""
        perhaps = ~self.equals("outcome", "fail") & (self.ints("offset") == NONE)
        for topic, rows, earliest, latest in self._by_time:
            for i in np.flatnonzero(perhaps[rows] & (earliest < latest)).tolist():
                record = self._record(int(rows[i]))
                if record is not None and self._lives.may_be_several(topic, int(earliest[i]), int(latest[i])):
                    yield record

    def extents(self) -> Iterator[tuple[str, int, Extent]]:
        """Yield label, partition and extent of each life, from acknowledgements that time assigns to it."""
        offset, partition = self.ints("offset"), self.ints("partition")
        for topic, rows, earliest, latest in self._acks():
            sure, life = rows[earliest == latest], latest[earliest == latest]
            for (index, number), here in sections(life, partition[sure]):
                reached = here.ints(offset[sure])
                label = self._lives.of[topic][int(index)].label
                yield label, int(number), (int(reached.min()), int(reached.max()))

    def _acks(self) -> Iterator[tuple[str, Ints, Ints, Ints]]:
        """Yield each topic with lives, the rows of its acknowledgements, and the lives that they may belong to."""
        ok = self.equals("outcome", "ok") & (self.ints("offset") != NONE)
        for topic, rows, earliest, latest in self._by_time:
            if ok[rows].any():
                yield topic, rows[ok[rows]], earliest[ok[rows]], latest[ok[rows]]

    @cached_property
    def _by_time(self) -> list[tuple[str, Ints, Ints, Ints]]:
        """Each topic with lives, its rows, and the earliest and the latest life that each may belong to."""
        topics, names = super().codes("topic")
        first, last = self._times
        found = []
        for code, topic in enumerate(names):
            if topic in self._lives.of:
                rows = np.flatnonzero(topics == code)
                found.append((topic, rows, *self._lives.bounds(topic, first[rows], last[rows])))
        return found

    @cached_property
    def _times(self) -> tuple[Ints, Ints]:
        first, last = (self.ints(name) for name in _TIMES[self.table])
        return first, np.where(last == NONE, NEVER_US - 1, last)

    @cached_property
    def _offsets(self) -> tuple[Ints, Ints]:
        return self.ints("partition"), self.ints("offset")

    def _position(self, row: int) -> Position:
        partition, offset = self._offsets
        return int(partition[row]), int(offset[row])


def add_unsettled(part: Part, tally: Tally) -> None:
    """Add the records that time does not assign to a life."""
    if isinstance(part, LivePart) and part.table != "commits" and part.rows:
        tally.add(UNSETTLED, part.table, value=set(part.unsettled()))
        if part.table == "sends":
            tally.add(BETWEEN, value=list(part.acks_between()))
            tally.add(UNLOCATED, value=set(part.unlocated()))
            for label, partition, extent in part.extents():
                tally.add(EXTENTS, label, partition, value=extent)


def add_positions(part: Part, run_token: str, wanted: frozenset[Record], tally: Tally) -> None:
    """Add the positions in the log of the wanted records."""
    if not part.rows:
        return
    (topics, names), (codes, producers) = part.codes("topic"), part.codes("producer")
    incarnation, seq, partition, offset = (part.ints(n) for n in ("incarnation", "seq", "partition", "offset"))
    near = part.own_records(run_token) & np.isin(seq, np.array(sorted({record[3] for record in wanted}), np.int64))
    for row in np.flatnonzero(near).tolist():
        record = names[topics[row]], producers[codes[row]], int(incarnation[row]), int(seq[row])
        if record in wanted:
            tally.add(SETTLED, *record, value={(int(partition[row]), int(offset[row]))})


def count_undecided(part: Part, lives: TopicLives, compacted: frozenset[str], tally: Tally) -> None:
    """Count rows that may be of the life in force, although the final log does not show them there.

    An acknowledgement is then undecided for lost_write, or for lost_key in a compacted topic. A delivery is
    undecided for dirty_read if time does not assign the acknowledgement of its record to a life either.
    """
    if not isinstance(part, LivePart) or part.table == "commits" or not part.rows or not part.unsure.any():
        return
    topics, names = Part.codes(part, "topic")
    absent = np.flatnonzero(part.unsure)
    if part.table == "sends":
        ok = absent[part.equals("outcome", "ok")[absent]]
        for code, count in zip(*np.unique(topics[ok], return_counts=True), strict=True):
            check = "lost_key" if names[code] in compacted else "lost_write"
            tally.report_undecided(check, names[code], int(count), SEVERAL_LIVES)
        return
    (groups, group_names), (modes, mode_names) = part.codes("group"), part.codes("mode")
    consumers, clients = part.codes("consumer")
    for row in absent.tolist():
        if part._record(row) in lives.unsettled_sends:
            subscribed = mode_names[modes[row]] == "subscribe"
            reader = group_names[groups[row]] if subscribed else clients[consumers[row]]
            tally.report_undecided("dirty_read", reader, 1, SEVERAL_LIVES)
