"""Order and completeness of polls within one assignment: nonmonotonic_poll, poll_skip."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import Ints
from checks.audit.engine.counters import DELIVERED
from checks.audit.engine.group import sections
from checks.audit.engine.survey_facts import falls
from checks.audit.engine.tally import Tally
from checks.audit.facts.epochs import Epoch
from checks.audit.findings import CAP, Finding
from checks.audit.rules.partition_block import PartitionBlock
from checks.audit.rules.rule import Context, Evidence, Rule, RunData, all_readers


def nonmonotonic_poll(run: RunData, tally: Tally) -> None:
    """Report deliveries within an epoch, in the order of processing, with an offset not above the one before."""
    readers = {e.key: e.reader for e in run.epochs.all}
    for key, count, deliveries in falls(run.survey):
        tally.report("nonmonotonic_poll", readers[key], count, (_fallen(key, row) for row in deliveries))


def _fallen(key: tuple[Any, ...], row: dict[str, Any]) -> dict[str, Any]:
    consumer, incarnation, assignment, topic, partition = key
    evidence = {
        "previous_offset": row["before"],
        "ordinal": row["ordinal"],
        "assignment": assignment,
        "consumer_incarnation": incarnation,
    }
    record = {name: row[name] for name in ("offset", "producer", "incarnation", "seq")}
    position = {"topic": topic, "partition": partition, "consumer": consumer, "at_us": row["processed_us"]}
    return record | position | {"evidence": evidence}


def _explain_nonmonotonic(f: Finding, e: Evidence, c: Context) -> str:
    return f"{f['consumer']} delivered {f['offset']} after {e['previous_offset']}"


def poll_skip(block: PartitionBlock, tally: Tally) -> None:
    """Report log records that an epoch left out between its start (or first delivery) and its highest delivery."""
    unpolled = block.gaps["polled"] == 0
    gaps = {name: column[unpolled] for name, column in block.gaps.items()}
    for (number,), rows in sections(gaps["epoch"]):
        epoch = block.facts.epochs[number]
        begin, end = rows.ints(gaps["begin"]) - block.base, rows.ints(gaps["end"]) - block.base
        left_out = _covered(begin, end, len(block.row)) & (block.row >= 0)
        if epoch.reader not in block.facts.read_uncommitted:
            left_out &= block.committed(np.arange(len(block.row))) != 0
        delivered = block.deliveries["offset"][block.deliveries["epoch"] == number]
        left_out[delivered - block.base] = False
        found = np.flatnonzero(left_out)
        order = np.argsort(begin, kind="stable")
        gap_of = order[np.searchsorted(begin[order], found[:CAP], "right") - 1]
        shown = (
            _left_out(block, epoch, at, {n: int(rows.ints(gaps[n])[gap]) for n in gaps})
            for at, gap in zip(found[:CAP].tolist(), gap_of.tolist(), strict=True)
        )
        tally.report("poll_skip", epoch.reader, len(found), shown)


def _covered(begin: Ints, end: Ints, size: int) -> Any:
    """Return a mask of the positions 0 to size that at least one range covers."""
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, np.clip(begin, 0, size), 1)
    np.add.at(edges, np.clip(end, 0, size), -1)
    return np.cumsum(edges[:-1]) > 0


def _left_out(block: PartitionBlock, epoch: Epoch, at: int, gap: dict[str, int]) -> dict[str, Any]:
    evidence = {
        "expected_offset": gap["expected"],
        "delivered_instead": gap["next_offset"],
        "assignment": epoch.assignment,
        "consumer_incarnation": epoch.incarnation,
    }
    delivered = {"consumer": epoch.consumer, "at_us": gap["processed_us"], "evidence": evidence}
    return block.record(int(block.row[at])) | delivered


def _explain_skip(f: Finding, e: Evidence, c: Context) -> str:
    return f"{f['consumer']} went on at {e['delivered_instead']} instead of {e['expected_offset']}"


RULES = {
    "nonmonotonic_poll": Rule(
        examines=(DELIVERED,), explain=_explain_nonmonotonic, scopes=all_readers, run=nonmonotonic_poll
    ),
    "poll_skip": Rule(examines=(DELIVERED,), explain=_explain_skip, scopes=all_readers, reads=poll_skip),
}
