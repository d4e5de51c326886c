"""The outcome of a send against the log: lost_write, unnoticed_failure, resurrected_write."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaos.scenario.model import Scenario
from checks.audit.arrays import NONE, nullable
from checks.audit.engine.blocks import FAIL, OK, OUTCOMES
from checks.audit.engine.counters import ACKED, EVICTED, OWN_RECORDS
from checks.audit.engine.group import sections
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.run_facts import COMMITTED, NO_TXN
from checks.audit.findings import Finding
from checks.audit.rules.producer_block import ProducerBlock, lowest
from checks.audit.rules.rule import Context, Evidence, Rule, present

UNWATCHED = total("unwatched")
"""Sends of producers that read no delivery report, by topic."""


def lost_write(b: ProducerBlock, tally: Tally) -> None:
    """Report acknowledged (producer, incarnation, seq) that are nowhere in the log.

    Evicted records are counted apart, undetermined ones are reported as such; see `ProducerBlock.absent`. A record of a
    transaction that was aborted, or that has no known end, need not be in the log.
    """
    required = (b.sends["end"] == NO_TXN) | (b.sends["end"] == COMMITTED)
    absent = np.flatnonzero((b.sends["outcome"] == OK) & required & ~np.isin(b.sent, b.logged))
    for (number, partition), section in sections(b.sends["topic"][absent], b.sends["partition"][absent]):
        rows, topic = section.ints(absent), b.topic(number)
        evicted, undetermined = b.absent(b.sends["offset"][rows], topic, partition)
        tally.add(EVICTED, topic, value=int(evicted.sum()))
        tally.report_undetermined("lost_write", topic, int(undetermined.sum()))
        lost = rows[~(evicted | undetermined)]
        shown = (b.send(i) | {"evidence": _lost(b, i)} for i in lowest(lost, b.sends["offset"], b.sends["seq"]))
        tally.report("lost_write", topic, len(lost), shown)


def _lost(b: ProducerBlock, i: int) -> Evidence:
    s = b.sends
    log_start, log_end = b.facts.log_ranges.get((b.topic(int(s["topic"][i])), int(s["partition"][i])), (None, None))
    return {
        "acked_offset": nullable(s["offset"][i]),
        "invoked_us": int(s["invoked_us"][i]),
        "completed_us": int(s["completed_us"][i]),
        "log_start": log_start,
        "log_end": log_end,
        "other_copies": len(b.logged[b.copies_of(int(s["seq"][i]))]),
    }


def _explain_lost(f: Finding, e: Evidence, c: Context) -> str:
    acks = c.setting(f["producer"], "acks", "all")
    e["acks"] = acks = "all" if acks == "-1" else acks
    if f["partition"] is None:
        return ""
    leader = c.leadership.at(f["topic"], f["partition"], e["completed_us"])
    after = c.leadership.next(f["topic"], f["partition"], e["completed_us"])
    fault = c.last_fault(after.at_us if after else e["completed_us"])
    e |= present(leader=leader.broker, leader_epoch=leader.epoch, isr=leader.isr)
    if after:
        e |= present(next_leader=after.broker, next_leader_epoch=after.epoch, next_leader_seen_us=after.at_us)
    e |= present(fault=fault)
    if leader.broker is None or leader.epoch is None:
        return ""
    where = f"broker {leader.broker} in leader epoch {leader.epoch}"
    sentence = f"handed to {where} with acks=0: no broker ever confirmed it" if acks == "0" else f"acked by {where}"
    sentence += "" if acks == "0" else f" (acks={acks})"
    if after is None:
        return f"{sentence}; no later leader was seen" + (f"; the last fault before was {fault}" if fault else "")
    if after.broker is not None and acks == "0":
        sentence += f"; not in the log of broker {after.broker}, leader from epoch {after.epoch}"
    elif after.broker is not None:
        sentence += f" and cut off when broker {after.broker} became leader in epoch {after.epoch}"
    return sentence + (f" after fault {fault}" if fault and after.broker is not None else "")


def unnoticed_failure(b: ProducerBlock, tally: Tally) -> None:
    """Report failed or unanswered sends that are not in the log, of a producer that reads no delivery report."""
    if b.producer.rpartition("/")[0] not in b.facts.unwatched:
        return
    for (number,), section in sections(b.all_sends["topic"]):
        tally.add(UNWATCHED, b.topic(number), value=len(section))
    names = {number: name for name, number in OUTCOMES.items()}
    absent = np.flatnonzero((b.sends["outcome"] != OK) & ~np.isin(b.sent, b.logged))

    def shown(i: int) -> dict[str, Any]:
        outcome, invoked_us = names[int(b.sends["outcome"][i])], int(b.sends["invoked_us"][i])
        return b.send(i) | {"evidence": {"outcome": outcome, "invoked_us": invoked_us}}

    for (number,), section in sections(b.sends["topic"][absent]):
        rows = section.ints(absent)
        first = lowest(rows, b.sends["seq"], b.sends["incarnation"])
        tally.report("unnoticed_failure", b.topic(number), len(rows), map(shown, first))


def _explain_unnoticed(f: Finding, e: Evidence, c: Context) -> str:
    why = "the local queue refused it or every attempt failed" if e["outcome"] == "fail" else "no answer came in time"
    return (
        f"seq {f['seq']} was given to the client library and is not in the log: {why}, "
        "and the application read no delivery report"
    )


def _all_watched(s: Scenario) -> str:
    watched = all(p.mode != "fire_and_forget" for p in s.producers)
    return "every producer looks at its delivery reports" if watched else ""


def resurrected_write(b: ProducerBlock, tally: Tally) -> None:
    """Report sends that definitely failed and are in the log of the same incarnation.

    In a transaction, only if read_committed readers see the record; undetermined if that is unknown. If the same
    incarnation sent the record again, by a send that did not fail, the copy belongs to that send.
    """
    s, c = b.sends, b.copies
    failed = np.flatnonzero((s["outcome"] == FAIL) & np.isin(b.sent, b.logged))
    failed = failed[~np.isin(b.sent[failed], b.sent[s["outcome"] != FAIL])]
    for (number,), section in sections(s["topic"][failed]):
        found, unknown = [], 0
        for i in section.ints(failed).tolist():
            copies = b.copies_of_send(i)
            seen = c["committed"][copies]
            if s["end"][i] == NO_TXN or (seen == 1).any():
                found.append((i, int(copies[np.argmax(seen == 1)])))
            else:
                unknown += bool((seen == NONE).any())
        tally.report_undetermined("resurrected_write", b.topic(number), unknown)
        shown = (
            b.copy(at) | {"evidence": {"invoked_us": int(s["invoked_us"][i]), "failed_us": int(s["completed_us"][i])}}
            for i, at in found
        )
        tally.report("resurrected_write", b.topic(number), len(found), shown)


def _explain_resurrected(f: Finding, e: Evidence, c: Context) -> str:
    return f"its send had been reported as failed, yet it is at {f['topic']}/{f['partition']} offset {f['offset']}"


RULES = {
    "lost_write": Rule(examines=(ACKED,), explain=_explain_lost, counts_undetermined=True, writes=lost_write),
    "unnoticed_failure": Rule(
        examines=(UNWATCHED,), explain=_explain_unnoticed, inapplicable=_all_watched, writes=unnoticed_failure
    ),
    "resurrected_write": Rule(examines=(OWN_RECORDS,), explain=_explain_resurrected, writes=resurrected_write),
}
