"""Where an epoch may begin: the legal start (DESIGN, "What the words of the checks mean exactly").

`committed` is legal at the group's last committed offset of that moment. What the ledger knows of that moment is a set:
the last commit that had surely been made (settled), those in flight beside or after it, those with outcome unknown,
what faults set or deleted, and what the observer saw, since the row of an automatic commit, or of one whose member
died, may be missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from checks.audit.epochs import Epoch, Epochs, Life, Question, Row
from checks.audit.moves import BY_FAULT, SEEN_LATE_US, Move
from checks.audit.readers import EARLIEST, Reader

Range = tuple[int | None, int | None]


@dataclass
class Known:
    """What may have been committed when an epoch asked. none: that nothing may have been.

    makers: by offset, the (consumer, mode) that committed it; empty for an offset only the observer saw.
    own: the reader's own last commit. seen: the highest offset observed while the epoch was the latest one.
    foreign: whether assign-mode consumers commit to this group too, so that `seen` may be of their making.
    moved: the fault that may have put what the epoch found there, "" if none did.
    """

    none: bool = True
    makers: dict[int, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    own: int | None = None
    seen: int | None = None
    foreign: bool = False
    moved: str = ""


def questions(epochs: Epochs, lives: dict[tuple[str, int], Life]) -> dict[tuple[str, int], list[Question]]:
    """By (topic, partition), the epochs of consumers with a group: each asked for the committed offset."""
    found: dict[tuple[str, int], list[Question]] = defaultdict(list)
    following = {a.key: b.begin_us for turns in epochs.by_place().values() for a, b in pairwise(turns)}
    for number, e in enumerate(epochs.all):
        if e.group is None:
            continue
        # A group fences everybody else while it hands out partitions; assign mode asks at any time since its start.
        life = lives.get(e.holder)
        since = life.started_us if e.mode == "assign" and life and life.started_us is not None else e.begin_us
        next_us = following.get(e.key, 1 << 62)
        asked = Question(number, e.group, e.consumer, min(since, e.begin_us), e.begin_us, next_us)
        found[e.topic, e.partition].append(asked)
    return dict(found)


Sighting = tuple[int, int]
"""When the observer saw which offset committed."""


def sightings(observed: Iterable[Row]) -> dict[tuple[str, str, int], list[Sighting]]:
    """What the observer saw committed, by group, topic and partition: of entities `group:<id>/<topic>/<partition>`."""
    found: dict[tuple[str, str, int], list[Sighting]] = defaultdict(list)
    for row in observed:
        parts = str(row["entity"] or "").removeprefix("group:").split("/")
        offset = _whole(row["value"])
        partition = _whole(parts[2]) if len(parts) == 3 else None
        if row["entity"].startswith("group:") and partition is not None and offset is not None and offset >= 0:
            found[parts[0], parts[1], partition].append((row["at_us"], offset))
    return {key: sorted(seen) for key, seen in found.items()}


def _whole(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def known_at_begin(
    epochs: Epochs,
    asked: dict[tuple[str, int], list[Question]],
    commits: dict[int, dict[str, Any]],
    seen: dict[tuple[str, str, int], list[Sighting]],
    moves: Iterable[Move],
) -> dict[int, Known]:
    """What is known of the committed offset for each epoch of a consumer with a group id, by index in `epochs.all`.

    commits: by that index, what `committed.known_of_commits` says.
    """
    known: dict[int, Known] = defaultdict(Known)
    for (topic, partition), those in asked.items():
        here = [m for m in moves if m.touches(topic, partition)]
        for q in those:
            mine = [_Set.by(m, topic, partition) for m in here if m.group == q.group]
            sighting = _sighting(q, seen.get((q.group, topic, partition), []), mine)
            if q.epoch in commits or sighting or mine:
                _learn(known[q.epoch], q, commits.get(q.epoch, {}), sighting, mine)
    return known


@dataclass(frozen=True)
class _Set:
    """An offset that was set at some time from from_us to to_us, None if it was deleted; fault: by which, if by one."""

    to_us: int
    from_us: int
    offset: int | None
    fault: str = ""
    sure: bool = True

    @classmethod
    def by(cls, m: Move, topic: str, partition: int) -> _Set:
        return cls(m.to_us, m.from_us, m.to(topic, partition), m.fault, m.sure)

    @property
    def order(self) -> tuple[int, int, int]:
        return self.to_us, self.from_us, -1 if self.offset is None else self.offset


def _sighting(q: Question, seen: list[Sighting], moved: list[_Set]) -> dict[str, Any]:
    """The last that was seen before an epoch asked, the next after, and the highest while it was the latest epoch.

    What a fault set when the epoch was over is not of its making.
    """
    if not seen:
        return {}
    last = max((s for s in seen if s[0] <= q.fetched_us), default=None)
    following = min((s for s in seen if s[0] > q.fetched_us), default=None)
    until = min([q.next_begin_us, *(m.from_us for m in moved if m.from_us >= q.begin_us)])
    during = [offset for at_us, offset in seen if q.begin_us <= at_us < until]
    return {"last_seen": last, "next_seen": following, "seen": max(during, default=None)}


def _learn(known: Known, q: Question, row: dict[str, Any], sighting: dict[str, Any], moved: list[_Set]) -> None:
    settled, own = row.get("settled"), row.get("own")
    known.own = own["offset"] if own else None
    known.foreign = bool(row.get("foreign"))
    known.seen = sighting.get("seen")
    sure = [_Set(**settled)] if settled else []
    sure += [m for m in moved if m.sure and m.to_us <= q.fetched_us]
    final = max(sure, key=lambda s: s.order, default=None)
    since = final.from_us if final else 0
    for offset, consumer, mode, to_us in row.get("candidates") or []:
        if to_us >= since:
            known.makers[offset].add((consumer, mode))
    may = [m for m in moved if m.from_us <= q.begin_us and m.to_us >= since]
    for m in may:
        known.moved = m.fault
        if m.offset is not None:
            known.makers[m.offset].add((m.fault, BY_FAULT))
    last, following = sighting.get("last_seen"), sighting.get("next_seen")
    known.none = final is None or final.offset is None
    if last and last[0] >= since:
        if final and final.offset is not None and last[1] > final.offset and last[0] >= _surely_seen(final):
            known.makers.pop(final.offset, None)  # seen further on since: the settled one is no longer the last
        known.makers[last[1]]
        known.none = False
    known.none |= any(m.offset is None and not (last and last[0] >= _surely_seen(m)) for m in may)
    next_done = [m.to_us for m in moved if m.from_us > q.begin_us]
    next_done += [row["next_done"]] if row.get("next_done") is not None else []
    if following and all(following[0] < done for done in next_done):
        known.makers[following[1]]


def _surely_seen(s: _Set) -> int:
    """From when on what is seen is not what was there before."""
    return s.to_us + (SEEN_LATE_US if s.fault else 0)


def judge(epochs: Epochs, known: dict[int, Known], readers: list[Reader], ranges: dict[tuple[str, int], Range]) -> None:
    """Fill in start, legal and why of every epoch."""
    by_name = {r.name: r for r in readers}
    index = {e.key: i for i, e in enumerate(epochs.all)}
    for turns in epochs.by_place().values():
        for e in turns:
            reader = by_name.get(e.reader) or Reader(e.reader, e.mode, e.group, (), 1, "latest", "", commits=False)
            log = ranges.get((e.topic, e.partition), (None, None))
            _judge(e, turns[: e.turn], known.get(index[e.key], Known()), reader, log)


def _judge(e: Epoch, earlier: list[Epoch], known: Known, reader: Reader, log: Range) -> None:
    if e.source == "seek":
        e.start, e.legal, e.why = _position(e), True, "a seek"
    elif e.source == "checkpoint":
        expected = _checkpoint(e, earlier)
        e.start = _position(e)
        e.legal = expected is None or e.start is None or e.start == expected
        e.why = "its checkpoint" if e.legal else f"its checkpoint was {expected}, not {e.start}"
    elif e.source == "start":
        mine = [
            p
            for p in earlier
            if p.consumer == e.consumer and (p.incarnation == e.incarnation or not reader.fresh_start)
        ]
        e.start, e.legal = _position(e), not mine
        e.why = "the given start" if e.legal else "began at its given start again"
    elif e.source == "reset":
        _judge_reset(e, known, reader, log)
    elif e.position is not None:
        _judge_committed(e, earlier, known, reader)
    else:
        _judge_unknown(e, known, reader, log)


def _position(e: Epoch) -> int | None:
    return e.position if e.position is not None else e.first


def _checkpoint(e: Epoch, earlier: list[Epoch]) -> int | None:
    """After the last record that the consumer processed here before; else where it began. None if it never was here."""
    mine = sorted((p for p in earlier if p.consumer == e.consumer), key=lambda p: (p.incarnation, p.assignment))
    for p in reversed(mine):
        if p.last is not None:
            return p.last + 1
    return mine[0].start if mine else None


def _judge_reset(e: Epoch, known: Known, reader: Reader, log: Range) -> None:
    """auto.offset.reset applies where nothing is committed, or what is committed is outside the log."""
    start, end = log
    outside = [o for o in known.makers if (start is not None and o < start) or (end is not None and o > end)]
    e.legal = known.none or bool(outside)
    e.why = "auto.offset.reset" if e.legal else f"auto.offset.reset, although {sorted(known.makers)} was committed"
    e.why += f", for fault {known.moved} had taken the committed offset away" if e.legal and known.moved else ""
    e.start = start if reader.reset == EARLIEST and start is not None else _position(e)
    if reader.reset == EARLIEST and e.position is not None and start is not None and e.position > start:
        e.why += f" (recorded at {e.position}, above the log start {start})"


def _judge_committed(e: Epoch, earlier: list[Epoch], known: Known, reader: Reader) -> None:
    e.start = e.position
    assert e.start is not None
    last = max(known.makers, default=None)
    e.legal = e.start in known.makers
    e.why = "the committed offset"
    if e.legal:
        e.why += f", set by fault {known.moved}" if (known.moved, BY_FAULT) in known.makers[e.start] else ""
        return
    # Above all commits on record, yet within what was processed: the row of that commit died with its member, or it
    # was an automatic one that nobody was told of. It repeats less than the recorded commits would allow.
    unrecorded = reader.auto or any(p.end_reason == "crashed" for p in earlier)
    processed = max((p.high + 1 for p in earlier if p.high is not None), default=None)
    if unrecorded and processed is not None and (last is None or last < e.start) and e.start <= processed:
        e.legal, e.why = True, "a commit without a row: its member died, or it was automatic"
        return
    found = f"{sorted(known.makers)} was" if known.makers else "nothing was"
    e.why = f"said to be the committed offset, but {found} committed"


def _judge_unknown(e: Epoch, known: Known, reader: Reader, log: Range) -> None:
    """No position on record: it is taken to be legal unless its first delivery lies below every legal one."""
    below = [o for o in known.makers if e.first is None or o <= e.first]
    if below:
        e.start, e.legal, e.why = max(below), True, "the committed offset (no position on record)"
    elif known.none:
        e.start = log[0] if reader.first == EARLIEST else e.first
        e.legal, e.why = True, "auto.offset.reset (no position on record)"
    else:
        e.start, e.legal = e.first, False
        e.why = f"began at {e.first}, below the committed {sorted(known.makers)}"
