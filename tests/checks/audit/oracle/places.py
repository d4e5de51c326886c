"""Offsets that were given away twice or evicted, sends that failed, and transactions."""

from __future__ import annotations

from collections import defaultdict

from tests.checks.audit.oracle.epochs import Reading, reached_before
from tests.checks.audit.oracle.facts import Case, Finding, Judgement, Row
from tests.checks.audit.oracle.reading import Scope, came_later, delivered_identity, places, record_identity


def judge_places(case: Case, reading: Reading, verdict: Judgement) -> None:
    """The checks that ask which record was where, and who might see it."""
    _reuse(case, verdict)
    _backdated(case, verdict)
    for send in case.rows["sends"]:
        if send["outcome"] == "fail":
            _resurrected(case, send, verdict)
        if _may_be_torn(case, send):
            if not _is_gone(case, send):
                verdict.looked_at.append(("torn_transaction", send["topic"]))
            _torn(case, send, verdict)
        elif send["outcome"] == "ok" and case.fate(send) == "unknown":
            verdict.looked_at.append(("torn_transaction", send["topic"]))
            _half_visible(case, send, verdict)
    for scope in places(case, reading):
        _evicted(case, scope, reading, verdict)
        if not case.facts(scope[0]).sees_uncommitted:
            for epoch in reading.get(scope, []):
                for row in epoch.delivered:
                    _isolated(case, scope, row, verdict)


def _identity(row: Row) -> tuple[str, int, int]:
    return row["producer"], row["incarnation"], row["seq"]


def _reuse(case: Case, verdict: Judgement) -> None:
    """offset_reuse: two identities at one place, among acknowledgements, deliveries and the log."""
    seen: dict[tuple[str, int, int], set[object]] = defaultdict(set)
    for send in case.rows["sends"]:
        if send["outcome"] == "ok" and send["offset"] is not None and send["partition"] is not None:
            seen[send["topic"], send["partition"], send["offset"]].add(_identity(send))
    for row in case.rows["deliveries"]:
        if (who := delivered_identity(row)) is not None:
            seen[row["topic"], row["partition"], row["offset"]].add(who)
    for record in case.rows["log"]:
        if record["producer"] is not None:
            seen[record["topic"], record["partition"], record["offset"]].add(record_identity(record))
    for (topic, partition, offset), records in seen.items():
        if len(records) > 1 and topic not in case.lives.mixed:
            verdict.findings[Finding("offset_reuse", "", topic, topic, partition, offset)] += 1


def _backdated(case: Case, verdict: Judgement) -> None:
    """backdated_write: below one of another producer that was acknowledged before its send; delivered before that."""
    there = [s for s in case.rows["sends"] if s["outcome"] == "ok" and _is_there(case, s)]
    for send in there:
        place = send["topic"], send["partition"], send["offset"]
        if len({_identity(o)[:2] for o in there if (o["topic"], o["partition"]) == place[:2]}) > 1:
            verdict.looked_at.append(("backdated_write", send["topic"]))
        above = [o for o in there if (o["topic"], o["partition"]) == place[:2] and o["offset"] > send["offset"]]
        others = [o for o in above if _identity(o)[:2] != _identity(send)[:2]]
        if any(send["invoked_us"] > o["completed_us"] for o in others):
            verdict.findings[Finding("backdated_write", "", send["topic"], *place, *_identity(send))] += 1
    for row in case.rows["deliveries"]:
        seen_us = row["processed_us"] if row["polled_us"] is None else row["polled_us"]
        if delivered_identity(row) is not None and row["sent_us"] is not None and seen_us < row["sent_us"]:
            place = row["topic"], row["partition"], row["offset"]
            who = row["producer"], row["producer_incarnation"], row["seq"], row["consumer"]
            verdict.findings[Finding("backdated_write", "", row["topic"], *place, *who)] += 1


