"""The promises of a compacted topic: lost_key, resurrected_key.

The log cleaner may remove a record once a later one with its key is in the log. It cleans below the last stable offset
only, and takes no notice of records of aborted transactions (`LogCleanerManager.cleanableOffsets` and
`Cleaner.buildOffsetMap` in Apache Kafka; "Log Compaction" in its documentation). When it cleans depends on settings and
load, so lost_key expects nothing of the time but what min.compaction.lag.ms promises; see `rules.retention`.

A tombstone, a record without a value, deletes its key. The cleaner removes it delete.retention.ms after the first pass
over it (KIP-534), which has removed the earlier values. A reader that takes longer than that to reach the end may get
an earlier value and not its tombstone (`delete.retention.ms` in the documentation of Apache Kafka); so may the
read-back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit import undecided
from checks.audit.arrays import NONE, Ints, Mask, nullable
from checks.audit.engine.counters import EVICTED, EXPIRED, SUPERSEDED
from checks.audit.engine.group import sections
from checks.audit.engine.keys import KeyBlock
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.retention import SLACK_US
from checks.audit.facts.run_facts import COMMITTED, NO_TXN, UNDECIDED
from checks.audit.findings import CAP, Finding
from checks.audit.rules.rule import TOPICS, Evidence, Rule, RunData, moved_start, present

KEYED = total("keyed")
"""Acknowledged records of compacted topics, by topic."""
DELETED = total("deleted_keys")
"""Acknowledged tombstones, by topic."""


def lost_key(b: KeyBlock, tally: Tally) -> None:
    """Report acknowledged records of a compacted topic that the log has lost and no later record supersedes.

    A record is superseded by a record of its key at a higher offset of its partition that is visible in the log or was
    acknowledged; of several lost records of a key, only the last one is reported. A later record of unknown outcome
    supersedes it only if it is in the log: the cleaner removes nothing for a record that is not. Undetermined without
    an acknowledged offset or key, in a partition that was not read back, or if only a record of unknown visibility or
    unknown key may supersede it. Evicted records are counted apart. A record of an aborted transaction, or of one
    without a known end, need not be in the log.

    A tombstone that is absent without a later record is a `resurrected_key` if an earlier value of its key is in the
    log, whatever removed it. That is undetermined if the tombstone may have expired while the log was read: if it took
    delete.retention.ms to read its partition, or an unknown time. Otherwise, it expired if delete.retention.ms had
    passed between its send and the end of the read-back; the log does not show whether it was lost before. If not, its
    key is lost. Undetermined if the time of the read-back is unknown, or, as resurrected_key then is, if only a record
    of unknown visibility may be an earlier value.

    A superseded record is lost too if it was younger than min.compaction.lag.ms when the log had been read back.
    Undetermined if a broker may have had a wrong clock.

    A value may be absent because of a tombstone that has expired. If the tombstone was acknowledged, it supersedes the
    value. If its outcome or offset is unknown, or if its row may have died with its producer, the value is
    undetermined.
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
    unsure = b.latest(located & (a["end"] == UNDECIDED), known & (log["committed"] == NONE))
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
            tally.report_undetermined(check, b.topic, int((fate == kind).sum()), reason)
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
    _NO_END: (("lost_key",), undecided.NO_END),
    _NO_KEYS: (("lost_key",), undecided.NO_KEYS),
    _UNREAD: (("lost_key",), undecided.UNREAD),
    _NO_PLACE: (("lost_key",), undecided.NO_PLACE),
    _READ_WHEN: (("lost_key",), undecided.READ_WHEN),
    _PERHAPS_DELETED: (("lost_key",), undecided.PERHAPS_DELETED),
    _MISSED: (("resurrected_key",), undecided.EXPIRED_MEANWHILE),
    _UNCLEAR: (("lost_key", "resurrected_key"), undecided.OPEN),
    _PERHAPS_EARLY: (("lost_key",), undecided.COMPACTED_WHEN),
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
    "lost_key": Rule(
        examines=(KEYED,),
        explain=_explain_lost_key,
        scopes=TOPICS.among(
            lambda s: s.compacted & {topic for p in s.producers for topic in p.written}, "no topic is compacted"
        ),
        leaves_out={EVICTED: "retention, or a fault, deleted the records before the log was read back"},
        counts_undetermined=True,
        keys=lost_key,
    ),
    "resurrected_key": Rule(
        examines=(DELETED,),
        explain=_explain_lost_key,
        scopes=TOPICS.among(
            lambda s: {topic for p in s.producers if p.tombstone_every for topic in p.written},
            "no producer writes tombstones",
        ),
        counts_undetermined=True,
        keys=lost_key,
    ),
}
