"""Records in the log: phantom_write, corrupt_record, returned_record, duplicate_write, reordered_write."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from chaos.kafka.partition import TopicPartition
from chaos.scenario.model import Scenario
from checks.audit.arrays import Ints, nullable
from checks.audit.engine.counters import CRC_CHECKED, IN_LOG, OWN_RECORDS, UNSENT_PRESENT
from checks.audit.engine.group import sections
from checks.audit.engine.parts import Part
from checks.audit.engine.survey import RowRule, SurveyPlan
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.deletions import KIND, Deletion
from checks.audit.findings import CAP, POSITION, Finding
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import TOPICS, Evidence, Rule, RunData

RETURNABLE = total("returnable")
"""Records in the log of topics from which faults deleted records, by topic."""


def corrupt_record(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    """Report log records with a wrong CRC."""
    correct, checked = part.flags("crc_ok")
    _report_records(part, "corrupt_record", np.flatnonzero(checked & ~correct), tally)


def foreign_record(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    """Report log records without an identity of this run as phantom_write."""
    _report_records(part, "phantom_write", np.flatnonzero(~part.own_records(plan.run_token)), tally)


def returned_record(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    """Report log records below the offset to which a fault deleted the records of the partition, of an earlier time."""
    topics, names = part.codes("topic")
    partition, offset, timestamp = (part.ints(name) for name in ("partition", "offset", "timestamp"))
    left = timestamp >= 0
    for topic in {topic for topic, _ in plan.deletions} & set(names):
        tally.add(RETURNABLE, topic, value=int((topics == names.index(topic)).sum()))
    for (topic, number), deletions in plan.deletions.items():
        here = (topics == names.index(topic)) & (partition == number) if topic in names else np.zeros_like(left)
        for deleted in deletions:
            returned = here & left & (offset < deleted.below) & (timestamp < deleted.at_us)
            _report_records(part, "returned_record", np.flatnonzero(returned), tally, deleted=deleted)
            left &= ~returned


def _report_records(part: Part, check: str, rows: Ints, tally: Tally, deleted: Deletion | None = None) -> None:
    if not len(rows):
        return
    topics, names = part.codes("topic")
    partition, offset = part.ints("partition"), part.ints("offset")
    for (code,), section in sections(topics[rows]):
        of_topic = section.ints(rows)
        first = of_topic[np.lexsort((offset[of_topic], partition[of_topic]))[:CAP]]
        tally.report(check, names[code], len(of_topic), (_record(row, check, deleted) for row in part.take(first)))


def _record(row: dict[str, Any], check: str, deleted: Deletion | None) -> dict[str, Any]:
    evidence = {"carried_run": row["run"]}
    if check == "phantom_write":
        evidence["why"] = "no identity" if row["producer"] is None else "identity of another run"
    if deleted:
        evidence |= {"deleted_below": deleted.below, "deleted_by": deleted.fault}
    return {name: row[name] for name in POSITION} | {"at_us": row["timestamp"], "evidence": evidence}


def unsent_record(b: ProducerBlock, tally: Tally) -> None:
    """Report log records of this run without a send row as phantom_write.

    Their incarnation never existed, or stopped with everything on record except this send. The row of a crashed
    incarnation may be lost with it, so its records are only counted.
    """
    c = b.copies
    unsent = np.flatnonzero(~np.isin(b.logged, b.sent))
    for (incarnation,), section in sections(c["incarnation"][unsent]):
        rows, end = section.ints(unsent), b.facts.producer_ends.get((b.producer, incarnation))
        if end is not None and end != "stopped":
            for topic, of_topic in b.by_topic(c, rows):
                tally.add(UNSENT_PRESENT, topic, value=len(of_topic))
            continue
        why = "unknown incarnation" if end is None else "the producer stopped without sending it"
        b.report("phantom_write", c, rows, partial(b.copy, why=why, carried_run=b.facts.run_token), tally)


def duplicate_write(b: ProducerBlock, tally: Tally) -> None:
    """Report each copy of a (producer, seq) after the first, across incarnations too.

    Copies that only read_uncommitted readers see do not count: their transaction was aborted.
    """
    if (b.copies["committed"] == 0).any():
        b = b.visible()
    seq = b.copies["seq"]

    def shown(i: int) -> dict[str, Any]:
        copies = b.copies_of(int(seq[i]))
        first = b.copy(copies.start)
        evidence = {"copy": i - copies.start + 1, "copies": copies.stop - copies.start}
        evidence |= {f"first_{name}": first[name] for name in ("topic", "partition", "offset", "incarnation")}
        return b.copy(i, **evidence, first_timestamp_us=first["at_us"])

    b.report("duplicate_write", b.copies, np.flatnonzero(seq[1:] == seq[:-1]) + 1, shown, tally)


def _explain_duplicate(f: Finding, e: Evidence, c: RunData) -> str:
    first = f"written at {e['first_topic']}/{e['first_partition']} offset {e['first_offset']}"
    if e["first_incarnation"] != f["incarnation"]:
        second = f"again by incarnation {f['incarnation']} after the restart"
        return f"{first} by incarnation {e['first_incarnation']}, and {second}"
    idempotence = c.setting(f["producer"], "enable.idempotence", "false")
    return f"{first}, and again by a retry of the same producer (enable.idempotence={idempotence})"


def reordered_write(b: ProducerBlock, tally: Tally) -> None:
    """Report records of an incarnation that are in a partition after a record sent later.

    A further copy of a seq that is also at a lower offset is a duplicate, not a reorder.
    """
    copies = b.all_copies
    for (number, partition, life), rows in sections(copies["topic"], copies["partition"], copies["incarnation"]):
        seq, offset, timestamp = (rows.ints(copies[n]) for n in ("seq", "offset", "timestamp"))
        later = b.facts.lowest_later(b.producer, life, b.topic(number), partition, b.number)
        if (seq[1:] > seq[:-1]).all() and (offset[1:] > offset[:-1]).all() and (later is None or offset[-1] < later):
            continue
        order = np.lexsort((offset, seq))
        order = order[np.concatenate([[True], seq[order][1:] != seq[order][:-1]])]
        seq, offset, timestamp = seq[order], offset[order], timestamp[order]
        lowest_after = _lowest_after(offset, later)
        wrong = np.flatnonzero(offset > lowest_after)
        seq_at = dict(zip(offset.tolist(), seq.tolist(), strict=True)) if len(wrong) else {}
        position = {"topic": b.topic(number), "partition": partition, "producer": b.producer, "incarnation": life}
        shown = (
            position
            | {"offset": int(offset[i]), "seq": int(seq[i]), "at_us": nullable(timestamp[i])}
            | {"evidence": {"after_seq": seq_at.get(int(lowest_after[i])), "after_offset": int(lowest_after[i])}}
            for i in wrong[np.argsort(offset[wrong])[:CAP]].tolist()
        )
        tally.report("reordered_write", b.topic(number), len(wrong), shown)


def _lowest_after(offset: Ints, later: int | None) -> Ints:
    """Return for each record, in the order of sending, the lowest offset of later ones. later: of later blocks."""
    found = np.full(len(offset), np.iinfo(np.int64).max if later is None else later)
    found[:-1] = np.minimum(np.minimum.accumulate(offset[:0:-1])[::-1], found[-1])
    return found


def _explain_reordered(f: Finding, e: Evidence, c: RunData) -> str:
    idempotence = c.setting(f["producer"], "enable.idempotence", "false")
    other = f"seq {e['after_seq']}" if "after_seq" in e else "another record"
    later = f"{other} (offset {e['after_offset']}), which was sent later"
    return f"seq {f['seq']} is behind {later} (enable.idempotence={idempotence})"


def _deleted_from(s: Scenario) -> set[str]:
    """Return the topics from which faults delete records."""
    targets = [fault.target for fault in s.faults if fault.kind == KIND]
    return {str(t.topic or TopicPartition.parse(str(t.partition)).topic) for t in targets}


RULES = {
    "phantom_write": Rule(
        examines=(IN_LOG,),
        explain="{why}",
        scopes=TOPICS,
        rows=RowRule("log", foreign_record),
        writes=unsent_record,
    ),
    "corrupt_record": Rule(examines=(CRC_CHECKED,), explain="", scopes=TOPICS, rows=RowRule("log", corrupt_record)),
    "returned_record": Rule(
        examines=(RETURNABLE,),
        explain="{deleted_by} deleted the records below offset {deleted_below}, and the log has some of them again",
        scopes=TOPICS.among(_deleted_from, f"no fault is of kind {KIND}"),
        vacant="no fault was proven to have deleted records of a topic that the log still has records of",
        needs_clock=True,
        needs_log_times=True,
        rows=RowRule("log", returned_record, needed=lambda plan: bool(plan.deletions)),
    ),
    "duplicate_write": Rule(examines=(OWN_RECORDS,), explain=_explain_duplicate, scopes=TOPICS, writes=duplicate_write),
    "reordered_write": Rule(examines=(OWN_RECORDS,), explain=_explain_reordered, scopes=TOPICS, writes=reordered_write),
}
