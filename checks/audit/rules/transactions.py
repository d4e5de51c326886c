"""Transactions in the log: torn_transaction, hanging_transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from checks.audit.arrays import NONE, Columns, Mask
from checks.audit.engine.blocks import OK, UNKNOWN
from checks.audit.engine.counters import TRANSACTION_WRITERS
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.observed import Span, joined
from checks.audit.facts.run_facts import ABORTED, COMMITTED
from checks.audit.findings import Finding
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import Evidence, Rule, RunData, no_transactional_client, no_transactions, present
from checks.audit.undecided import OPEN, Reason

HANGS_US = 10_000_000
"""Maximum time without progress of the last stable offset after the end of every transaction that explains it."""
IN_TRANSACTIONS = total("in_transactions")
"""Records sent in transactions of known end that `torn_transaction` judges, by topic."""
STABLE_OFFSETS = total("stable_offsets")
"""Observed changes of last stable offsets, by topic."""


def torn_transaction(b: ProducerBlock, tally: Tally) -> None:
    """Report records on the wrong side of their transaction.

    These are the acknowledged records of a committed transaction that read_committed readers do not see (hidden, or
    absent and not evicted), and those of an aborted one that they see. A record of an aborted transaction is judged
    without an acknowledgement too: its request may arrive after the abort, in the next transaction (KIP-890).
    Undetermined if their visibility is unknown. If the client never learned the end of a transaction, either side is
    right. In a compacted topic, `lost_key` judges absent records.
    """
    _count_transactional(b, tally)
    s = b.sends
    inside = np.flatnonzero(_judged(s))
    inside = inside[~b.of_ended(inside)]
    evicted, unsure = b.absent(inside)
    evicted |= b.in_compacted(inside)
    reasons = [next((reason for reason, mask in unsure.items() if mask[i]), None) for i in range(len(inside))]
    whys = list(map(partial(_torn, b), inside.tolist(), evicted.tolist(), reasons))
    why = dict(zip(inside.tolist(), whys, strict=True))
    for reason in dict.fromkeys(w for w in whys if isinstance(w, Reason)):
        b.report_undetermined("torn_transaction", inside[np.array([w == reason for w in whys])], reason, tally)

    def shown(i: int) -> dict[str, Any]:
        return b.send(i, why=why[i], invoked_us=int(s["invoked_us"][i]))

    b.report(
        "torn_transaction", s, inside[np.array([isinstance(w, str) and bool(w) for w in whys], np.bool_)], shown, tally
    )


def _judged(sends: Columns) -> Mask:
    """Return which sends to judge: acknowledged ones of known end, and unknown ones of aborted transactions.

    An unknown send of a record that was sent again is left out, because its copy may be that of the other send.
    """
    acknowledged = (sends["outcome"] == OK) & np.isin(sends["end"], (COMMITTED, ABORTED))
    unknown: Mask = (sends["outcome"] == UNKNOWN) & (sends["end"] == ABORTED)
    if unknown.any():
        records = np.stack([sends["seq"], sends["incarnation"]])
        _, record, times = np.unique(records, axis=1, return_inverse=True, return_counts=True)
        unknown &= times[record.reshape(-1)] == 1
    judged: Mask = acknowledged | unknown
    return judged


def _torn(b: ProducerBlock, i: int, evicted: bool, unsure: Reason | None) -> str | Reason:
    """Return why a record is on the wrong side, empty if it is not, or why that is unknown.

    unsure: why it is unknown whether an absent record was evicted.
    """
    seen = b.copies["committed"][b.acknowledged_copies(i)]
    visible = bool((seen == 1).any())
    if len(seen) and not visible and (seen == NONE).any():
        return OPEN
    if b.sends["end"][i] == ABORTED:
        return "aborted, yet seen" if visible else ""
    if len(seen):
        return "" if visible else "committed, yet hidden"
    if unsure and not evicted:
        return unsure
    return "" if evicted else "committed, yet absent"


def _count_transactional(b: ProducerBlock, tally: Tally) -> None:
    if not b.facts.transactions:
        return
    s = b.all_sends
    for topic, rows in b.by_topic(s, np.flatnonzero(_judged(s))):
        tally.add(IN_TRANSACTIONS, topic, value=len(rows))


def hanging_transaction(run: RunData, tally: Tally) -> None:
    """Report partitions with a last stable offset that stays below the end for longer than `HANGS_US`.

    The time counts from the end of every transaction that was open when it stopped; at the end of the drive any such
    time is a finding. Only observations with an answer of the partition's leader count. Only transactions of producers
    that wrote in transactions to the partition explain it, and only if their end is known.
    """
    writers = run.survey.members(TRANSACTION_WRITERS)
    ended = [t for t in run.transactions if t["outcome"] in ("committed", "aborted")]
    keys = ("last_stable_offset", "end_offset", "offsets_answer")
    for entity in run.observed.entities("last_stable_offset"):
        topic, _, number = entity.rpartition("/")
        partition = int(number)
        tally.add(STABLE_OFFSETS, topic, value=len(run.observed.changes(entity, "last_stable_offset")))
        for offset, span in joined(_stuck(run.observed.spans(*((entity, key) for key in keys)))):
            explaining = [
                t["ended_us"]
                for t in ended
                if t["began_us"] <= span.begin_us < t["ended_us"]
                and (topic, partition, t["producer"], t["incarnation"]) in writers
            ]
            unexplained_us = span.end_us - min(max(explaining, default=span.begin_us), span.end_us)
            if unexplained_us > HANGS_US or (span.open and unexplained_us > 0):
                evidence: dict[str, Any] = {
                    "stood_from_us": span.begin_us,
                    "stood_until_us": span.end_us,
                    "unexplained_for_us": unexplained_us,
                    "end_offset": span.values["end_offset"],
                    "at_the_end": span.open,
                }
                position = {"topic": topic, "partition": partition, "offset": offset, "at_us": span.begin_us}
                tally.report("hanging_transaction", topic, 1, [position | {"evidence": evidence}])


def _stuck(spans: Iterable[Span]) -> Iterator[tuple[int | None, Span]]:
    """Yield the last stable offset of each span if it is below the end and the leader answers, else None."""
    for s in spans:
        lso, end = s.values["last_stable_offset"], s.values["end_offset"]
        below = isinstance(lso, int) and isinstance(end, int) and lso < end and s.values["offsets_answer"] is not False
        yield (lso if below else None), s


def _explain_hanging(f: Finding, e: Evidence, c: RunData) -> str:
    e |= present(fault=c.last_fault(e["stood_from_us"]))
    sentence = (
        f"the last stable offset stayed at {f['offset']} for {e['unexplained_for_us'] / 1e6:.1f} s below the end "
        f"{e['end_offset']}, and no recorded transaction was open"
    )
    sentence += ", to the end of the drive" if e["at_the_end"] else ", then it moved on"
    return sentence + (f"; the last fault before was {e['fault']}" if "fault" in e else "")


RULES = {
    "torn_transaction": Rule(
        examines=(IN_TRANSACTIONS,),
        explain="its transaction was {why} by read_committed readers of the final log",
        inapplicable=no_transactional_client,
        writes=torn_transaction,
    ),
    "hanging_transaction": Rule(
        examines=(STABLE_OFFSETS,),
        explain=_explain_hanging,
        inapplicable=no_transactions,
        needs_clock=True,
        run=hanging_transaction,
    ),
}
