"""The read path: what each reader owes, what it got, and how often."""

from __future__ import annotations

from collections.abc import Collection

from tests.checks.audit.oracle.epochs import Epoch, Reading, key_of, reached_before
from tests.checks.audit.oracle.facts import Case, Finding, Judgement, Row, reader_name
from tests.checks.audit.oracle.starts import Commit, offset_changes, sightings

Identity = tuple[str | None, int | None, int | None]
Scope = tuple[str, str, int]
"""Reader, topic and partition."""
ANSWERS = "cluster", "answers"
LOOK_US = 3_000_000


def judge_reading(case: Case, reading: Reading, commits: list[Commit], verdict: Judgement) -> None:
    """All checks of the read path, which are counted per reader."""
    for reader, topic, partition in places(case, reading):
        turns = reading.get((reader, topic, partition), [])
        log = {r["offset"]: r for r in case.rows["log"] if (r["topic"], r["partition"]) == (topic, partition)}
        scope = reader, topic, partition
        seen = {offset: record for offset, record in log.items() if case.facts(reader).sees(record)}
        _undelivered(case, scope, reading, seen, commits, verdict)
        _again(scope, turns, log, verdict)
        _dirty(case, scope, turns, log, verdict)
        for epoch in turns:
            _within_epoch(scope, epoch, seen, topic in case.lives.mixed, verdict)


def places(case: Case, reading: Reading) -> list[Scope]:
    """Every partition that a reader should read by the scenario, or did read."""
    owed = {
        (facts.name, row["topic"], row["partition"])
        for facts in case.readers.values()
        for row in case.rows["log_range"]
        if row["topic"] in facts.topics
    }
    return sorted(owed | set(reading))


def record_identity(record: Row) -> Identity:
    return record["producer"], record["incarnation"], record["seq"]


def delivered_identity(delivery: Row) -> Identity | None:
    """Which record the delivery says it was, None if its value carried no identity."""
    if delivery["producer"] is None:
        return None
    return delivery["producer"], delivery["producer_incarnation"], delivery["seq"]


def _finding(
    check: str,
    scope: Scope,
    offset: int,
    who: Identity,
    consumer: str | None,
    split: str = "",
) -> Finding:
    reader, topic, partition = scope
    producer, incarnation, seq = who
    return Finding(check, split, reader, topic, partition, offset, producer, incarnation, seq, consumer)


def _is(delivery: Row, record: Row) -> bool:
    return delivered_identity(delivery) in (None, record_identity(record))


def range_start(case: Case, scope: Scope, reading: Reading) -> int | None:
    """The first offset that the reader has to deliver; None if that cannot be known."""
    reader, topic, partition = scope
    turns = reading.get(scope, [])
    log = case.range_of(topic, partition)
    if came_later(case, scope, reading) or (log and reached_before(case, scope, reading) is not None):
        return log[0] if log else None
    facts, log = case.readers.get(reader), case.range_of(topic, partition)
    earliest = log[0] if facts and facts.begins_at_earliest and log else None
    if not turns:
        return earliest
    first = turns[0]
    at_earliest = facts is not None and facts.of(first.consumer).begins_at_earliest
    if first.position is None and first.source in ("start", "reset") and at_earliest:
        return log[0] if log else None
    if first.start is not None:
        return first.start
    return min((o for e in turns for o in e.offsets), default=None)


def came_later(case: Case, scope: Scope, reading: Reading) -> bool:
    """Whether the partition was made when the group had begun to read its topic, and nothing was committed there when
    it was found: then all of it is in the group's range, whatever auto.offset.reset says (KIP-1327).

    Made later: the observer looked before the group began, and first saw the partition more than 3 s (a look of three
    brokers that do not answer) after, time in which nobody answered not counted. A partition that was not read back is
    left out: where it begins is not known.
    """
    reader, topic, partition = scope
    facts, turns = case.facts(reader), reading.get(scope, [])
    if topic in case.lives.of or not case.range_of(topic, partition):
        return False
    if turns and not (turns[0].found_nothing and turns[0].source in (None, "reset")):
        return False
    begins = [
        e.begin_us
        for (name, _, _), epochs in reading.items()
        for e in epochs
        if name == reader and (e.consumer.rpartition("/")[0], topic) in facts.subscribed
    ]
    deleted = [m.from_us for m in offset_changes(case, reader, topic, partition) if m.whole]
    deleted = [at for at in deleted if not turns or at <= turns[0].begin_us]
    begins = [at for at in begins if at >= max(deleted, default=0)]  # the group begins again
    changes = [(r["at_us"], r["value"]) for r in case.rows["cluster"] if (r["entity"], r["key"]) == ANSWERS]
    answers = sorted(changes, key=lambda answer: answer[0])
    seen = [r["at_us"] for r in case.rows["cluster"] if (r["entity"], r["key"]) == (f"{topic}/{partition}", "leader")]
    if not begins or not seen or not answers or answers[0][0] > min(begins):
        return False
    not_before = min(seen) - LOOK_US
    for n, (at_us, value) in enumerate(answers):
        until = next((later for later, _ in answers[n + 1 :] if later > at_us), None)
        same_moment = any(at == at_us for at, _ in answers[n + 1 :])
        silent = value == "false" and not same_moment and at_us <= min(seen)
        if silent and (until is None or until >= min(seen) - LOOK_US):
            not_before = min(not_before, at_us - LOOK_US)
    return bool(min(begins) < not_before)


