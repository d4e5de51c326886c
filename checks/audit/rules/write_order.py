"""Repetition and order of records in the log: duplicate_write, reordered_write."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks.audit.arrays import Ints, nullable
from checks.audit.engine.counters import OWN_RECORDS
from checks.audit.engine.group import sections
from checks.audit.engine.tally import Tally
from checks.audit.findings import Finding
from checks.audit.rules.producer_block import ProducerBlock, lowest
from checks.audit.rules.rule import Context, Evidence, Rule


def duplicate_write(b: ProducerBlock, tally: Tally) -> None:
    """Report each copy of a (producer, seq) after the first, across incarnations too.

    Copies that only read_uncommitted readers see do not count: their transaction was aborted.
    """
    if (b.copies["committed"] == 0).any():
        b = b.visible()
    c = b.copies
    repeated = np.flatnonzero(c["seq"][1:] == c["seq"][:-1]) + 1

    def shown(i: int) -> dict[str, Any]:
        copies = b.copies_of(int(c["seq"][i]))
        first = b.copy(copies.start)
        evidence = {"copy": i - copies.start + 1, "copies": copies.stop - copies.start}
        evidence |= {f"first_{name}": first[name] for name in ("topic", "partition", "offset", "incarnation")}
        return b.copy(i) | {"evidence": evidence | {"first_timestamp_us": first["at_us"]}}

    for (number,), section in sections(c["topic"][repeated]):
        rows = section.ints(repeated)
        tally.report(
            "duplicate_write", b.topic(number), len(rows), map(shown, lowest(rows, c["partition"], c["offset"]))
        )


def _explain_duplicate(f: Finding, e: Evidence, c: Context) -> str:
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
            for i in lowest(wrong, offset, seq)
        )
        tally.report("reordered_write", b.topic(number), len(wrong), shown)


def _lowest_after(offset: Ints, later: int | None) -> Ints:
    """Return for each record, in the order of sending, the lowest offset of later ones. later: of later blocks."""
    found = np.full(len(offset), np.iinfo(np.int64).max if later is None else later)
    found[:-1] = np.minimum(np.minimum.accumulate(offset[:0:-1])[::-1], found[-1])
    return found


def _explain_reordered(f: Finding, e: Evidence, c: Context) -> str:
    idempotence = c.setting(f["producer"], "enable.idempotence", "false")
    other = f"seq {e['after_seq']}" if "after_seq" in e else "another record"
    later = f"{other} (offset {e['after_offset']}), which was sent later"
    return f"seq {f['seq']} is behind {later} (enable.idempotence={idempotence})"


RULES = {
    "duplicate_write": Rule(examines=(OWN_RECORDS,), explain=_explain_duplicate, writes=duplicate_write),
    "reordered_write": Rule(examines=(OWN_RECORDS,), explain=_explain_reordered, writes=reordered_write),
}
