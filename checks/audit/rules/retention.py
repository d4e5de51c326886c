"""Records that the log kept beyond their time, overdue_record, and what timestamps do to retention."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaos.scenario import retention
from chaos.scenario.clock_rules import clock_faults, stamped_topics
from chaos.scenario.model import Scenario
from chaos.setup.timestamps import described, span
from checks.audit.arrays import NONE, Columns, Ints, Mask, nullable
from checks.audit.engine.blocks import OK
from checks.audit.engine.group import sections
from checks.audit.engine.keys import KeyBlock
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.readers import entry_of
from checks.audit.facts.retention import Overdue
from checks.audit.findings import CAP, Finding
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import TOPICS, Evidence, Rule, RunData
from checks.audit.undecided import PERHAPS_LATE

DUE = total("due")
"""Acknowledged records that retention or compaction should have removed before the log was read back, by topic."""


def overdue_record(b: ProducerBlock, tally: Tally) -> None:
    """Report records in the log that the settings of their topic should have deleted; see `facts.retention.Overdue`.

    Undetermined if a broker may have had a wrong clock until the log was read back.
    """
    if not b.facts.overdue:
        return
    sends = b.all_sends
    acked = np.flatnonzero((sends["outcome"] == OK) & (sends["offset"] != NONE))
    for (number, partition), rows in sections(sends["topic"][acked], sends["partition"][acked]):
        if found := b.facts.overdue.get((b.topic(number), int(partition))):
            due = sends["offset"][acked[rows.index]] < found.below
            tally.add(DUE, b.topic(number), value=int(due.sum()))
    copies = b.all_copies
    for (number, partition), rows in sections(copies["topic"], copies["partition"]):
        topic = b.topic(number)
        found = b.facts.overdue.get((topic, int(partition)))
        if found is None:
            continue
        late: Ints = rows.index[copies["offset"][rows.index] < found.below]
        if found.unsure:
            tally.report_undetermined("overdue_record", topic, len(late), PERHAPS_LATE)
        else:
            b.report("overdue_record", copies, late, lambda i: _overdue(b, i), tally)


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
        tally.report_undetermined("overdue_record", b.topic, len(rows), PERHAPS_LATE)
        return
    order = np.lexsort((log["offset"][rows], log["partition"][rows]))
    shown = (_superseded(b, i, int(until[b.log_group[i]])) for i in rows[order[:CAP]].tolist())
    tally.report("overdue_record", b.topic, len(rows), shown)


def _below(side: Columns, ends: dict[int, Overdue]) -> Mask:
    """Return the rows with an offset below the one of their partition, and a known key."""
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
    copies, sends = b.all_copies, b.all_sends
    same = (sends["seq"] == copies["seq"][i]) & (sends["incarnation"] == copies["incarnation"][i])
    row = int(np.flatnonzero(same)[0]) if same.any() else None
    topic, partition = b.topic(int(copies["topic"][i])), int(copies["partition"][i])
    read_us, _ = b.facts.read_us[topic, partition]
    done_us = None if row is None else int(sends["completed_us"][row])
    evidence = {"timestamp_us": int(copies["timestamp"][i]), "completed_us": done_us, "read_us": read_us}
    evidence["log_start"], _ = b.facts.log_ranges[topic, partition]
    return b.record(copies, i, at_us=read_us, evidence=evidence)


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
    return f"those of {entry} are up to {span(ahead_s)} ({faults} changed its clock)"


def _due_topics(scenario: Scenario) -> set[str]:
    """Return the topics of which records may be due before a run ends."""
    run_ms = 1_000 * (scenario.limits.drive + scenario.limits.drain + scenario.limits.clients)
    kept = [(t.name, limit(t.name)) for t in scenario.topics for limit in (scenario.kept, scenario.superseded)]
    return {name for name, found in kept if found and found.retention_ms + found.check_ms <= run_ms}


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
}