def committed_past(case: Case, turns: list[Epoch], commits: list[Commit], stale: Collection[int] = ()) -> list[int]:
    """How far each epoch committed (-1: nothing known), by its own rows; in a group that no assign consumer commits to
    also by what was seen committed during its turn, and by where the next owner found the committed offset. What a
    fault put there is not of its making. stale: offsets of deleted topics.
    """
    result = []
    for epoch, following in zip(turns, [*turns, None][1:], strict=True):
        values = [row["offset"] for row in epoch.commits]
        place = epoch.group, epoch.topic, epoch.partition
        foreign = any(
            c.row["mode"] == "assign" and (c.row["group"], c.row["topic"], c.row["partition"]) == place for c in commits
        )
        if epoch.mode == "subscribe" and not foreign:
            until = [following.begin_us] if following else []
            until += [m.from_us for m in offset_changes(case, *place) if m.from_us >= epoch.begin_us]
            seen = sightings(case, *place)
            during = [o for at, o in seen if epoch.begin_us <= at and all(at < end for end in until)]
            values += [o for o in [max(during, default=-1)] if o not in stale]
            found = following and following.source == "committed" and not following.moved
            if found and following and following.position is not None and following.position not in stale:
                values.append(following.position)
        result.append(max(values, default=-1))
    return result


def _undelivered(
    case: Case,
    scope: Scope,
    reading: Reading,
    log: dict[int, Row],
    commits: list[Commit],
    verdict: Judgement,
) -> None:
    """A record that nobody of the reader delivered: lost_processing, skipped_delivery or stalled_delivery."""
    reader = scope[0]
    turns = reading.get(scope, [])
    begin = range_start(case, scope, reading)
    reached = reached_before(case, scope, reading) if case.range_of(*scope[1:]) else None
    passed = committed_past(case, turns, commits, reached or ())
    highest = max((o for e in turns for o in e.offsets), default=-1)  # -1: nothing was
    if turns and turns[0].start is not None and came_later(case, scope, reading):
        highest = max(highest, turns[0].start)  # what lies below will never come
    if reached is not None:
        highest = max([highest, *(e.start for e in turns if e.start is not None)])
    highest = max(highest, _gone_to(case, scope, turns))
    for offset, record in sorted(log.items()):
        if any(row["offset"] == offset and _is(row, record) for e in turns for row in e.delivered):
            continue
        if begin is None:
            verdict.undecided["stalled_delivery", reader] += 1
            continue
        if offset < begin:
            continue
        culprit = next((e for e, p in zip(turns, passed, strict=True) if _lost_it(e, p, offset)), None)
        if culprit:
            check = "lost_processing"
        elif max([highest, *passed]) > offset:
            check = "skipped_delivery"
        else:
            check = "stalled_delivery"
        if not case.facts(reader).reads(record):
            verdict.undecided[check, reader] += 1
            continue
        who = culprit.consumer if culprit else None
        verdict.findings[_finding(check, scope, offset, record_identity(record), who)] += 1


def _gone_to(case: Case, scope: Scope, turns: list[Epoch]) -> int:
    """Where the last to begin stands if it has got nothing: what lies below will never come. -1: nobody knows."""
    if not turns or turns[-1].offsets or scope[0] not in case.readers:
        return -1
    last, log = turns[-1], case.range_of(*scope[1:])
    at = last.start if last.position is None else last.position
    if at is None or (log and at > log[1] and case.facts(scope[0]).resets_to_earliest):
        return -1  # out of range: back to the begin of the log
    return at


def _lost_it(epoch: Epoch, passed: int, offset: int) -> bool:
    """It began at or before the record, delivered nothing from it on or never got it done, and committed past it."""
    behind = all(o < offset for o in epoch.offsets) or offset in epoch.unfinished
    return epoch.start is not None and epoch.start <= offset < passed and behind


def _again(scope: Scope, turns: list[Epoch], log: dict[int, Row], verdict: Judgement) -> None:
    """duplicate_delivery: each delivery of a record but the first. Legal in a later epoch that might begin there."""
    before: dict[tuple[int, Identity | None], int] = {}
    for turn, epoch in enumerate(turns):
        for row in epoch.delivered:
            offset, identity = row["offset"], delivered_identity(row)
            if identity is None and offset in log:
                identity = record_identity(log[offset])
            earlier = before.get((offset, identity))
            before[offset, identity] = turn
            if earlier is None:
                continue
            legal = epoch.legal and earlier < turn and epoch.start is not None and epoch.start <= offset
            split = "legal" if legal else "illegal"
            who = identity or (None, None, None)
            verdict.findings[_finding("duplicate_delivery", scope, offset, who, epoch.consumer, split)] += 1


