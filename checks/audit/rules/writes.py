"""Records that were sent against the log.

lost_write, unnoticed_failure, resurrected_write: the outcome of a send. phantom_write, corrupt_record,
returned_record, duplicate_write, reordered_write: the records in the log.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from chaos.clients.choice import DEFAULT
from chaos.kafka.partition import TopicPartition
from chaos.scenario.model import Scenario
from checks.audit.arrays import NONE, Ints, among, nullable
from checks.audit.engine.blocks import FAIL, OK, OUTCOMES, UNKNOWN
from checks.audit.engine.counters import ACKED, CRC_CHECKED, EVICTED, GONE, IN_LOG, OWN_RECORDS, UNSENT_PRESENT
from checks.audit.engine.group import sections
from checks.audit.engine.parts import Part
from checks.audit.engine.survey import RowRule, SurveyPlan
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.readers import entry_of
from checks.audit.facts.retention import KIND, Deletion
from checks.audit.facts.run_facts import ABORTED, COMMITTED, NO_TXN, UNKNOWN_END
from checks.audit.findings import CAP, OPEN, POSITION, Finding, Reason
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import TOPICS, Evidence, Rule, RunData, moved_start, present

IN_FLIGHT = "max.in.flight.requests.per.connection"
COMPACTED = Reason("their records may have been compacted away", "use a topic that is not compacted")

UNWATCHED = total("unwatched")
"""Sends of producers that read no delivery report, by topic."""
NOT_REQUIRED = total("not_required")
"""Acknowledged records of transactions that were aborted or have no known end, by topic."""


def lost_write(b: ProducerBlock, tally: Tally) -> None:
    """Report acknowledged (producer, incarnation, seq) that are nowhere in the log; in a compacted topic, see lost_key.

    Evicted records, and records of a topic that an administrator deleted, are counted apart;
    undecided ones are reported as such; see `ProducerBlock.absent`. A record of a transaction that was aborted, or
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
    absent = absent[~among(b.sent[absent], b.logged)]
    absent = absent[~b.in_compacted(absent)]
    evicted, unsure = b.absent(absent)
    for topic, rows in b.by_topic(s, absent[evicted]):
        tally.add(EVICTED, topic, value=len(rows))
    for reason, mask in unsure.items():
        b.report_undecided("lost_write", absent[mask], reason, tally)
    b.report("lost_write", s, absent[~(evicted | np.any([*unsure.values()], axis=0))], lambda i: _lost(b, i), tally)


def _count_not_required(b: ProducerBlock, tally: Tally) -> None:
    if b.facts.transactions:
        s = b.all_sends
        found = np.flatnonzero((s["outcome"] == OK) & np.isin(s["end"], (ABORTED, UNKNOWN_END)))
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
        other_copies=len(b.logged[b.appends_of(int(s["seq"][i]))]),
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

    Undecided for an unanswered send to a compacted topic: its record may have been in the log.
    """
    if entry_of(b.producer) not in b.facts.unwatched:
        return
    for topic, rows in b.by_topic(b.all_sends, np.arange(len(b.all_sends["seq"]))):
        tally.add(UNWATCHED, topic, value=len(rows))
    names = {number: name for name, number in OUTCOMES.items()}
    outcome, invoked_us = b.sends["outcome"], b.sends["invoked_us"]
    absent = np.flatnonzero(outcome != OK)
    absent = absent[~among(b.sent[absent], b.logged)]
    unsure = b.in_compacted(absent) & (outcome[absent] == UNKNOWN)
    b.report_undecided("unnoticed_failure", absent[unsure], COMPACTED, tally)

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

    In a transaction, only if read_committed readers see the record; undecided if that is unknown. If the same
    incarnation sent the record again, by a send that did not fail, the copy belongs to that send.
    """
    s, c = b.sends, b.appends
    failed = np.flatnonzero(s["outcome"] == FAIL)
    failed = failed[among(b.sent[failed], b.logged)]
    failed = failed[~among(b.sent[failed], b.sent[s["outcome"] != FAIL])]
    for topic, rows in b.by_topic(s, failed):
        found, unknown = [], 0
        for i in rows.tolist():
            appends = b.appends_of_send(i)
            seen = c["committed"][appends]
            if s["end"][i] == NO_TXN or (seen == 1).any():
                times = {"invoked_us": int(s["invoked_us"][i]), "failed_us": int(s["completed_us"][i])}
                found.append(b.appended(int(appends[np.argmax(seen == 1)]), **times))
            else:
                unknown += bool((seen == NONE).any())
        tally.report_undecided("resurrected_write", topic, unknown, OPEN)
        tally.report("resurrected_write", topic, len(found), found)


def _kept_topics(s: Scenario) -> set[str]:
    """Return the topics that keep each record until retention deletes it."""
    return {topic.name for topic in s.topics} - s.compacted


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
    partition, offset, timestamp = (part.ints(name) for name in ("partition", "offset", "timestamp_us"))
    left = timestamp != NONE
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
    return {name: row[name] for name in POSITION} | {"at_us": row["timestamp_us"], "evidence": evidence}


