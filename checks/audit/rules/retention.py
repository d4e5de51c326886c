"""Records that the log kept beyond their time, overdue_record, and what timestamps do to retention."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaos.scenario import retention
from chaos.scenario.clock_rules import clock_faults, stamped_topics
from chaos.scenario.model import Scenario
from chaos.setup.timestamps import described, span
from checks.audit.arrays import Ints
from checks.audit.engine.counters import ACKED
from checks.audit.engine.group import sections
from checks.audit.engine.tally import Tally
from checks.audit.facts.readers import entry_of
from checks.audit.findings import Finding
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import Evidence, Rule, RunData
from checks.audit.undecided import PERHAPS_LATE


def overdue_record(b: ProducerBlock, tally: Tally) -> None:
    """Report records in the log that the settings of their topic should have deleted; see `facts.retention.Overdue`.

    Undetermined if a broker may have had a wrong clock until the log was read back.
    """
    if not b.facts.overdue:
        return
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
    kept = c.scenario.kept(f["topic"])
    cause = ahead_by(c.scenario, f["topic"])
    since = f"retention.ms={kept.retention_ms} is over" if kept else ""
    return f"{since}, and {cause}" if cause else f"{since}, and neither timestamps nor clocks explain it"


def ahead_by(scenario: Scenario, topic: str) -> str:
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
    return f"Kafka deletes a segment by its largest timestamp, the oldest segment first: {'; '.join(causes)}"


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


def _inapplicable(scenario: Scenario) -> str:
    """Return why no record can be overdue before a run ends."""
    if scenario.attached and retention.CHECK not in scenario.cluster.config:
        return "how often brokers of an existing cluster delete is not known"
    run_ms = 1_000 * (scenario.limits.drive + scenario.limits.drain + scenario.limits.clients)
    known = [kept for topic in scenario.topics if (kept := scenario.kept(topic.name)) is not None]
    if not any(kept.retention_ms + kept.check_ms <= run_ms for kept in known):
        return "retention of no topic ends within a run"
    return ""


RULES = {
    "overdue_record": Rule(
        examines=(ACKED,),
        explain=_explain_overdue,
        inapplicable=_inapplicable,
        needs_clock=True,
        writes=overdue_record,
    ),
}
