"""The promise of a compacted topic: lost_key.

The log cleaner may remove a record once a later one with its key is in the log. It cleans below the last stable offset
only, and takes no notice of records of aborted transactions (`LogCleanerManager.cleanableOffsets` and
`Cleaner.buildOffsetMap` in Apache Kafka; "Log Compaction" in its documentation). When it cleans depends on settings and
load, so the rule expects nothing of the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import NONE, nullable
from checks.audit.engine.counters import EVICTED, SUPERSEDED
from checks.audit.engine.group import sections
from checks.audit.engine.keys import KeyBlock
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.run_facts import COMMITTED, NO_TXN, UNDECIDED
from checks.audit.findings import CAP, Finding
from checks.audit.rules.rule import Evidence, Rule, RunData, moved_start, present, unless

KEYED = total("keyed")
"""Acknowledged records of compacted topics, by topic."""


def lost_key(b: KeyBlock, tally: Tally) -> None:
    """Report acknowledged records of a compacted topic that the log has lost and no later record supersedes.

    A record is superseded by a record of its key at a higher offset of its partition that is visible in the log or was
    acknowledged; of several lost records of a key, only the last one is reported. A later record of unknown outcome
    supersedes it only if it is in the log: the cleaner removes nothing for a record that is not. Undetermined without
    an acknowledged offset or key, in a partition that was not read back, or if only a record of unknown visibility or
    unknown key may supersede it. Evicted records are counted apart. A record of an aborted transaction, or of one
    without a known end, need not be in the log.
    """
    a, log = b.acks, b.log
    required = (a["end"] == NO_TXN) | (a["end"] == COMMITTED)
    tally.add(KEYED, b.topic, value=int(required.sum()))
    absent = np.flatnonzero(required & ~b.in_log())
    if not len(absent):
        return
    located = (a["offset"] != NONE) & (a["partition"] != NONE) & (a["key"] != NONE)
    known = log["key"] != NONE
    sure = b.latest(required & located, known & (log["committed"] == 1))
    unsure = b.latest(located & (a["end"] == UNDECIDED), known & (log["committed"] == NONE))
    offset, group = a["offset"][absent], b.ack_group[absent]
    fate = np.full(len(absent), _LOST)
    fate[unsure[group] > offset] = _UNSURE
    for (partition,), rows in sections(a["partition"][absent]):
        at = rows.index
        nameless = log["offset"][~known & (log["partition"] == partition)]
        fate[at[offset[at] < nameless.max(initial=NONE)]] = _UNSURE
    fate[sure[group] > offset] = _SUPERSEDED
    for (partition,), rows in sections(a["partition"][absent]):
        at, start = rows.index, b.facts.due_starts.get((b.topic, partition))
        if start is None:
            fate[at] = _UNSURE
        else:
            fate[at[offset[at] < start]] = _EVICTED
    fate[~located[absent]] = _UNSURE
    tally.add(EVICTED, b.topic, value=int((fate == _EVICTED).sum()))
    tally.add(SUPERSEDED, b.topic, value=int((fate == _SUPERSEDED).sum()))
    tally.report_undetermined("lost_key", b.topic, int((fate == _UNSURE).sum()))
    lost = absent[fate == _LOST]
    order = np.lexsort([a[n][lost] for n in ("seq", "sender", "offset", "partition")])
    tally.report("lost_key", b.topic, len(lost), (_shown(b, i) for i in lost[order[:CAP]].tolist()))


_LOST, _UNSURE, _SUPERSEDED, _EVICTED = range(4)


def _shown(b: KeyBlock, i: int) -> dict[str, Any]:
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
    where = {"topic": b.topic, "partition": partition, "offset": int(a["offset"][i])}
    who = {"producer": producer, "incarnation": incarnation, "seq": nullable(a["seq"][i])}
    return where | who | {"at_us": evidence["completed_us"], "evidence": evidence}


def _explain_lost_key(f: Finding, e: Evidence, c: RunData) -> str:
    now = f"the last record of the key in the log is at offset {e['last_in_log']}" if "last_in_log" in e else ""
    now = now or "the log has no record of the key"
    leader = c.observed.leader(f["topic"], f["partition"], e["completed_us"])
    after = c.observed.next_leader(f["topic"], f["partition"], e["completed_us"])
    fault = c.last_fault(after.at_us if after else e["completed_us"])
    e |= present(leader=leader.broker, leader_epoch=leader.epoch, isr=leader.isr, fault=fault)
    sentence = f"key {e['key']} was acknowledged at offset {f['offset']} and no later record supersedes it; {now}"
    sentence = "; ".join(filter(None, (sentence, moved_start(f, e))))
    if after is None or after.broker is None:
        return sentence + "; no later leader was seen"
    e |= present(next_leader=after.broker, next_leader_epoch=after.epoch)
    sentence += f"; broker {after.broker} became leader in epoch {after.epoch} after the acknowledgement"
    return sentence + (f", after fault {fault}" if fault else "")


RULES = {
    "lost_key": Rule(
        examines=(KEYED,),
        explain=_explain_lost_key,
        inapplicable=unless(lambda s: bool(s.compacted), "no topic is compacted"),
        counts_undetermined=True,
        keys=lost_key,
    ),
}