def unsent_record(b: ProducerBlock, tally: Tally) -> None:
    """Report log records of this run without a send row as phantom_write.

    Their incarnation never existed, or stopped with everything on record except this send. The row of a crashed
    incarnation may be lost with it, so its records are only counted.
    """
    c = b.appends
    unsent = np.flatnonzero(~among(b.logged, b.sent))
    for (incarnation,), section in sections(c["incarnation"][unsent]):
        rows, end = section.ints(unsent), b.facts.producer_ends.get((b.producer, incarnation))
        if end is not None and end != "stopped":
            for topic, of_topic in b.by_topic(c, rows):
                tally.add(UNSENT_PRESENT, topic, value=len(of_topic))
            continue
        why = "unknown incarnation" if end is None else "the producer stopped without sending it"
        b.report("phantom_write", c, rows, partial(b.appended, why=why, carried_run=b.facts.run_token), tally)


def duplicate_write(b: ProducerBlock, tally: Tally) -> None:
    """Report each copy of a (producer, seq) after the first, across incarnations too.

    Copies that only read_uncommitted readers see do not count: their transaction was aborted.
    """
    if (b.appends["committed"] == 0).any():
        b = b.visible()
    seq = b.appends["seq"]

    def shown(i: int) -> dict[str, Any]:
        appends = b.appends_of(int(seq[i]))
        first = b.appended(appends.start)
        evidence = {"copy": i - appends.start + 1, "@appends": appends.stop - appends.start}
        evidence |= {f"first_{name}": first[name] for name in ("topic", "partition", "offset", "incarnation")}
        return b.appended(i, **evidence, first_timestamp_us=first["at_us"])

    b.report("duplicate_write", b.appends, np.flatnonzero(seq[1:] == seq[:-1]) + 1, shown, tally)


def _explain_duplicate(f: Finding, e: Evidence, c: RunData) -> str:
    first = f"written at {e['first_topic']}/{e['first_partition']} offset {e['first_offset']}"
    again = f"again at {f['topic']}/{f['partition']} offset {f['offset']}"
    if e["first_incarnation"] != f["incarnation"]:
        again = f"{again} by incarnation {f['incarnation']} after the restart"
        return f"{first} by incarnation {e['first_incarnation']}, and {again}"
    idempotence = c.setting(f["producer"], "enable.idempotence", "false")
    earlier = _origin(c, e["first_topic"], e["first_partition"], e["first_offset"])
    later = _origin(c, f["topic"], f["partition"], f["offset"])
    if earlier is None or later is None:
        return f"{first}, and {again} by a retry of the same producer (enable.idempotence={idempotence})"
    e |= {f"first_{name}": value for name, value in earlier.items()} | later
    numbered = "with sequence number {sequence} of producer epoch {producer_epoch}"
    written = f"{first} {numbered.format(**earlier)}, and {again} {numbered.format(**later)}"
    return f"{written}: {_why_not_recognized(f, earlier, later, c)}"


def _origin(c: RunData, topic: str, partition: int, offset: int) -> Evidence | None:
    """Return producer id, epoch and sequence number of a record in the log; None if they are not known."""
    batch = c.batch(topic, partition, offset)
    if batch is None:
        return None
    sequence = (batch["base_sequence"] + offset - batch["base_offset"]) % 2**31  # KIP-98: 0 follows the highest
    return {"producer_id": batch["producer_id"], "producer_epoch": batch["producer_epoch"], "sequence": sequence}


def _why_not_recognized(f: Finding, earlier: Evidence, later: Evidence, c: RunData) -> str:
    """Return why the broker did not refuse a record that it has from the same incarnation of an idempotent producer."""
    if earlier["producer_id"] != later["producer_id"]:
        return f"the producer took another id, {later['producer_id']} after {earlier['producer_id']}"
    if earlier == later:
        return "the broker has appended the same sequence number twice"
    if earlier["producer_epoch"] == later["producer_epoch"]:
        return "the client sent it as two records, which no broker can recognize"
    why = "in a new epoch, an unanswered record has a new sequence number, so that no broker recognizes it"
    library = c.library(f["producer"] or "")
    if library is None or library.runtime != DEFAULT:
        return why
    why += "; librdkafka takes a new epoch when records time out, or a partition has an error (its issue 4953)"
    several = c.setting(f["producer"], IN_FLIGHT, c.setting(f["producer"], "max.in.flight", "")) != "1"
    return f"{why}, which {IN_FLIGHT}=1 avoids" if several else why


def reordered_write(b: ProducerBlock, tally: Tally) -> None:
    """Report records of an incarnation that are in a partition after a record sent later.

    A further copy of a seq that is also at a lower offset is a duplicate, not a reorder.
    """
    appends = b.all_appends
    for (number, partition, life), rows in sections(appends["topic"], appends["partition"], appends["incarnation"]):
        seq, offset, timestamp = (rows.ints(appends[n]) for n in ("seq", "offset", "timestamp_us"))
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


def _sealed(s: Scenario) -> set[str]:
    """Return the topics in which a record may have a CRC: all but those in which each has nothing but an id."""
    bare = {topic for p in s.producers if p.unmarked for topic in p.written}
    sealed = {topic for p in s.producers if not p.unmarked for topic in p.written} | {p.to for p in s.processors}
    return {topic.name for topic in s.topics} - (bare - sealed)


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
        counts_undecided=True,
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
    "phantom_write": Rule(
        examines=(IN_LOG,),
        explain="{why}",
        scopes=TOPICS,
        rows=RowRule("log", foreign_record),
        writes=unsent_record,
    ),
    "corrupt_record": Rule(
        examines=(CRC_CHECKED,),
        explain="",
        scopes=TOPICS.among(_sealed, "no record has a CRC: producers write with mark: none"),
        rows=RowRule("log", corrupt_record),
    ),
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
