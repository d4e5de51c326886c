"""What the log cleaner and retention remove and keep: lost_key, resurrected_key, overdue_record.

The log cleaner may remove a record once a later one with its key is in the log. It cleans below the last stable offset
only, and takes no notice of records of aborted transactions (`LogCleanerManager.cleanableOffsets` and
`Cleaner.buildOffsetMap` in Apache Kafka; "Log Compaction" in its documentation). When it cleans depends on settings and
load, so lost_key expects nothing of the time but what min.compaction.lag.ms promises; see `ahead_by`.

A tombstone, a record without a value, deletes its key. The cleaner removes it delete.retention.ms after the first pass
over it (KIP-534), which has removed the earlier values. A reader that takes longer than that to reach the end may get
an earlier value and not its tombstone (`delete.retention.ms` in the documentation of Apache Kafka); so may the
read-back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaos.scenario import retention
from chaos.scenario.cluster_rules import clock_faults, stamped_topics
from chaos.scenario.model import Scenario
from chaos.setup.timestamps import described, span
from checks.audit.arrays import NONE, Columns, Ints, Mask, nullable
from checks.audit.engine.blocks import OK
from checks.audit.engine.counters import EVICTED, EXPIRED, SUPERSEDED
from checks.audit.engine.group import sections
from checks.audit.engine.keys import KeyBlock
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.readers import entry_of
from checks.audit.facts.retention import SLACK_US, Overdue
from checks.audit.facts.run_facts import COMMITTED, NO_TXN, UNKNOWN_END
from checks.audit.findings import CAP, NO_END, OPEN, UNREAD, Finding, Reason
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import TOPICS, Evidence, Rule, RunData, moved_start, present

NO_PLACE = Reason(
    "they were acknowledged without an offset or have no key, so their place among the records of their key is unknown",
    "use acks other than 0",
)
NO_KEYS = Reason("records in the log without a known key may supersede them")
READ_WHEN = Reason("the ledger does not say when the log was read back")
PERHAPS_DELETED = Reason(
    "a tombstone of unknown offset, or one without a row, may have deleted their key and expired since",
    "set delete.retention.ms of the topic beyond the end of the run",
)
EXPIRED_MEANWHILE = Reason(
    "their tombstones may have expired while the log was read back",
    "set delete.retention.ms of the topic above the time that reading it back takes",
)
PERHAPS_LATE = Reason(
    "their time is over, and a fault left a broker, by which retention goes, with a wrong clock",
    "heal the fault, and continue for longer than retention.ms and log.retention.check.interval.ms",
)
COMPACTED_WHEN = Reason(
    "compaction removed them before min.compaction.lag.ms was over, and a fault changed a clock by which it waits",
    "leave the fault out",
)

DUE = total("due")
"""Acknowledged records that retention or compaction should have removed before the log was read back, by topic."""


def overdue_record(b: ProducerBlock, tally: Tally) -> None:
    """Report records in the log that the settings of their topic should have deleted; see `facts.retention.Overdue`.

    Undecided if a broker may have had a wrong clock until the log was read back.
    """
    if not b.facts.overdue:
        return
    sends = b.all_sends
    acked = np.flatnonzero((sends["outcome"] == OK) & (sends["offset"] != NONE))
    for (number, partition), rows in sections(sends["topic"][acked], sends["partition"][acked]):
        if found := b.facts.overdue.get((b.topic(number), int(partition))):
            due = sends["offset"][acked[rows.index]] < found.below
            tally.add(DUE, b.topic(number), value=int(due.sum()))
    appends = b.all_appends
    for (number, partition), rows in sections(appends["topic"], appends["partition"]):
        topic = b.topic(number)
        found = b.facts.overdue.get((topic, int(partition)))
        if found is None:
            continue
        late: Ints = rows.index[appends["offset"][rows.index] < found.below]
        if found.unsure:
            tally.report_undecided("overdue_record", topic, len(late), PERHAPS_LATE)
        else:
            b.report("overdue_record", appends, late, lambda i: _overdue(b, i), tally)


def overdue_value(b: KeyBlock, tally: Tally) -> None:
    """Report superseded records in the log that compaction should have removed, as overdue_record.

    Those are superseded that have a later record of their key below the offset up to which every segment was due.
    """
    below = {number: found for (topic, number), found in b.facts.uncompacted.items() if topic == b.topic}
    if not below:
        return
    acks, log = b.acks, b.log
    until = b.latest(_below(acks, below), _below(log, below) & (log["committed"] == 1))
    due = acks["offset"] < until[b.ack_group]
    tally.add(DUE, b.topic, value=int((due & (acks["offset"] != NONE)).sum()))
    rows = np.flatnonzero((log["offset"] < until[b.log_group]) & b.facts.named[log["sender"]])
    if any(found.unsure for found in below.values()):
        tally.report_undecided("overdue_record", b.topic, len(rows), PERHAPS_LATE)
        return
    order = np.lexsort((log["offset"][rows], log["partition"][rows]))
    shown = (_superseded(b, i, int(until[b.log_group[i]])) for i in rows[order[:CAP]].tolist())
    tally.report("overdue_record", b.topic, len(rows), shown)


def _below(side: Columns, ends: dict[int, Overdue]) -> Mask:
    """Return the rows with an offset below the given offset of their partition, and a known key."""
    found: Mask = np.zeros(len(side["offset"]), np.bool_)
    for partition, end in ends.items():
        found |= (side["partition"] == partition) & (side["offset"] < end.below)
    found &= (side["offset"] != NONE) & (side["key"] != NONE)
    return found


def _superseded(b: KeyBlock, i: int, by: int) -> dict[str, Any]:
    producer, incarnation = b.facts.senders[int(b.log["sender"][i])]
    partition = int(b.log["partition"][i])
    read_us, _ = b.facts.read_us[b.topic, partition]
    where = {"topic": b.topic, "partition": partition, "offset": int(b.log["offset"][i])}
    who = {"producer": producer, "incarnation": incarnation, "seq": nullable(b.log["seq"][i])}
    evidence = {"key": b.text.get(int(b.log["key"][i])), "superseded_by": by, "read_us": read_us}
    return where | who | {"at_us": read_us, "evidence": evidence}


def _overdue(b: ProducerBlock, i: int) -> dict[str, Any]:
    appends, sends = b.all_appends, b.all_sends
    same = (sends["seq"] == appends["seq"][i]) & (sends["incarnation"] == appends["incarnation"][i])
    row = int(np.flatnonzero(same)[0]) if same.any() else None
    topic, partition = b.topic(int(appends["topic"][i])), int(appends["partition"][i])
    read_us, _ = b.facts.read_us[topic, partition]
    done_us = None if row is None else int(sends["completed_us"][row])
    evidence = {"timestamp_us": int(appends["timestamp_us"][i]), "completed_us": done_us, "read_us": read_us}
    evidence["log_start"], _ = b.facts.log_ranges[topic, partition]
    return b.record(appends, i, at_us=read_us, evidence=evidence)


def _explain_overdue(f: Finding, e: Evidence, c: RunData) -> str:
    by = e.get("superseded_by")
    kept = c.scenario.kept(f["topic"]) if by is None else c.scenario.superseded(f["topic"])
    cause = ahead_by(c.scenario, f["topic"], by is not None)
    since = f"{'retention.ms' if by is None else 'max.compaction.lag.ms'}={kept.retention_ms} is over" if kept else ""
    since += "" if by is None else f", and offset {by} has a later record of key {e.get('key')}"
    return f"{since}, and {cause}" if cause else f"{since}, and neither timestamps nor clocks explain it"


def ahead_by(scenario: Scenario, topic: str, compacts: bool = False) -> str:
    """Return why Kafka keeps records of a topic for too long, as a clause; empty if nothing explains it."""
    wrong = [f for f in clock_faults(scenario.faults) if f.client is None]
    if wrong:
        stamped = ", which stamp the records" if topic in stamped_topics(scenario, scenario.faults) else ""
        return f"{', '.join(f.name for f in wrong)} changed clocks of brokers{stamped}"
    run_s = scenario.limits.drive
    shifts = retention.shifts_s(scenario, scenario.faults, topic, run_s)
    causes = [_shifted(scenario, name, most_s) for name, (_, most_s) in sorted(shifts.items()) if most_s]
    if not causes:
        return ""
    how = "Kafka deletes a segment by its largest timestamp, the oldest segment first"
    how = "Kafka compacts a log when the first timestamp of a segment is old enough" if compacts else how
    return f"{how}: {'; '.join(causes)}"


def behind_by(scenario: Scenario, client: str, topic: str) -> str:
    """Return why retention deletes records of a client before their time, as a clause; empty if it does not."""
    run_ms = round(1_000 * scenario.limits.drive)
    if topic in retention.due_topics(scenario, scenario.faults, run_ms):
        return ""
    if (entry := entry_of(client)) not in retention.backdated(scenario, scenario.faults, topic, run_ms):
        return ""
    least_s, _ = retention.shifts_s(scenario, scenario.faults, topic, scenario.limits.drive)[entry]
    return f"retention goes by timestamps: {_shifted(scenario, entry, least_s)}"


def _shifted(scenario: Scenario, entry: str, ahead_s: float) -> str:
    """Return by what the timestamps of an entry differ from the time."""
    own = next((p.timestamps for p in scenario.producers if p.name == entry and p.timestamps is not None), None)
    if own is not None:
        return f"{entry} sets them, and {described(own)}"
    faults = ", ".join(f.name for f in clock_faults(scenario.faults) if f.client == entry)
    return f"the timestamps of {entry} are up to {span(ahead_s)} ({faults} changed its clock)"


def _due_topics(scenario: Scenario) -> set[str]:
    """Return the topics with records that may be due before a run ends."""
    run_ms = 1_000 * (scenario.limits.drive + scenario.limits.drain + scenario.limits.clients)
    kept = [(t.name, limit(t.name)) for t in scenario.topics for limit in (scenario.kept, scenario.superseded)]
    return {name for name, found in kept if found and found.retention_ms + found.check_ms <= run_ms}


KEYED = total("keyed")
"""Acknowledged records of compacted topics, by topic."""
DELETED = total("deleted_keys")
"""Acknowledged tombstones, by topic."""


def lost_key(b: KeyBlock, tally: Tally) -> None:
    """Report acknowledged records of a compacted topic that the log has lost and no later record supersedes.

    A record is superseded by a record of its key at a higher offset of its partition that is visible in the log or was
    acknowledged; of several lost records of a key, only the last one is reported. A later record of unknown outcome
    supersedes it only if it is in the log: the cleaner removes nothing for a record that is not. Undecided without
    an acknowledged offset or key, in a partition that was not read back, or if only a record of unknown visibility or
    unknown key may supersede it. Evicted records are counted apart. A record of an aborted transaction, or of one
    without a known end, need not be in the log.

    A tombstone that is absent without a later record is a `resurrected_key` if an earlier value of its key is in the
    log, whatever removed it. That is undecided if the tombstone may have expired while the log was read: if it took
    delete.retention.ms to read its partition, or an unknown time. Otherwise, it expired if delete.retention.ms had
    passed between its send and the end of the read-back; the log does not show whether it was lost before. If not, its
    key is lost. Undecided if the time of the read-back is unknown, or, as resurrected_key then is, if only a record
    of unknown visibility may be an earlier value.

    A superseded record is lost too if it was younger than min.compaction.lag.ms when the log had been read back.
    Undecided if a broker may have had a wrong clock.

    A value may be absent because of a tombstone that has expired. If the tombstone was acknowledged, it supersedes the
    value. If its outcome or offset is unknown, or if its row may have died with its producer, the value is
    undecided.
    """
    a, log = b.acks, b.log
    required = (a["end"] == NO_TXN) | (a["end"] == COMMITTED)
    tally.add(KEYED, b.topic, value=int(required.sum()))
    tally.add(DELETED, b.topic, value=int((required & (a["tombstone"] == 1)).sum()))
    absent = np.flatnonzero(required & ~b.in_log())
    if not len(absent):
        return
    located = (a["offset"] != NONE) & (a["partition"] != NONE) & (a["key"] != NONE)
    known = log["key"] != NONE
    sure = b.latest(required & located, known & (log["committed"] == 1))
    unsure = b.latest(located & (a["end"] == UNKNOWN_END), known & (log["committed"] == NONE))
    offset, group = a["offset"][absent], b.ack_group[absent]
    fate = np.full(len(absent), _LOST)
    fate[unsure[group] > offset] = _NO_END
    for (partition,), rows in sections(a["partition"][absent]):
        at = rows.index
        nameless = log["offset"][~known & (log["partition"] == partition)]
        fate[at[offset[at] < nameless.max(initial=NONE)]] = _NO_KEYS
    fate[sure[group] > offset] = _SUPERSEDED
    for (partition,), rows in sections(a["partition"][absent]):
        at, start = rows.index, b.facts.due_starts.get((b.topic, partition))
        if start is None:
            fate[at] = _UNREAD
        else:
            gone = at[offset[at] < start]
            fate[gone[_explained(b, absent[gone], int(partition))]] = _EVICTED
    fate[~located[absent]] = _NO_PLACE
    _judge_protected(b, absent, fate)
    _judge_tombstones(b, absent, fate)
    _judge_deleted(b, absent, fate)
    tally.add(EVICTED, b.topic, value=int((fate == _EVICTED).sum()))
    tally.add(SUPERSEDED, b.topic, value=int((fate == _SUPERSEDED).sum()))
    for kind, (checks, reason) in _UNDECIDED.items():
        for check in checks:
            tally.report_undecided(check, b.topic, int((fate == kind).sum()), reason)
    tally.add(EXPIRED, b.topic, value=int((fate == _EXPIRED).sum()))
    for check, kinds in (("lost_key", (_LOST, _EARLY)), ("resurrected_key", (_RESURRECTED,))):
        found = absent[np.isin(fate, kinds)]
        early = set(absent[fate == _EARLY].tolist())
        order = np.lexsort([a[n][found] for n in ("seq", "sender", "offset", "partition")])
        shown = (_shown(b, i, i in early) for i in found[order[:CAP]].tolist())
        tally.report(check, b.topic, len(found), shown)


def _explained(b: KeyBlock, rows: Ints, partition: int) -> Mask:
    """Return which acknowledged records of a partition, from before its log start, retention or a fault may delete."""
    own = b.facts.backdated.get(b.topic)
    found = np.full(len(rows), own is None)
    if own is not None:
        found |= b.acks["offset"][rows] < own.ordered[partition]
        for (sender,), section in sections(b.acks["sender"][rows]):
            name, _ = b.facts.senders[int(sender)]
            times = (section.ints(b.acks[column][rows]) for column in ("invoked_us", "completed_us"))
            found[section.index] |= own.explains(name or "", *times)
    return found


def _judge_protected(b: KeyBlock, absent: Ints, fate: Ints) -> None:
    """Set the fate of superseded records that compaction had to keep until the end of the read-back."""
    protected_us = b.facts.protected_us.get(b.topic, 0)
    for (partition,), section in sections(b.acks["partition"][absent]):
        _, read_us = b.facts.read_us.get((b.topic, int(partition)), (None, None))
        if read_us is not None:
            rows = section.index
            kept = read_us - b.acks["invoked_us"][absent[rows]] < protected_us - SLACK_US
            fate[rows[kept & (fate[rows] == _SUPERSEDED)]] = _PERHAPS_EARLY if b.facts.skewed else _EARLY


def _judge_tombstones(b: KeyBlock, absent: Ints, fate: Ints) -> None:
    """Set the fate of the tombstones among absent records that nothing supersedes."""
    of_tombstones = np.flatnonzero((b.acks["tombstone"][absent] == 1) & (fate == _LOST))
    if not len(of_tombstones):
        return
    log, nothing = b.log, np.zeros(len(b.acks["key"]), np.bool_)
    value = (log["key"] != NONE) & (log["tombstone"] != 1)
    seen, unclear = (b.latest(nothing, value & (log["committed"] == visible)) for visible in (1, NONE))
    rows = absent[of_tombstones]
    group, held = b.ack_group[rows], _held(b, rows)
    judged = np.array([_EXPIRED, _LOST, _READ_WHEN])[held]
    judged[unclear[group] != NONE] = _UNCLEAR
    there = seen[group] != NONE
    judged[there] = np.where((held == 1) | _read_in_time(b, rows), _RESURRECTED, _MISSED)[there]
    fate[of_tombstones] = judged


def _judge_deleted(b: KeyBlock, absent: Ints, fate: Ints) -> None:
    """Set the fate of lost values that a tombstone may have superseded that has no acknowledged offset and expired."""
    lost = np.flatnonzero((b.acks["tombstone"][absent] != 1) & (fate == _LOST))
    if len(lost) and b.topic in b.facts.delete_retention_us:
        rows = absent[lost]
        unplaced = np.isin(b.acks["key"][rows], b.unplaced) | (b.topic in b.facts.torn_tombstones)
        fate[lost[unplaced & (_held(b, rows) != 1)]] = _PERHAPS_DELETED


def _held(b: KeyBlock, rows: Ints) -> Ints:
    """Return 1 where the log still had every tombstone sent since an acknowledged record when it was read, else 0.

    Returns `NONE` if the time of the read-back is unknown.
    """
    retention_us = b.facts.delete_retention_us[b.topic]
    held = np.full(len(rows), NONE)
    for (partition,), section in sections(b.acks["partition"][rows]):
        _, read_us = b.facts.read_us.get((b.topic, int(partition)), (None, None))
        if read_us is not None:
            held[section.index] = read_us - section.ints(b.acks["invoked_us"][rows]) < retention_us
    return held


def _read_in_time(b: KeyBlock, rows: Ints) -> Mask:
    """Return where the partition of an acknowledged record was read in less than delete.retention.ms."""
    in_time = np.zeros(len(rows), np.bool_)
    for (partition,), section in sections(b.acks["partition"][rows]):
        began_us, ended_us = b.facts.read_us.get((b.topic, int(partition)), (None, None))
        if began_us is not None and ended_us is not None:
            in_time[section.index] = ended_us - began_us < b.facts.delete_retention_us[b.topic]
    return in_time


_LOST, _SUPERSEDED, _EVICTED, _EXPIRED, _RESURRECTED = range(5)
_NO_END, _NO_KEYS, _UNREAD, _NO_PLACE, _READ_WHEN, _PERHAPS_DELETED, _MISSED, _UNCLEAR = range(5, 13)
_EARLY, _PERHAPS_EARLY = range(13, 15)
"""Fates of an absent record. Missed: resurrected, or expired while the log was read; unclear: resurrected or lost."""
_UNDECIDED = {
    _NO_END: (("lost_key",), NO_END),
    _NO_KEYS: (("lost_key",), NO_KEYS),
    _UNREAD: (("lost_key",), UNREAD),
    _NO_PLACE: (("lost_key",), NO_PLACE),
    _READ_WHEN: (("lost_key",), READ_WHEN),
    _PERHAPS_DELETED: (("lost_key",), PERHAPS_DELETED),
    _MISSED: (("resurrected_key",), EXPIRED_MEANWHILE),
    _UNCLEAR: (("lost_key", "resurrected_key"), OPEN),
    _PERHAPS_EARLY: (("lost_key",), COMPACTED_WHEN),
}
"""What cannot be decided of a fate, and why."""


def _shown(b: KeyBlock, i: int, early: bool) -> dict[str, Any]:
    a = b.acks
    producer, incarnation = b.facts.senders[int(a["sender"][i])]
    partition, key = int(a["partition"][i]), int(a["key"][i])
    same = b.log["offset"][b.log_group == b.ack_group[i]]
    log_start, log_end = b.facts.log_ranges[b.topic, partition]
    evidence = {
        "key": b.text[key],
        "completed_us": int(a["completed_us"][i]),
        "last_in_log": int(same.max()) if len(same) else None,
        "log_start": log_start,
        "log_end": log_end,
    }
    if a["tombstone"][i]:
        evidence["tombstone"] = True
    if early:
        _, read_us = b.facts.read_us[b.topic, partition]
        age_us = (read_us or 0) - int(a["invoked_us"][i])
        evidence |= {"protected_us": b.facts.protected_us[b.topic], "age_us": age_us}
    where = {"topic": b.topic, "partition": partition, "offset": int(a["offset"][i])}
    who = {"producer": producer, "incarnation": incarnation, "seq": nullable(a["seq"][i])}
    return where | who | {"at_us": evidence["completed_us"], "evidence": evidence}


def _explain_lost_key(f: Finding, e: Evidence, c: RunData) -> str:
    if "protected_us" in e:
        held = (
            f"min.compaction.lag.ms={e['protected_us'] // 1_000} keeps it for longer, though a later record has its key"
        )
        sent = f"key {e['key']} was acknowledged at offset {f['offset']}"
        return f"{sent}, sent {e['age_us'] / 1e6:.1f} s before the log had been read back, and {held}"
    now = f"the last record of the key in the log is at offset {e['last_in_log']}" if "last_in_log" in e else ""
    now = now or "the log has no record of the key"
    leader = c.observed.leader(f["topic"], f["partition"], e["completed_us"])
    after = c.observed.next_leader(f["topic"], f["partition"], e["completed_us"])
    fault = c.last_fault(after.at_us if after else e["completed_us"])
    e |= present(leader=leader.broker, leader_epoch=leader.epoch, isr=leader.isr, fault=fault)
    what = "the tombstone of key" if e.get("tombstone") else "key"
    sentence = f"{what} {e['key']} was acknowledged at offset {f['offset']} and no later record supersedes it; {now}"
    sentence = "; ".join(filter(None, (sentence, moved_start(f, e, c))))
    if after is None or after.broker is None:
        return sentence + "; no later leader was seen"
    e |= present(next_leader=after.broker, next_leader_epoch=after.epoch)
    sentence += f"; broker {after.broker} became leader in epoch {after.epoch} after the acknowledgement"
    return sentence + (f", after fault {fault}" if fault else "")


RULES = {
    "overdue_record": Rule(
        examines=(DUE,),
        explain=_explain_overdue,
        scopes=TOPICS.if_any(
            lambda s: not s.attached or retention.CHECK in s.cluster.config,
            "how often brokers of an existing cluster delete is not known",
        ).among(_due_topics, "retention or compaction of no topic is due within a run"),
        vacant="no record was due before the log was read back",
        needs_clock=True,
        writes=overdue_record,
        keys=overdue_value,
    ),
    "lost_key": Rule(
        examines=(KEYED,),
        explain=_explain_lost_key,
        scopes=TOPICS.among(
            lambda s: s.compacted & {topic for p in s.producers for topic in p.written}, "no topic is compacted"
        ),
        leaves_out={EVICTED: "retention, or a fault, deleted the records before the log was read back"},
        counts_undecided=True,
        keys=lost_key,
    ),
    "resurrected_key": Rule(
        examines=(DELETED,),
        explain=_explain_lost_key,
        scopes=TOPICS.among(
            lambda s: {topic for p in s.producers if p.tombstone_every for topic in p.written},
            "no producer writes tombstones",
        ),
        counts_undecided=True,
        keys=lost_key,
    ),
}
