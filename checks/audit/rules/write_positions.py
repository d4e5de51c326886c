"""Positions of records: misplaced_write, misrouted_write, offset_reuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaos.scenario.clients import settings_of
from chaos.scenario.model import Scenario
from checks.audit.arrays import NONE, Ints, Mask
from checks.audit.engine.blocks import OK
from checks.audit.engine.counters import DELIVERED_FROM, LOCATED
from checks.audit.engine.group import dense
from checks.audit.engine.parts import Part
from checks.audit.engine.survey import RowRule, SurveyPlan
from checks.audit.engine.tally import Tally, total
from checks.audit.facts.readers import entry_of
from checks.audit.facts.routes import routes
from checks.audit.findings import CAP, POSITION, Finding
from checks.audit.rules.partition_block import PartitionBlock
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import Evidence, Rule, RunData, present, unless

ROUTED = total("routed")
"""Acknowledged records with a promised partition, by topic."""


def misplaced_write(b: ProducerBlock, tally: Tally) -> None:
    """Report records acknowledged at one position and found only at others, in the same incarnation.

    An acknowledgement without an offset has no position.
    """
    s, c = b.sends, b.copies
    acked = np.flatnonzero((s["outcome"] == OK) & (s["offset"] != NONE) & np.isin(b.sent, b.logged))
    acked = acked[~b.of_ended(acked)]
    names = ("topic", "partition", "offset")
    sides = [np.concatenate([b.sent[acked], b.logged]), *(np.concatenate([s[n][acked], c[n]]) for n in names)]
    positions, _ = dense(sides)
    elsewhere = ~np.isin(positions[: len(acked)], positions[len(acked) :])
    no_partition = np.flatnonzero(s["partition"][acked] == NONE)
    elsewhere[[n for n in no_partition if _at_offset(b, int(acked[n]))]] = False

    def shown(i: int) -> dict[str, Any]:
        found = b.copy(int(b.copies_of_send(i)[0]))
        times = {name: int(s[name][i]) for name in ("invoked_us", "completed_us")}
        return b.send(i, acked_offset=int(s["offset"][i]), **{f"found_{name}": found[name] for name in names}, **times)

    b.report("misplaced_write", s, acked[elsewhere], shown, tally)


def _at_offset(b: ProducerBlock, send: int) -> bool:
    """Return whether a copy is at the acknowledged topic and offset; for acknowledgements without a partition."""
    rows, c, s = b.copies_of_send(send), b.copies, b.sends
    return bool(((c["topic"][rows] == s["topic"][send]) & (c["offset"][rows] == s["offset"][send])).any())


def _learns_offsets(s: Scenario) -> bool:
    """Return whether a producer learns the offsets of its records: acks is not 0, and its library reports them."""
    settings = [settings_of(p) for p in s.producers if not p.client.missing("send outcomes")]
    return any(str(config.get("acks", config.get("request.required.acks", "all"))) != "0" for config in settings)


_NO_OFFSETS = "no producer learns the offset of a record (acks=0, or a library that does not report it)"


def misrouted_write(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    """Report records acknowledged in another partition than the partitioner promises for their key or seq.

    Over an increase of the number of partitions, no order of a key is promised: its records are where the number before
    or the number after the increase puts them, and nowhere else.
    """
    codes, producers = part.codes("producer")
    topics, names = part.codes("topic")
    keys, texts = part.codes("key")
    partition, seq = part.ints("partition").astype(np.int64), part.ints("seq")
    ok = part.equals("outcome", "ok") & (partition != NONE)
    for code, client in enumerate(producers):
        route = plan.routes.get(entry_of(client))
        if route is None:
            continue
        rows = np.flatnonzero(ok & (codes == code) & ((keys != NONE) | (route.by == "seq")))
        rows = rows[~np.isin(topics[rows], [i for i, name in enumerate(names) if name in plan.lives.ended])]
        if not len(rows):
            continue
        topic = names[topics[rows[0]]]
        tally.add(ROUTED, topic, value=len(rows))
        completed_us = part.ints("completed_us")[rows] + plan.clocks.slack_us
        places, known = route.places(texts, keys[rows], seq[rows], completed_us)
        wrong = np.flatnonzero(~(known & (places == partition[rows])).any(axis=0))
        first = wrong[:CAP]
        shown = (
            {name: row[name] for name in POSITION}
            | {"at_us": row["completed_us"]}
            | {
                "evidence": {
                    "promised": sorted(set(places[known[:, i], i].tolist())),
                    "by": route.by,
                    "key": row["key"],
                }
            }
            for i, row in zip(first.tolist(), part.take(rows[first]), strict=True)
        )
        tally.report("misrouted_write", topic, len(wrong), shown)


def _explain_misrouted(f: Finding, e: Evidence, c: RunData) -> str:
    subject, places = f"key {e['key']}" if "key" in e else f"seq {f['seq']}", " or ".join(map(str, e["promised"]))
    return f"acked in {f['topic']}/{f['partition']}, though {subject} belongs to partition {places} by {e['by']}"


SIGHTS = ("acknowledged", "delivered", "in the log")
RECORDS_SHOWN = 4
"""Records in the evidence of one reused offset."""


def offset_reuse(block: PartitionBlock, tally: Tally) -> None:
    """Report offsets at which two different records were acknowledged, delivered, or in the log.

    Records without an identity cannot be distinguished and are left out. Each offset is one finding.
    """
    if block.topic in block.facts.lives.mixed:
        return
    log = block.log
    sides = [(block.acks, "completed_us"), (block.deliveries, "processed_us"), (log, "timestamp")]
    suspects = np.unique(
        np.concatenate([_not_in_log(block, side["offset"], side["sender"], side["seq"]) for side, _ in sides[:2]])
    )
    if not len(suspects):
        return
    rows = {n: np.concatenate([side[n] for side, _ in sides]) for n in ("offset", "sender", "seq")}
    rows["at_us"] = np.concatenate([side[time] for side, time in sides])
    rows["sight"] = np.repeat(np.arange(3), [len(side["offset"]) for side, _ in sides])
    chosen = np.flatnonzero(np.isin(rows["offset"], suspects) & block.named[rows["sender"]])
    rows = {n: column[chosen] for n, column in rows.items()}
    order = np.lexsort((rows["sight"], rows["at_us"], rows["seq"], rows["sender"], rows["offset"]))
    rows = {n: column[order] for n, column in rows.items()}
    new = np.ones(len(order), np.bool_)
    new[1:] = np.logical_or.reduce([rows[n][1:] != rows[n][:-1] for n in ("offset", "sender", "seq")])
    offsets, records = np.unique(rows["offset"][new], return_counts=True)
    reused = offsets[records > 1]
    shown = (_reused(block, int(at), {n: c[rows["offset"] == at] for n, c in rows.items()}) for at in reused[:CAP])
    tally.report("offset_reuse", block.topic, len(reused), shown)


def _not_in_log(block: PartitionBlock, offset: Ints, sender: Ints, seq: Ints) -> Ints:
    """Return the offsets of records with an identity that are not the record in the log at that offset."""
    named: Mask = block.named[sender]
    if not len(block.log["offset"]):
        return offset[named]
    row = block.row[offset - block.base]
    same = (row >= 0) & (block.log["sender"][row] == sender) & (block.log["seq"][row] == seq)
    odd: Ints = offset[named & ~same]
    return odd


def _reused(block: PartitionBlock, at: int, rows: dict[str, Ints]) -> dict[str, Any]:
    """Return the finding of one offset, with the records at it in the order of their first sight."""
    records: dict[tuple[int, int], dict[str, Any]] = {}
    for i in np.argsort(rows["at_us"], kind="stable").tolist():
        sender, seq = int(rows["sender"][i]), int(rows["seq"][i])
        new = block.identity(sender, seq) | {"first_us": int(rows["at_us"][i]), "seen": []}
        seen = records.setdefault((sender, seq), new)["seen"]
        sight = SIGHTS[int(rows["sight"][i])]
        if sight not in seen:
            seen.append(sight)
    listed = list(records.values())
    evidence = {"records": listed[:RECORDS_SHOWN], "how_many": len(listed)}
    position = {"topic": block.topic, "partition": block.partition, "offset": at}
    return position | {"at_us": listed[1]["first_us"], "evidence": evidence}


def _explain_reuse(f: Finding, e: Evidence, c: RunData) -> str:
    first, second = (
        f"seq {r['seq']} of {r['producer']} incarnation {r['incarnation']} ({', '.join(r['seen'])})"
        for r in e["records"][:2]
    )
    began_us = e["records"][0]["first_us"]
    before = c.observed.leader(f["topic"], f["partition"], began_us)
    after = c.observed.next_leader(f["topic"], f["partition"], began_us)
    e |= present(leader=before.broker, leader_epoch=before.epoch, isr=before.isr)
    both = f"offset {f['offset']} was {first}, and also {second}"
    if after is None or after.broker is None:
        return f"{both}; no later leader was seen"
    fault = c.last_fault(after.at_us)
    e |= present(next_leader=after.broker, next_leader_epoch=after.epoch, fault=fault)
    elected = f"broker {after.broker} became leader in epoch {after.epoch} in between or since"
    return f"{both}; {elected}" + (f", after fault {fault}" if fault else "")


RULES = {
    "misplaced_write": Rule(
        examines=(LOCATED,),
        explain="acked at {topic}/{partition} offset {acked_offset}, "
        "found at {found_topic}/{found_partition} offset {found_offset}",
        inapplicable=unless(_learns_offsets, _NO_OFFSETS),
        writes=misplaced_write,
    ),
    "misrouted_write": Rule(
        examines=(ROUTED,),
        explain=_explain_misrouted,
        inapplicable=unless(lambda s: bool(routes(s)), "no partitioner promises a partition"),
        rows=RowRule("sends", misrouted_write, columns=("seq", "key"), needed=lambda plan: bool(plan.routes)),
    ),
    "offset_reuse": Rule(
        examines=(LOCATED, DELIVERED_FROM),
        explain=_explain_reuse,
        inapplicable=unless(
            lambda s: bool(s.readers) or _learns_offsets(s),
            f"{_NO_OFFSETS}, and there is no reader",
        ),
        reads=offset_reuse,
    ),
}