def _is_there(case: Case, send: Row) -> bool:
    """Whether the log has the record where it was acknowledged, in a topic that still exists."""
    if send["offset"] is None or send["partition"] is None or send["topic"] in case.lives.mixed | case.lives.ended:
        return False
    here = [r for r in case.rows["log"] if all(r[n] == send[n] for n in ("topic", "partition", "offset"))]
    return any(_identity(r) == _identity(send) for r in here)


def _copies(case: Case, send: Row) -> list[Row]:
    return [r for r in case.rows["log"] if case.is_own(r) and _identity(r) == _identity(send)]


def _resurrected(case: Case, send: Row, verdict: Judgement) -> None:
    """resurrected_write: it definitely failed, is there, and no other send of it explains that."""
    others = [s for s in case.rows["sends"] if _identity(s) == _identity(send) and s["outcome"] != "fail"]
    copies = sorted(_copies(case, send), key=lambda r: (r["offset"], r["partition"], r["timestamp_us"]))
    if others or not copies:
        return
    seen = [r for r in copies if r["committed"] is True]
    if not case.fate(send) or seen:
        at = (seen or copies)[0]
        place = at["topic"], at["partition"], at["offset"]
        verdict.findings[Finding("resurrected_write", "", send["topic"], *place, *_identity(send))] += 1
    elif any(r["committed"] is None for r in copies):
        verdict.undecided["resurrected_write", send["topic"]] += 1


def _may_be_torn(case: Case, send: Row) -> bool:
    """Acknowledged in a transaction of known end, or perhaps written late in an aborted one, and never sent again."""
    again = [s for s in case.rows["sends"] if _identity(s) == _identity(send)]
    if send["outcome"] == "unknown":
        return case.fate(send) == "aborted" and len(again) == 1
    return send["outcome"] == "ok" and case.fate(send) in ("committed", "aborted")


def _is_gone(case: Case, send: Row) -> bool:
    """Whether it is not in the log because it was deleted or compacted, or its topic was deleted."""
    if send["topic"] in case.lives.ended:
        return True
    start = case.whole_from(send["topic"], send["partition"])
    evicted = start is not None and send["offset"] is not None and send["offset"] < start
    return not _copies(case, send) and (evicted or send["topic"] in case.compacted)


def _half_visible(case: Case, send: Row, verdict: Judgement) -> None:
    """torn_transaction: nobody learned the end, another acknowledged record of it is visible, and this one is not."""
    whole = [s for s in case.rows["sends"] if all(s[n] == send[n] for n in ("producer", "incarnation", "txn"))]
    acked = [s for s in whole if s["outcome"] == "ok" and s["topic"] not in case.lives.ended]
    if any(True in _seen(case, s) for s in acked) and True not in _seen(case, send):
        _torn(case, send, verdict, committed=True)


def _seen(case: Case, send: Row) -> set[bool | None]:
    """Whether its copies are visible: the one at its place; any, if none is there and it was sent once."""
    again = [s for s in case.rows["sends"] if _identity(s) == _identity(send)]
    copies = _copies(case, send)
    here = [r for r in copies if all(r[n] == send[n] for n in ("topic", "partition", "offset"))]
    return {r["committed"] for r in here or (copies if len(again) == 1 else [])}


def _torn(case: Case, send: Row, verdict: Judgement, committed: bool = False) -> None:
    """torn_transaction: visible though aborted; hidden, or gone without having been evicted, though committed."""
    if send["topic"] in case.lives.ended:
        return
    place = send["topic"], send["partition"], send["offset"]
    copies = _copies(case, send)
    copies = [r for r in copies if (r["topic"], r["partition"], r["offset"]) == place] or copies
    if committed and not _seen(case, send):
        copies = []
    visible = {r["committed"] for r in copies}
    start = case.whole_from(send["topic"], send["partition"])
    if None in visible and True not in visible:
        wrong = None
    elif case.fate(send) == "aborted" and not committed:
        wrong = True in visible
    elif copies:
        wrong = True not in visible
    elif send["topic"] in case.compacted or (
        start is not None and send["offset"] is not None and send["offset"] < start
    ):
        wrong = False
    else:
        found = [(r["topic"], r["partition"]) for r in case.rows["log_range"]]
        starts = [case.whole_from(*one) or 0 for one in found if one[0] == send["topic"]]
        unread = not starts or (send["partition"] is not None and start is None)
        cut = (max(starts, default=0) if start is None else start) > 0
        unclear = unread or (send["offset"] is None and cut)
        wrong = None if unclear else True
    if wrong is None:
        verdict.undecided["torn_transaction", send["topic"]] += 1
    elif wrong:
        verdict.findings[Finding("torn_transaction", "", send["topic"], *place, *_identity(send))] += 1


