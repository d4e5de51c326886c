"""The write path: acknowledged, in the log, and in which order."""

from __future__ import annotations

import json
from collections import defaultdict

from tests.checks.audit.oracle.facts import Case, Finding, Judgement, Row


def judge_writing(case: Case, verdict: Judgement) -> None:
    """All checks that are counted per topic."""
    _acknowledged(case, verdict)
    _copies(case, verdict)
    _order(case, verdict)
    _strangers(case, verdict)
    for record in case.rows["log"]:
        if record["crc_ok"] is False:
            verdict.findings[_finding("corrupt_record", record)] += 1
        if case.is_own(record) and (_overdue(case, record) or _superseded(case, record)):
            verdict.findings[_finding("overdue_record", record)] += 1
        if any(_deletes_from(case, fault, record["topic"]) for fault in case.rows["faults"]):
            verdict.looked_at.append(("returned_record", record["topic"]))
        if any(_deleted(case, fault, record) for fault in case.rows["faults"]):
            verdict.findings[_finding("returned_record", record)] += 1


BUCKET_US = 250_000
CLEANED_US = 40_000_000
"""The time between two looks of the cleaner, for its work, and by which it may be late."""


def _superseded(case: Case, row: Row) -> bool:
    """Whether compaction should have removed a record: a later one of its key is in a segment that was due, too."""
    topic, partition = row["topic"], row["partition"]
    read_us = case.read_at(topic, partition, "read_from_us")
    if topic not in case.compacts or topic in case.lives.of or read_us is None or row["offset"] is None:
        return False
    lag_us, segment_us, segment_records = case.compacts[topic]
    old_us = read_us - CLEANED_US - lag_us
    acked = [s for s in case.rows["sends"] if s["outcome"] == "ok" and s["offset"] is not None]
    acked = [s for s in acked if (s["topic"], s["partition"]) == (topic, partition)]

    def reached(at_us: int) -> int:
        ends = [s["offset"] + 1 for s in acked if (s["completed_us"] // BUCKET_US + 1) * BUCKET_US <= at_us]
        return max(ends, default=0)

    later = reached(read_us - CLEANED_US) > reached(old_us)
    due = max(reached(old_us) - segment_records, reached(old_us - segment_us - 10_000_000) if later else 0)
    seen = [r for r in case.rows["log"] if (r["topic"], r["partition"], r["committed"]) == (topic, partition, True)]
    keyed = [o for o in [*acked, *seen] if o["key"] is not None and o["key"] == row["key"]]
    return any(row["offset"] < o["offset"] < due for o in keyed)


def _protected(case: Case, send: Row) -> bool:
    """Whether compaction had to leave a record until the log had been read back."""
    read_us = case.read_at(send["topic"], send["partition"])
    young = read_us is not None and read_us - send["invoked_us"] < case.protects[send["topic"]] - 10_000_000
    return young and case.protects[send["topic"]] > 0


def _overdue(case: Case, record: Row) -> bool:
    """Whether retention should have deleted a record: the last one of its segment was too old at the last check."""
    topic, partition = record["topic"], record["partition"]
    read_us, place = case.read_at(topic, partition, "read_from_us"), case.range_of(topic, partition)
    if topic not in case.keeps or topic in case.lives.of or read_us is None or place is None:
        return False
    kept_us, segment_us, segment_records = case.keeps[topic]
    old_us = read_us - case.check_us - kept_us
    sends = [s for s in case.rows["sends"] if s["outcome"] == "ok" and s["offset"] is not None]
    acked = [s for s in sends if (s["topic"], s["partition"]) == (topic, partition)]

    def reached(at_us: int) -> int:
        """The offset after the last record that was certainly there by then."""
        return max(
            (s["offset"] + 1 for s in acked if (s["completed_us"] // BUCKET_US + 1) * BUCKET_US <= at_us), default=0
        )

    end = max((s["offset"] + 1 for s in acked), default=0)
    if end == place[1] and all((s["completed_us"] // BUCKET_US + 1) * BUCKET_US <= old_us for s in acked):
        return bool(acked)
    return bool(record["offset"] + segment_records < reached(old_us) or record["offset"] < reached(old_us - segment_us))


def _deletes_from(case: Case, fault: Row, topic: str) -> dict[str, int]:
    """By partition the offset below which a fault surely deleted the records of a topic."""
    if (fault["kind"], fault["phase"]) != ("topic.delete_records", "proven"):
        return {}
    lives = case.lives.of.get(topic)
    if lives and lives[-1].alone_since > fault["at_us"]:
        return {}  # records of an earlier topic
    starts = json.loads(fault["evidence"] or "{}").get("log_starts", {})
    return {place: below for place, below in starts.items() if place.rpartition("/")[0] == topic}


def _deleted(case: Case, fault: Row, record: Row) -> bool:
    """Whether a fault deleted the records of the partition up to here, and this one was there by then."""
    below = _deletes_from(case, fault, record["topic"]).get(f"{record['topic']}/{record['partition']}", 0)
    return bool(record["offset"] < below and 0 <= (record["timestamp_us"] or -1) < fault["at_us"])


def _finding(check: str, row: Row) -> Finding:
    topic, partition, offset = row["topic"], row["partition"], row["offset"]
    return Finding(check, "", topic, topic, partition, offset, row["producer"], row["incarnation"], row["seq"])


def _acknowledged(case: Case, verdict: Judgement) -> None:
    """lost_write and misplaced_write: each `ok` against the records that the same incarnation wrote of that seq."""
    for send in case.rows["sends"]:
        located = send["outcome"] == "ok" and send["offset"] is not None
        limits = (_overdue(case, send), _superseded(case, send)) if located else ()
        for _ in range(sum(limits)):
            verdict.looked_at.append(("overdue_record", send["topic"]))
        if send["outcome"] != "ok" or send["topic"] in case.lives.ended:
            continue  # what a deleted topic held is gone by order
        found = [r for r in case.rows["log"] if case.is_own(r) and _identity(r) == _identity(send)]
        if found and send["offset"] is not None:
            verdict.looked_at.append(("misplaced_write", send["topic"]))
        check = "lost_key" if send["topic"] in case.compacted else "lost_write"
        if case.fate(send) in ("aborted", "unknown"):
            if not found:
                continue
        elif found or _fate(case, send) != "evicted":
            verdict.looked_at.append((check, send["topic"]))
        if not found and send["topic"] in case.compacted:
            _of_its_key(case, send, verdict)
        elif not found:
            fate = _fate(case, send)
            if fate == "lost":
                verdict.findings[_finding("lost_write", send)] += 1
            elif fate == "undecided":
                verdict.undecided["lost_write", send["topic"]] += 1
        elif send["offset"] is not None and not any(_is_where_acknowledged(r, send) for r in found):
            verdict.findings[_finding("misplaced_write", send)] += 1


def _identity(row: Row) -> tuple[str, int, int]:
    return row["producer"], row["incarnation"], row["seq"]


def _is_where_acknowledged(record: Row, send: Row) -> bool:
    if (record["topic"], record["offset"]) != (send["topic"], send["offset"]):
        return False
    return send["partition"] is None or record["partition"] == send["partition"]


def _fate(case: Case, send: Row) -> str:
    """What may have become of an acknowledged record that the log lacks: evicted, lost, or nobody can say."""
    topic = send["topic"]
    places = [(r["topic"], r["partition"]) for r in case.rows["log_range"]]
    starts = [case.whole_from(*place) or 0 for place in places if place[0] == topic]
    if not starts:
        return "undecided"
    start = case.whole_from(topic, send["partition"])
    if send["partition"] is not None and start is None:
        return "undecided"
    if send["offset"] is not None and start is not None and send["offset"] < start:
        return "evicted"
    if send["offset"] is None and (max(starts) if start is None else start) > 0:
        return "undecided"
    return "lost"


def _of_its_key(case: Case, send: Row, verdict: Judgement) -> None:
    """lost_key: nothing of its key came after it in its partition, neither acknowledged nor in the log."""
    start = case.whole_from(send["topic"], send["partition"])
    if start is None or None in (send["offset"], send["key"]):
        verdict.undecided["lost_key", send["topic"]] += 1
        return
    if send["offset"] < start:
        return
    place = send["topic"], send["partition"]
    sends = [s for s in case.rows["sends"] if s["outcome"] == "ok" and s["offset"] is not None]
    sends = [s for s in sends if (s["topic"], s["partition"]) == place and s["offset"] > send["offset"]]
    log = [r for r in case.rows["log"] if (r["topic"], r["partition"]) == place and r["offset"] > send["offset"]]
    fates = {case.fate(s) for s in sends if s["key"] == send["key"]}
    seen = {r["committed"] for r in log if r["key"] == send["key"]}
    if fates & {"", "committed"} or True in seen:
        if _protected(case, send):
            verdict.findings[_finding("lost_key", send)] += 1
        return
    fate = "lost_key"
    if "unknown" in fates or None in seen or any(r["key"] is None for r in log):
        fate = "undecided"
    elif case.is_tombstone(send):
        fate = _of_tombstone(case, send)
    elif _perhaps_deleted(case, send):
        fate = "undecided"
    undecided = {
        "undecided": ["lost_key"],
        "missed": ["resurrected_key"],
        "unclear": ["lost_key", "resurrected_key"],
    }
    if fate in undecided:
        for check in undecided[fate]:
            verdict.undecided[check, send["topic"]] += 1
    elif fate != "expired":
        verdict.findings[_finding(fate, send)] += 1


def _of_tombstone(case: Case, send: Row) -> str:
    """What became of a tombstone that is gone and that nothing of its key came after."""
    place = send["topic"], send["partition"], send["key"]
    values = [r for r in case.rows["log"] if (r["topic"], r["partition"], r["key"]) == place and not r["tombstone"]]
    if any(r["committed"] is True for r in values):
        return "resurrected_key" if _too_early(case, send) or _read_fast(case, send) else "missed"
    if any(r["committed"] is None for r in values):
        return "unclear"
    return {None: "undecided", True: "lost_key", False: "expired"}[_too_early(case, send)]


def _read_fast(case: Case, send: Row) -> bool:
    """Whether nothing can have expired while the partition was read, from its first record to its last."""
    place, held_us = (send["topic"], send["partition"]), case.tombstones_held_us[send["topic"]]
    begin_us, end_us = case.read_at(*place, "read_from_us"), case.read_at(*place)
    return begin_us is not None and end_us is not None and end_us - begin_us < held_us


def _perhaps_deleted(case: Case, send: Row) -> bool:
    """Whether a tombstone of the key with an unknown offset may have come after it and expired since."""
    if send["topic"] not in case.tombstones_held_us or _too_early(case, send):
        return False
    for other in case.rows["sends"]:
        same = (other["topic"], other["key"]) == (send["topic"], send["key"]) and case.is_tombstone(other)
        if same and (other["outcome"] == "unknown" or (other["outcome"] == "ok" and other["offset"] is None)):
            return True
    return send["topic"] in case.torn_tombstones()


def _too_early(case: Case, send: Row) -> bool | None:
    """Whether no tombstone sent from here on can have been removed before the log was read; None if nobody knows."""
    read_us = case.read_at(send["topic"], send["partition"])
    return None if read_us is None else read_us - send["invoked_us"] < case.tombstones_held_us[send["topic"]]


def _copies(case: Case, verdict: Judgement) -> None:
    """duplicate_write, of what read_committed readers see: every record of one (producer, seq) but the
    earliest, whatever its incarnation."""
    copies: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for record in case.rows["log"]:
        if case.is_own(record) and record["committed"] is not False:
            copies[record["producer"], record["seq"]].append(record)
    for same in copies.values():
        same.sort(key=lambda r: (r["timestamp_us"], r["topic"], r["partition"], r["offset"], r["incarnation"]))
        for record in same[1:]:
            verdict.findings[_finding("duplicate_write", record)] += 1


def _order(case: Case, verdict: Judgement) -> None:
    """reordered_write: behind a higher seq of the same incarnation, and not a mere copy of one that was in order."""
    walked: dict[tuple[str, int, str, int], list[int]] = defaultdict(list)
    for record in sorted(case.rows["log"], key=lambda r: r["offset"]):
        if case.is_own(record):
            before = walked[record["topic"], record["partition"], record["producer"], record["incarnation"]]
            if record["seq"] < max(before, default=-1) and record["seq"] not in before:
                verdict.findings[_finding("reordered_write", record)] += 1
            before.append(record["seq"])


def _strangers(case: Case, verdict: Judgement) -> None:
    """phantom_write: not of this run, or of an incarnation that has no row for it although none of its rows is missing.

    The rows of an incarnation that crashed, or without a recorded end, may have died with it.
    """
    sent = {_identity(send) for send in case.rows["sends"]}
    ends = producer_ends(case)
    for record in case.rows["log"]:
        unsent = case.is_own(record) and _identity(record) not in sent
        everything_on_record = ends.get((record["producer"], record["incarnation"]), "never lived") in (
            "never lived",
            "stopped",
        )
        if not case.is_own(record) or (unsent and everything_on_record):
            verdict.findings[_finding("phantom_write", record)] += 1


def producer_ends(case: Case) -> dict[tuple[str, int], str]:
    """How each incarnation of a producer ended: crashed, stopped, or "" if neither was seen."""
    events: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in case.rows["lifecycle"]:
        if row["role"] == "producer":
            events[row["client"], row["incarnation"]].add(row["event"])
    return {
        life: "crashed" if "crashed" in seen else "stopped" if "stopped" in seen else ""
        for life, seen in events.items()
    }
