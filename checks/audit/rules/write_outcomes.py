"""The outcome of a send against the log: lost_write, unnoticed_failure, resurrected_write."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaos.scenario.model import Scenario
from checks.audit.arrays import NONE, nullable
from checks.audit.engine.blocks import FAIL, OK, OUTCOMES, UNKNOWN
from checks.audit.engine.counters import ACKED, EVICTED, GONE, OWN_RECORDS
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.readers import entry_of
from checks.audit.facts.run_facts import ABORTED, COMMITTED, NO_TXN, UNDECIDED
from checks.audit.findings import Finding
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import TOPICS, Evidence, Rule, RunData, moved_start, present
from checks.audit.undecided import COMPACTED, OPEN

UNWATCHED = total("unwatched")
"""Sends of producers that read no delivery report, by topic."""
NOT_REQUIRED = total("not_required")
"""Acknowledged records of transactions that were aborted or have no known end, by topic."""


def lost_write(b: ProducerBlock, tally: Tally) -> None:
    """Report acknowledged (producer, incarnation, seq) that are nowhere in the log; in a compacted topic, see lost_key.

    Evicted records and those of a deleted topic, which are gone by an administrator's order, are counted apart;
    undetermined ones are reported as such; see `ProducerBlock.absent`. A record of a transaction that was aborted, or
    that has no known end, need not be in the log.
    """
    _count_not_required(b, tally)
    s = b.sends
    required = (s["end"] == NO_TXN) | (s["end"] == COMMITTED)
    acked = np.flatnonzero((s["outcome"] == OK) & required)
    gone = b.of_ended(acked)
    for topic, rows in b.by_topic(s, acked[gone]):
        tally.add(GONE, topic, value=len(rows))
    absent = acked[~gone]
    absent = absent[~np.isin(b.sent[absent], b.logged)]
    absent = absent[~b.in_compacted(absent)]
    evicted, unsure = b.absent(absent)
    for topic, rows in b.by_topic(s, absent[evicted]):
        tally.add(EVICTED, topic, value=len(rows))
    for reason, mask in unsure.items():
        b.report_undetermined("lost_write", absent[mask], reason, tally)
    b.report("lost_write", s, absent[~(evicted | np.any([*unsure.values()], axis=0))], lambda i: _lost(b, i), tally)


def _count_not_required(b: ProducerBlock, tally: Tally) -> None:
    if b.facts.transactions:
        s = b.all_sends
        found = np.flatnonzero((s["outcome"] == OK) & np.isin(s["end"], (ABORTED, UNDECIDED)))
        for topic, rows in b.by_topic(s, found):
            tally.add(NOT_REQUIRED, topic, value=len(rows))


def _lost(b: ProducerBlock, i: int) -> dict[str, Any]:
    s = b.sends
    log_start, log_end = b.facts.log_ranges.get((b.topic(int(s["topic"][i])), int(s["partition"][i])), (None, None))
    return b.send(
        i,
        acked_offset=nullable(s["offset"][i]),
        invoked_us=int(s["invoked_us"][i]),
        completed_us=int(s["completed_us"][i]),
        log_start=log_start,
        log_end=log_end,
        other_copies=len(b.logged[b.copies_of(int(s["seq"][i]))]),
    )


def _explain_lost(f: Finding, e: Evidence, c: RunData) -> str:
    acks = c.setting(f["producer"], "acks", "all")
    e["acks"] = acks = "all" if acks == "-1" else acks
    if f["partition"] is None:
        return ""
    leader = c.observed.leader(f["topic"], f["partition"], e["completed_us"])
    after = c.observed.next_leader(f["topic"], f["partition"], e["completed_us"])
    fault = c.last_fault(after.at_us if after else e["completed_us"])
    e |= present(leader=leader.broker, leader_epoch=leader.epoch, isr=leader.isr)
    if after:
        e |= present(next_leader=after.broker, next_leader_epoch=after.epoch, next_leader_seen_us=after.at_us)
    e |= present(fault=fault)
    moved = moved_start(f, e, c)
    if leader.broker is None or leader.epoch is None:
        return moved
    where = f"broker {leader.broker} in leader epoch {leader.epoch}"
    sentence = f"handed to {where} with acks=0: no broker ever confirmed it" if acks == "0" else f"acked by {where}"
    sentence += "" if acks == "0" else f" (acks={acks})"
    if after is None:
        sentence += "; no later leader was seen" + (f"; the last fault before was {fault}" if fault else "")
        return "; ".join(filter(None, (sentence, moved)))
    if after.broker is not None and acks == "0":
        sentence += f"; not in the log of broker {after.broker}, leader from epoch {after.epoch}"
    elif after.broker is not None:
        sentence += f" and cut off when broker {after.broker} became leader in epoch {after.epoch}"
    sentence += f" after fault {fault}" if fault and after.broker is not None else ""
    return "; ".join(filter(None, (sentence, moved)))


def unnoticed_failure(b: ProducerBlock, tally: Tally) -> None:
    """Report failed or unanswered sends that are not in the log, of a producer that reads no delivery report.

    Undetermined for an unanswered send to a compacted topic: its record may have been in the log.
    """
    if entry_of(b.producer) not in b.facts.unwatched:
        return
    for topic, rows in b.by_topic(b.all_sends, np.arange(len(b.all_sends["seq"]))):
        tally.add(UNWATCHED, topic, value=len(rows))
    names = {number: name for name, number in OUTCOMES.items()}
    outcome, invoked_us = b.sends["outcome"], b.sends["invoked_us"]
    absent = np.flatnonzero((outcome != OK) & ~np.isin(b.sent, b.logged))
    unsure = b.in_compacted(absent) & (outcome[absent] == UNKNOWN)
    b.report_undetermined("unnoticed_failure", absent[unsure], COMPACTED, tally)

    def shown(i: int) -> dict[str, Any]:
        return b.send(i, outcome=names[int(outcome[i])], invoked_us=int(invoked_us[i]))

    b.report("unnoticed_failure", b.sends, absent[~unsure], shown, tally)


def _explain_unnoticed(f: Finding, e: Evidence, c: RunData) -> str:
    why = "the local queue refused it or every attempt failed" if e["outcome"] == "fail" else "no answer came in time"
    return (
        f"seq {f['seq']} was given to the client library and is not in the log: {why}, "
        "and the application read no delivery report"
    )


def resurrected_write(b: ProducerBlock, tally: Tally) -> None:
    """Report sends that definitely failed and are in the log of the same incarnation.

    In a transaction, only if read_committed readers see the record; undetermined if that is unknown. If the same
    incarnation sent the record again, by a send that did not fail, the copy belongs to that send.
    """
    s, c = b.sends, b.copies
    failed = np.flatnonzero((s["outcome"] == FAIL) & np.isin(b.sent, b.logged))
    failed = failed[~np.isin(b.sent[failed], b.sent[s["outcome"] != FAIL])]
    for topic, rows in b.by_topic(s, failed):
        found, unknown = [], 0
        for i in rows.tolist():
            copies = b.copies_of_send(i)
            seen = c["committed"][copies]
            if s["end"][i] == NO_TXN or (seen == 1).any():
                times = {"invoked_us": int(s["invoked_us"][i]), "failed_us": int(s["completed_us"][i])}
                found.append(b.copy(int(copies[np.argmax(seen == 1)]), **times))
            else:
                unknown += bool((seen == NONE).any())
        tally.report_undetermined("resurrected_write", topic, unknown, OPEN)
        tally.report("resurrected_write", topic, len(found), found)


def _kept_topics(s: Scenario) -> set[str]:
    """Return the topics that keep each record until retention deletes it."""
    return {topic.name for topic in s.topics} - s.compacted


RULES = {
    "lost_write": Rule(
        examines=(ACKED,),
        explain=_explain_lost,
        scopes=TOPICS.among(_kept_topics, "every topic is compacted, and lost_key judges its records"),
        leaves_out={
            EVICTED: "retention, or a fault, deleted the records before the log was read back",
            GONE: "their topic was deleted",
            NOT_REQUIRED: "their transactions were aborted, or have no known end",
        },
        counts_undetermined=True,
        writes=lost_write,
    ),
    "unnoticed_failure": Rule(
        examines=(UNWATCHED,),
        explain=_explain_unnoticed,
        scopes=TOPICS.among(
            lambda s: {topic for p in s.producers if p.mode == "fire_and_forget" for topic in p.written},
            "every producer looks at its delivery reports",
        ),
        writes=unnoticed_failure,
    ),
    "resurrected_write": Rule(
        examines=(OWN_RECORDS,),
        explain="its send had been reported as failed, yet it is at {topic}/{partition} offset {offset}",
        scopes=TOPICS,
        writes=resurrected_write,
    ),
}