def _dirty(case: Case, scope: Scope, turns: list[Epoch], log: dict[int, Row], verdict: Judgement) -> None:
    """dirty_read: the log has no such record there. It may have been evicted below the log start, or compacted away."""
    reader, topic, partition = scope
    start = case.whole_from(topic, partition)
    if topic in case.lives.ended:
        return
    for epoch in turns:
        for row in epoch.delivered:
            offset, record = row["offset"], log.get(row["offset"])
            if record is not None and _is(row, record):
                verdict.looked_at.append(("dirty_read", reader))
                continue
            if (start is not None and offset < start) or (record is None and topic in case.compacted):
                continue
            verdict.looked_at.append(("dirty_read", reader))
            if start is None:
                verdict.undecided["dirty_read", reader] += 1
                continue
            who = delivered_identity(row) or (None, row["producer_incarnation"], row["seq"])
            verdict.findings[_finding("dirty_read", scope, offset, who, epoch.consumer)] += 1


def _within_epoch(scope: Scope, epoch: Epoch, log: dict[int, Row], mixed: bool, verdict: Judgement) -> None:
    """Inside an epoch offsets increase, and leave out none that the log has between its begin and its highest."""
    for before, row in zip(epoch.delivered, [] if mixed else epoch.delivered[1:], strict=False):
        if row["offset"] <= before["offset"]:
            who = row["producer"], row["producer_incarnation"], row["seq"]
            verdict.findings[_finding("nonmonotonic_poll", scope, row["offset"], who, epoch.consumer)] += 1
    if not epoch.delivered:
        return
    first = epoch.offsets[0]
    begin = first if epoch.position is None else min(first, epoch.position)
    for offset, record in log.items():
        if begin <= offset < max(epoch.offsets) and offset not in [*epoch.offsets, *epoch.unfinished]:
            who = record_identity(record)
            verdict.findings[_finding("poll_skip", scope, offset, who, epoch.consumer)] += 1


def count_examined(case: Case, reading: Reading, verdict: Judgement) -> None:
    """How many rows each check had to look at."""
    looked = verdict.examined
    for send in case.rows["sends"]:
        if send["outcome"] == "ok":
            required = case.fate(send) in ("", "committed")
            if required and send["topic"] in case.compacted:
                looked["resurrected_key", send["topic"]] += case.is_tombstone(send)
            looked["offset_reuse", send["topic"]] += send["offset"] is not None
    for record in case.rows["log"]:
        looked["phantom_write", record["topic"]] += 1
        looked["corrupt_record", record["topic"]] += record["crc_ok"] is not None
        for check in ("duplicate_write", "reordered_write", "resurrected_write"):
            looked[check, record["topic"]] += case.is_own(record)
    for row in case.rows["deliveries"]:
        looked["offset_reuse", row["topic"]] += 1
        looked["backdated_write", row["topic"]] += delivered_identity(row) is not None and row["sent_us"] is not None
        looked["duplicate_delivery", reader_name(row)] += 1
        looked["nonmonotonic_poll", reader_name(row)] += row["topic"] not in case.lives.mixed
        looked["poll_skip", reader_name(row)] += case.range_of(row["topic"], row["partition"]) is not None
    for topic in case.lives.mixed:
        looked["offset_reuse", topic] = 0
    held = {e.key for turns in reading.values() for e in turns}
    for row in case.rows["commits"]:
        for check in ("overcommit", "commit_rewind", "expired_commit", "lost_commit"):
            looked[check, reader_name(row)] += row["outcome"] == "ok"
        looked["zombie_commit", reader_name(row)] += (
            row["outcome"] == "ok" and row["mode"] == "subscribe" and key_of(row) in held
        )
    for reader, topic, partition in places(case, reading):
        begin, facts = range_start(case, (reader, topic, partition), reading), case.facts(reader)
        for record in case.rows["log"]:
            here = (record["topic"], record["partition"]) == (topic, partition)
            due = here and facts.reads(record) and begin is not None and record["offset"] >= begin
            for check in ("skipped_delivery", "stalled_delivery"):
                looked[check, reader] += due
            looked["lost_processing", reader] += due and facts.commits
        looked["evicted_delivery", reader] = looked["skipped_delivery", reader]
    for row in verdict.looked_at:
        looked[row] += 1
    for (check, scope), number in verdict.undecided.items():
        others = "overcommit", "dirty_read", "evicted_delivery"
        if check in ("lost_write", "lost_key", "resurrected_key", "wrong_count", *others):
            looked[check, scope] -= number
