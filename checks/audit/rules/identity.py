"""Records that are wrong by themselves: phantom_write, corrupt_record."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import Ints, nullable
from checks.audit.engine.counters import CRC_CHECKED, IN_LOG, UNSENT_PRESENT
from checks.audit.engine.group import sections
from checks.audit.engine.parts import Part
from checks.audit.engine.survey import RowRule, SurveyPlan
from checks.audit.engine.tally import Tally
from checks.audit.findings import CAP, Finding
from checks.audit.rules.producer_block import ProducerBlock, lowest
from checks.audit.rules.rule import Context, Evidence, Rule, no_explanation


def corrupt_record(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    """Report log records with a wrong CRC."""
    correct, checked = part.flags("crc_ok")
    _report_records(part, "corrupt_record", np.flatnonzero(checked & ~correct), tally)


def foreign_record(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    """Report log records without an identity of this run as phantom_write."""
    _report_records(part, "phantom_write", np.flatnonzero(~part.own_records(plan.run_token)), tally)


def _report_records(part: Part, check: str, rows: Ints, tally: Tally) -> None:
    if not len(rows):
        return
    (codes, producers), (topics, names), (carried, tokens) = (part.codes(n) for n in ("producer", "topic", "run"))
    numbers = {n: part.ints(n) for n in ("partition", "offset", "incarnation", "seq")}
    timestamp = part.ints("timestamp")

    def shown(i: int) -> dict[str, Any]:
        producer = producers[codes[i]] if codes[i] >= 0 else None
        evidence = {"carried_run": tokens[carried[i]] if carried[i] >= 0 else None}
        if check == "phantom_write":
            evidence["why"] = "identity of another run" if producer is not None else "no identity"
        row: dict[str, Any] = {n: nullable(c[i]) for n, c in numbers.items()}
        return row | {
            "topic": names[topics[i]],
            "producer": producer,
            "at_us": nullable(timestamp[i]),
            "evidence": evidence,
        }

    for (code,), section in sections(topics[rows]):
        chosen = section.ints(rows)
        order = chosen[np.lexsort((numbers["offset"][chosen], numbers["partition"][chosen]))]
        tally.report(check, names[code], len(chosen), map(shown, order[:CAP].tolist()))


def unsent_record(b: ProducerBlock, tally: Tally) -> None:
    """Report log records of this run without a send row as phantom_write.

    Their incarnation never existed, or stopped with everything on record except this send. The row of a crashed
    incarnation may be lost with it, so its records are only counted.
    """
    c = b.copies
    rows = np.flatnonzero(~np.isin(b.logged, b.sent))
    for (incarnation, number), section in sections(c["incarnation"][rows], c["topic"][rows]):
        topic, end = b.topic(number), b.facts.producer_ends.get((b.producer, incarnation))
        if end is not None and end != "stopped":
            tally.add(UNSENT_PRESENT, topic, value=len(section))
            continue
        why = "unknown incarnation" if end is None else "the producer stopped without sending it"
        evidence = {"why": why, "carried_run": b.facts.run_token}
        first = lowest(section.ints(rows), c["partition"], c["offset"])
        tally.report("phantom_write", topic, len(section), (b.copy(i) | {"evidence": evidence} for i in first))


def _explain_phantom(f: Finding, e: Evidence, c: Context) -> str:
    return str(e["why"])


RULES = {
    "phantom_write": Rule(
        examines=(IN_LOG,), explain=_explain_phantom, rows=RowRule("log", foreign_record), writes=unsent_record
    ),
    "corrupt_record": Rule(examines=(CRC_CHECKED,), explain=no_explanation, rows=RowRule("log", corrupt_record)),
}
