"""Counts of processors with state: wrong_count.

A processor with `state: count` writes with each output how many inputs of its key it has processed. The state is kept
by partition, and each partition is processed in the order of its offsets. So if each input takes effect exactly once,
the count of an output is the number of inputs of its key in the partition up to its input, from the first one that the
group got on. At-least-once processing may count an input again after a crash; all later counts of its key are then too
high, because the changelog has what was counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Columns, Ints, nullable
from checks.audit.engine.group import sections
from checks.audit.engine.outputs import CountBlock
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.ranges import ReadRange
from checks.audit.findings import CAP
from checks.audit.rules.rule import READERS, Rule
from checks.audit.undecided import INPUTS_GONE, NO_BEGIN, NO_COUNT, NO_INPUT, OPEN, UNREAD, Reason

COUNTED = total("counted")
"""Outputs of processors that count, except those that readers do not see, by reader."""


def wrong_count(b: CountBlock, tally: Tally) -> None:
    """Report visible outputs of which the count is not that of the inputs of their key up to theirs.

    Inputs count that the group gets: those that read_committed readers of the final log see, or all if it reads
    uncommitted records, from the offset at which the group first began to read the partition. What the group processed
    again, or skipped after it was set to another offset, is no reason for another count.

    Undetermined: outputs of inputs that are not in the log that was read back, or of which earlier ones may be missing
    there; outputs without a count; and where a transaction is open that inputs or the output belong to.
    """
    for group in sorted(b.facts.counting):
        if (traced := b.facts.traced.get(group)) is None:
            continue
        writers = [(name or "").rpartition("/")[0] in traced.writers for name, _ in b.facts.senders]
        topics = [name in traced.topics for name in b.facts.topics]
        o = b.outputs
        mine = np.flatnonzero(np.array([*writers, False])[o["sender"]] & np.array([*topics, False])[o["topic"]])
        tally.add(COUNTED, group, value=int((o["committed"][mine] != 0).sum()))
        for (partition,), section in sections(o["partition"][mine]):
            ranges = b.facts.read_ranges.get((b.topic, partition), [])
            _judge(b, group, next((r for r in ranges if r.reader == group), None), mine[section.index], tally)


def _judge(b: CountBlock, group: str, here: ReadRange | None, rows: Ints, tally: Tally) -> None:
    """Judge the outputs of a group that were made from one partition."""
    outputs = {name: column[rows] for name, column in b.outputs.items()}
    reason = _undecidable(here)
    if here is None or reason is not None:
        unsure = int((outputs["committed"] != 0).sum())
        tally.report_undetermined("wrong_count", group, unsure, reason or UNREAD)
        return
    at, expected, open_before = _expected(b.inputs, here, outputs)
    seen, maybe = outputs["committed"] == 1, outputs["committed"] == NONE
    unknown = {
        NO_INPUT: at == NONE,
        NO_COUNT: (at != NONE) & (outputs["count"] == NONE),
        OPEN: (at != NONE) & (outputs["count"] != NONE) & open_before,
    }
    for why, mask in unknown.items():
        tally.report_undetermined("wrong_count", group, int((mask & (seen | maybe)).sum()), why)
    differs = (outputs["count"] != expected) & ~np.logical_or.reduce(list(unknown.values()))
    tally.report_undetermined("wrong_count", group, int((differs & maybe).sum()), OPEN)
    wrong = np.flatnonzero(differs & seen)
    order = np.lexsort([outputs[name][wrong] for name in ("output_offset", "output_partition", "offset")])
    shown = (_shown(b, outputs, i, int(at[i]), int(expected[i])) for i in wrong[order[:CAP]].tolist())
    tally.report("wrong_count", group, len(wrong), shown)


def _undecidable(here: ReadRange | None) -> Reason | None:
    """Return why the counts of a partition cannot be judged, None if they can."""
    if here is None or here.log_start is None:
        return UNREAD
    if here.began_at is None:
        return NO_BEGIN
    return INPUTS_GONE if here.log_start > here.began_at else None


def _expected(inputs: Columns, here: ReadRange, outputs: Columns) -> tuple[Ints, Ints, Any]:
    """Return for each output the row of its input, how many inputs of the key there are up to it, and whether some of
    these belong to an open transaction. The row is NONE if there is no such input.
    """
    rows = np.flatnonzero((inputs["partition"] == here.partition) & (inputs["offset"] >= (here.began_at or 0)))
    rows = rows[np.lexsort((inputs["offset"][rows], inputs["key"][rows]))]
    key, offset, committed = (inputs[name][rows] for name in ("key", "offset", "committed"))
    counts = (committed == 1) | (not here.committed_only)
    is_open = (committed == NONE) & here.committed_only
    first = np.searchsorted(key, key)  # of each key
    number, opened = (np.cumsum(mask) for mask in (counts, is_open))
    number, opened = (c - (c[first] - m[first]) for c, m in ((number, counts), (opened, is_open)))
    merged = np.lexsort(
        (
            np.repeat([0, 1], [len(rows), len(outputs["key"])]),
            np.concatenate([offset, outputs["offset"]]),
            np.concatenate([key, outputs["key"]]),
        )
    )
    of_input = np.maximum.accumulate(np.where(merged < len(rows), merged, NONE))
    found = np.full(len(outputs["key"]), NONE, np.int64)
    found[merged[merged >= len(rows)] - len(rows)] = of_input[merged >= len(rows)]
    there = found != NONE
    there[there] = (key[found[there]] == outputs["key"][there]) & (offset[found[there]] == outputs["offset"][there])
    at, expected, unsure = (np.full(len(found), NONE, np.int64) for _ in range(3))
    at[there], expected[there], unsure[there] = rows[found[there]], number[found[there]], opened[found[there]]
    return at, expected, unsure > 0


def _shown(b: CountBlock, outputs: Columns, i: int, at: int, expected: int) -> dict[str, Any]:
    client, incarnation = b.facts.senders[int(outputs["sender"][i])]
    place = f"{b.facts.topics[int(outputs['topic'][i])]}/{outputs['output_partition'][i]}"
    evidence = {
        "output": f"{place} at {outputs['output_offset'][i]}",
        "writer": f"{client} (incarnation {incarnation})",
        "count": int(outputs["count"][i]),
        "expected": expected,
    }
    producer, life = b.facts.senders[int(b.inputs["sender"][at])]
    who = {"producer": producer, "incarnation": nullable(life), "seq": nullable(b.inputs["seq"][at])}
    where = {"topic": b.topic, "partition": int(outputs["partition"][i]), "offset": int(outputs["offset"][i])}
    return where | who | {"at_us": nullable(outputs["timestamp"][i]), "evidence": evidence}


RULES = {
    "wrong_count": Rule(
        examines=(COUNTED,),
        explain="{writer} wrote {output} with the count {count}; its input is number {expected} of its key in the "
        "partition",
        scopes=READERS.that(lambda r: r.counts, "no group consists of processors that count"),
        counts_undetermined=True,
        counts=wrong_count,
    ),
}
