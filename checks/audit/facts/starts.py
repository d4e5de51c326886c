"""Legal starts: the offsets at which an epoch may begin to read.

With source `committed`, the last committed offset of the group at that moment is legal. The ledger knows that offset as
a set: the last commit that had certainly been made (settled), commits in flight at or after it, commits with outcome
unknown, offsets that faults set or deleted, and offsets that the observer saw, because the row of an automatic commit
or of a commit by a crashed member may be missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from checks.audit.arrays import NEVER_US
from checks.audit.facts.epochs import CHECKPOINT, Epoch, Epochs, Life, OffsetFetch, ReaderPartition, Row
from checks.audit.facts.offset_changes import BY_FAULT, STALE_ANSWER_US, OffsetChange
from checks.audit.facts.readers import EARLIEST, Reader
from checks.audit.facts.recreated_topics import judge_after_deletion
from checks.audit.facts.topic_lives import RECREATED

LogRange = tuple[int | None, int | None]
"""Start and end offset of a partition's log at read-back; None if it was not read back."""
Sighting = tuple[int, int]
"""Time of an observation and the committed offset observed."""


@dataclass
class CommittedOffsets:
    """The offsets that may have been committed when an epoch fetched its start.

    none: possibly nothing was committed. committers: by offset, the (consumer, mode) that committed it; empty for an
    offset that only the observer saw. own: the consumer's own last commit. seen: the highest offset observed while the
    epoch was the latest one. foreign: whether assign-mode consumers commit to this group too, so that `seen` may be
    theirs. moved: the fault that may have changed the offset that the epoch fetched, "" if none did.
    lost_offset: the committed offset that was no longer in force, though no fault had changed it.
    """

    none: bool = True
    committers: dict[int, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    own: int | None = None
    seen: int | None = None
    foreign: bool = False
    moved: str = ""
    lost_offset: int | None = None


def offset_fetches(epochs: Epochs, clients: dict[tuple[str, int], Life]) -> dict[tuple[str, int], list[OffsetFetch]]:
    """Return by (topic, partition) the fetches of committed offsets by epochs of consumers with a group."""
    found: dict[tuple[str, int], list[OffsetFetch]] = defaultdict(list)
    following = {a.key: b.begin_us for turns in epochs.turns.values() for a, b in pairwise(turns)}
    for e in epochs.all:
        if e.group is None:
            continue
        # A group fences all others while it assigns partitions; assign mode may fetch at any time since its start.
        life = clients.get(e.member)
        since = life.started_us if e.mode == "assign" and life and life.started_us is not None else e.begin_us
        next_us = following.get(e.key, NEVER_US)
        fetch = OffsetFetch(e.index, e.group, e.consumer, min(since, e.begin_us), e.begin_us, next_us)
        found[e.topic, e.partition].append(fetch)
    return dict(found)


def sightings(
    observed: Iterable[Row], label: Callable[[str, int], str] = lambda topic, at_us: topic
) -> dict[tuple[str, str, int], list[Sighting]]:
    """Return the committed offsets that the observer saw, by group, topic and partition.

    observed: rows of entities `group:<id>/<topic>/<partition>`. label: the life of a topic at a moment.
    """
    found: dict[tuple[str, str, int], list[Sighting]] = defaultdict(list)
    for row in observed:
        parts = str(row["entity"] or "").removeprefix("group:").rsplit("/", 2)  # a group may have slashes in its id
        offset = _parse_int(row["value"])
        partition = _parse_int(parts[2]) if len(parts) == 3 else None
        if row["entity"].startswith("group:") and partition is not None and offset is not None and offset >= 0:
            found[parts[0], label(parts[1], row["at_us"]), partition].append((row["at_us"], offset))
    return {key: sorted(seen) for key, seen in found.items()}


def _parse_int(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def committed_at_begin(
    fetches: dict[tuple[str, int], list[OffsetFetch]],
    commits: dict[int, dict[str, Any]],
    seen: dict[tuple[str, str, int], list[Sighting]],
    offset_changes: Iterable[OffsetChange],
) -> dict[int, CommittedOffsets]:
    """Return what may have been committed at each fetch, by index of the epoch.

    commits: by that index, the result of `commits.commits_at_begin`.
    """
    found: dict[int, CommittedOffsets] = defaultdict(CommittedOffsets)
    for (topic, partition), asked in fetches.items():
        changes_here = [m for m in offset_changes if m.touches(topic, partition)]
        for fetch in asked:
            writes = [_OffsetWrite.of_change(m, topic, partition) for m in changes_here if m.group == fetch.group]
            observed = _observed_around(fetch, seen.get((fetch.group, topic, partition), []), writes)
            if fetch.epoch in commits or observed or writes:
                _collect(found[fetch.epoch], fetch, commits.get(fetch.epoch, {}), observed, writes)
    return found


@dataclass(frozen=True)
class _OffsetWrite:
    """A committed offset set at some time from from_us to to_us, None if deleted. fault: the fault that did it."""

    to_us: int
    from_us: int
    offset: int | None
    fault: str = ""
    sure: bool = True
    lost_offset: int | None = None

    @classmethod
    def of_change(cls, m: OffsetChange, topic: str, partition: int) -> _OffsetWrite:
        return cls(m.to_us, m.from_us, m.offset(topic, partition), m.fault, m.sure, m.lost_offset)

    @property
    def order(self) -> tuple[int, int, int]:
        return self.to_us, self.from_us, -1 if self.offset is None else self.offset

    @property
    def visible_us(self) -> int:
        """The time from which an observation cannot be older than this write."""
        return self.to_us + (STALE_ANSWER_US if self.fault else 0)


def _observed_around(fetch: OffsetFetch, seen: list[Sighting], moved: list[_OffsetWrite]) -> dict[str, Any]:
    """Return the last sighting before a fetch, the next one after it, and the highest while it was the latest epoch.

    An offset that a fault set after the epoch was over does not count as committed by the epoch.
    """
    if not seen:
        return {}
    last = max((s for s in seen if s[0] <= fetch.fetched_us), default=None)
    following = min((s for s in seen if s[0] > fetch.fetched_us), default=None)
    until = min([fetch.next_begin_us, *(m.from_us for m in moved if m.from_us >= fetch.begin_us)])
    during = [offset for at_us, offset in seen if fetch.begin_us <= at_us < until]
    return {"last_seen": last, "next_seen": following, "seen": max(during, default=None)}


def _collect(
    found: CommittedOffsets,
    fetch: OffsetFetch,
    row: dict[str, Any],
    observed: dict[str, Any],
    moved: list[_OffsetWrite],
) -> None:
    """Fill in one fetch from the commits, the observations and the changes around it."""
    settled, own = row.get("settled"), row.get("own")
    found.own = own["offset"] if own else None
    found.foreign = bool(row.get("foreign"))
    found.seen = observed.get("seen")
    sure = [_OffsetWrite(**settled)] if settled else []
    sure += [m for m in moved if m.sure and m.to_us <= fetch.fetched_us]
    final = max(sure, key=lambda s: s.order, default=None)
    since = final.from_us if final else -NEVER_US
    for offset, consumer, mode, to_us in row.get("candidates") or []:
        if to_us >= since:
            found.committers[offset].add((consumer, mode))
    possible = [m for m in moved if m.from_us <= fetch.begin_us and m.to_us >= since]
    for m in possible:
        found.moved, found.lost_offset = m.fault, m.lost_offset
        if m.offset is not None:
            found.committers[m.offset].add((m.fault, BY_FAULT))
    last, following = observed.get("last_seen"), observed.get("next_seen")
    found.none = final is None or final.offset is None
    if last and last[0] >= since:
        if final and final.offset is not None and last[1] > final.offset and last[0] >= final.visible_us:
            found.committers.pop(final.offset, None)  # a higher offset was observed since
        found.committers[last[1]]
        found.none = False
    found.none |= any(m.offset is None and not (last and last[0] >= m.visible_us) for m in possible)
    next_writes = [m.to_us for m in moved if m.from_us > fetch.begin_us]
    next_writes += [row["next_done"]] if row.get("next_done") is not None else []
    if following and all(following[0] < to_us for to_us in next_writes):
        found.committers[following[1]]


def judge_starts(
    epochs: Epochs,
    committed: dict[int, CommittedOffsets],
    readers: list[Reader],
    ranges: dict[tuple[str, int], LogRange],
    reached: Mapping[ReaderPartition, set[int]],
    checkpoints: Checkpoints,
) -> None:
    """Set start, legal, why and moved of every epoch. reached: see `recreated_topics.reached_before`."""
    by_name = {r.name: r for r in readers}
    for e in epochs.all:
        reader = by_name.get(e.reader) or Reader(e.reader, e.mode, e.group, (), 1, "latest", "", commits=False)
        reader = reader.seen_by(e.consumer)
        log, earlier = ranges.get((e.topic, e.partition), (None, None)), epochs.turns[e.reader_partition][: e.turn]
        offsets = committed.get(e.index, CommittedOffsets())
        _judge(e, earlier, offsets, reader, log, checkpoints)
        e.moved = e.legal and _moved(e, offsets, log)
        if (before := reached.get(e.reader_partition)) is not None:
            judge_after_deletion(e, earlier, before, reader, log)


def _judge(
    e: Epoch,
    earlier: list[Epoch],
    committed: CommittedOffsets,
    reader: Reader,
    log: LogRange,
    checkpoints: Checkpoints,
) -> None:
    if e.source == "seek":
        e.start, e.legal, e.why = _position(e), True, "a seek"
    elif e.source == "checkpoint":
        judge_checkpoint(e, earlier, reader, checkpoints)
    elif e.source == "start":
        before = [p for p in earlier if p.consumer == e.consumer]
        without = reader.stores_checkpoints and checkpoints.last_before(e) is None
        repeated = any(p.incarnation == e.incarnation or not (reader.fresh_start or without) for p in before)
        e.start, e.legal, e.restored = _position(e), not repeated, without and not repeated
        e.why = "began at its given start again" if repeated else "the given start"
    elif e.source in ("reset", RECREATED):
        _judge_reset(e, committed, reader, log)
    elif e.position is not None and e.source is not None:
        _judge_committed(e, e.position, earlier, committed, reader)
    else:
        _judge_unknown(e, committed, reader, log)


def _moved(e: Epoch, committed: CommittedOffsets, log: LogRange) -> bool:
    """Return whether something other than commits of the group's members decided where an epoch begins."""
    if e.source in ("seek", "checkpoint", "start"):
        return e.source == "seek"
    changed = bool(committed.moved) or committed.lost_offset is not None
    if e.source in ("reset", RECREATED):
        return changed or bool(_outside(committed, log))
    if e.position is None or e.source is None:
        return changed
    modes = {mode for _, mode in committed.committers.get(e.position, ())}
    return BY_FAULT in modes or (bool(modes) and "subscribe" not in modes)


def _outside(committed: CommittedOffsets, log: LogRange) -> list[int]:
    """Return the offsets that may have been committed and are outside the log."""
    start, end = log
    return [o for o in committed.committers if (start is not None and o < start) or (end is not None and o > end)]


def _position(e: Epoch) -> int | None:
    return e.position if e.position is not None else e.first


def _judge_reset(e: Epoch, committed: CommittedOffsets, reader: Reader, log: LogRange) -> None:
    """Judge auto.offset.reset: it applies where nothing is committed or the committed offset is outside the log."""
    start = log[0]
    e.legal = committed.none or bool(_outside(committed, log))
    e.why = (
        "auto.offset.reset" if e.legal else f"auto.offset.reset, although {sorted(committed.committers)} was committed"
    )
    if e.legal and committed.moved:
        e.why += f", because fault {committed.moved} had deleted the committed offset"
    elif e.legal and committed.lost_offset is not None:
        e.why += f", because the committed offset {committed.lost_offset} was no longer in force"
    e.start = start if reader.reset == EARLIEST and start is not None else _position(e)
    if reader.reset == EARLIEST and e.position is not None and start is not None and e.position > start:
        e.why += f" (recorded at {e.position}, above the log start {start})"


def _judge_committed(
    e: Epoch, position: int, earlier: list[Epoch], committed: CommittedOffsets, reader: Reader
) -> None:
    offsets = committed.committers
    e.start, e.legal, e.why = position, position in offsets, "the committed offset"
    if e.legal:
        if (committed.moved, BY_FAULT) in offsets[position]:
            lost = f"; {committed.lost_offset} was no longer in force"
            e.why += f", set by fault {committed.moved}" if committed.moved else lost
        return
    # Above all recorded commits, but not above what was processed: the row of that commit was lost with its member, or
    # the commit was automatic and never reported. It repeats less than the recorded commits would allow.
    unrecorded = reader.auto or any(p.end_reason == "crashed" for p in earlier)
    processed = max((p.high + 1 for p in earlier if p.high is not None), default=None)
    last = max(offsets, default=None)
    if unrecorded and processed is not None and (last is None or last < position) and position <= processed:
        e.legal, e.why = True, "a commit without a row: its member died, or it was automatic"
        return
    recorded = f"{sorted(offsets)} was" if offsets else "nothing was"
    e.why = f"reported as the committed offset, but {recorded} committed"


def _judge_unknown(e: Epoch, committed: CommittedOffsets, reader: Reader, log: LogRange) -> None:
    """Judge an epoch that its client library started: illegal only if it began below every legal start.

    Where it began is known if it began at the end of the log; otherwise its first delivery shows it.
    """
    began = _position(e)
    below = [o for o in committed.committers if began is None or o <= began]
    if below:
        e.start, e.legal, e.why = max(below), True, "the committed offset (no position on record)"
    elif committed.none or _outside(committed, log):
        e.start = log[0] if reader.default_start == EARLIEST and log[0] is not None else began
        e.legal, e.why = True, "auto.offset.reset (no position on record)"
    else:
        e.start, e.legal = began, False
        e.why = f"began at {began}, below the committed {sorted(committed.committers)}"


NOT_RESTORED = "its checkpoint was"
"""How the reason of an illegal start begins, of a reader that had a checkpoint."""


class Checkpoints:
    """The rows of complete checkpoints."""

    def __init__(self, assignments: Iterable[Row]) -> None:
        self._stored: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
        for row in sorted(assignments, key=lambda r: (r["incarnation"], r["at_us"], r["position"] or 0)):
            if row["event"] == CHECKPOINT and row["position"] is not None:
                self._stored[row["consumer"], row["topic"], row["partition"]].append(row)

    def last_before(self, e: Epoch) -> int | None:
        """Return the last checkpoint of the earlier incarnations of an epoch's consumer, None without one."""
        rows = self._stored.get((e.consumer, e.topic, e.partition), [])
        return next((row["position"] for row in reversed(rows) if row["incarnation"] < e.incarnation), None)


def judge_checkpoint(e: Epoch, earlier: list[Epoch], reader: Reader, checkpoints: Checkpoints) -> None:
    """Judge the restore from a checkpoint.

    A stored checkpoint may be later than the last one with a row, if its process died before it wrote the row; and a
    reader with idempotent results begins after the results that it finds. It begins nowhere before the start of the
    reader, and nowhere beyond what was processed.
    """
    before = sorted((p for p in earlier if p.consumer == e.consumer), key=lambda p: (p.incarnation, p.assignment))
    begun = before[0].start if before else None
    processed = next((p.last + 1 for p in reversed(before) if p.last is not None), begun)
    stored = checkpoints.last_before(e) if reader.stores_checkpoints else processed
    lowest = begun if stored is None else stored
    e.start = e.position if e.position is not None else e.first
    e.legal = e.start is None or lowest is None or lowest <= e.start <= max(lowest, processed or 0)
    e.why = "its checkpoint" if e.legal else f"{NOT_RESTORED} {lowest}, not {e.start}"
    e.restored = e.legal and reader.stores_checkpoints
    if e.restored and e.start != stored:
        e.why += ", or what was processed after the last one with a row"