def _evicted(case: Case, scope: Scope, reading: Reading, verdict: Judgement) -> None:
    """evicted_delivery: acknowledged below the log start, at or above where the reader began, never delivered there."""
    reader, topic, partition = scope
    start = case.whole_from(topic, partition)
    if start is None:
        return
    turns = reading.get(scope, [])
    delivered = {row["offset"] for e in turns for row in e.delivered}
    begun = turns[0].position if turns and turns[0].position is not None else min(delivered, default=None)
    begun = 0 if came_later(case, scope, reading) or reached_before(case, scope, reading) is not None else begun
    all_of_them = case.facts(reader).sees_uncommitted
    acknowledged: dict[int, list[Row]] = defaultdict(list)
    for send in case.rows["sends"]:
        here = (send["topic"], send["partition"]) == (topic, partition)
        owed = all_of_them or case.fate(send) != "aborted"
        if send["outcome"] == "ok" and here and owed and send["offset"] is not None:
            acknowledged[send["offset"]].append(send)
    for offset, sends in acknowledged.items():
        if not (begun or 0) <= offset < start:
            continue
        verdict.looked_at.append(("evicted_delivery", reader))
        if offset in delivered:
            continue
        send = min(sends, key=_identity)
        if begun is None or (case.fate(send) == "unknown" and not all_of_them):
            verdict.undecided["evicted_delivery", reader] += 1
        else:
            place = topic, partition, offset
            verdict.findings[Finding("evicted_delivery", "", reader, *place, *_identity(send))] += 1


def _isolated(case: Case, scope: Scope, row: Row, verdict: Judgement) -> None:
    """aborted_read and precommitted_read: of a reader that must see committed records only."""
    reader, topic, partition = scope
    who, place = delivered_identity(row), (topic, partition, row["offset"])
    here = [r for r in case.rows["log"] if (r["topic"], r["partition"], r["offset"]) == place]
    hidden = any(r["committed"] is False and who in (None, record_identity(r)) for r in here)
    sends = [
        s
        for s in case.rows["sends"]
        if s["outcome"] == "ok" and _identity(s) == who and (s["topic"], s["partition"], s["offset"]) == place
    ]
    send = min(sends, key=lambda s: ["", "committed", "aborted", "unknown"].index(case.fate(s)), default=None)
    fate = case.fate(send) if send else ""
    if fate or hidden:
        verdict.looked_at.append(("aborted_read", reader))
    identity = who or (None, row["producer_incarnation"], row["seq"])
    if hidden or fate == "aborted":
        verdict.findings[Finding("aborted_read", "", reader, *place, *identity, row["consumer"])] += 1
    elif send and fate and row["polled_us"] is not None:
        verdict.looked_at.append(("precommitted_read", reader))
        key = "producer", "incarnation", "txn"
        same = [s for s in case.rows["sends"] if all(s[k] == send[k] for k in key)]
        ends = [t for t in case.rows["transactions"] if all(t[k] == send[k] for k in key)]
        known = [t["requested_us"] for t in ends if t.get("requested_us") is not None]
        possible = max(s["invoked_us"] for s in same)
        if len(known) == len(ends):
            possible = max(possible, min(known, default=0))
        if row["polled_us"] >= possible:
            unsure = len(known) < len(ends) and row["polled_us"] < max(t["ended_us"] for t in ends)
            verdict.undecided["precommitted_read", reader] += unsure
        else:
            verdict.findings[Finding("precommitted_read", "", reader, *place, *identity, row["consumer"])] += 1
