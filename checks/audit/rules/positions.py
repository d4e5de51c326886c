"""Positions of records: misplaced_write, misrouted_write, offset_reuse, backdated_write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np

from chaos.scenario.model import Scenario
from chaos.setup.clients import settings_of
from checks.audit.arrays import NEVER_US, NONE, Columns, Ints, Mask, among, distinct
from checks.audit.engine.blocks import BLOCK_BITS, OK
from checks.audit.engine.counters import DELIVERED_FROM, LOCATED
from checks.audit.engine.group import dense, sections
from checks.audit.engine.parts import Part
from checks.audit.engine.survey import RowRule, SurveyPlan
from checks.audit.engine.tally import Aggregate, Tally, collection, total
from checks.audit.facts.readers import entry_of
from checks.audit.facts.routes import routes
from checks.audit.findings import CAP, POSITION, Finding
from checks.audit.rules.partition_block import PartitionBlock
from checks.audit.rules.producer_block import ProducerBlock
from checks.audit.rules.rule import TOPICS, Evidence, Rule, RunData, learns, present

NOT_IN_LOG = total("located_not_in_log")
"""Acknowledged records with an offset that are not in the log, or were in a topic that was deleted, by topic."""
MIXED = total("mixed_offsets")
"""Acknowledgements and deliveries with an unknown life of their topic, by topic."""
COMPARABLE = total("comparable")
"""Acknowledged records in the log, by topic and partition."""
COMPARED = total("compared_writes")
"""Those in partitions with records of several producers, by topic."""
DATED = total("dated_deliveries")
"""Deliveries of records with the time of their send, by topic."""
ROUTED = total("routed")
"""Acknowledged records with a promised partition, by topic."""


def misplaced_write(b: ProducerBlock, tally: Tally) -> None:
    """Report records acknowledged at one position and found only at others, in the same incarnation.

    An acknowledgement without an offset has no position.
    """
    s, c = b.sends, b.appends
    located = np.flatnonzero((s["outcome"] == OK) & (s["offset"] != NONE))
    there = among(b.sent[located], b.logged) & ~b.of_ended(located)
    for topic, rows in b.by_topic(s, located[~there]):
        tally.add(NOT_IN_LOG, topic, value=len(rows))
    acked = located[there]
    names = ("topic", "partition", "offset")
    sides = [np.concatenate([b.sent[acked], b.logged]), *(np.concatenate([s[n][acked], c[n]]) for n in names)]
    positions, _ = dense(sides)
    elsewhere = ~np.isin(positions[: len(acked)], positions[len(acked) :])
    no_partition = np.flatnonzero(s["partition"][acked] == NONE)
    elsewhere[[n for n in no_partition if _at_offset(b, int(acked[n]))]] = False

    def shown(i: int) -> dict[str, Any]:
        found = b.appended(int(b.appends_of_send(i)[0]))
        times = {name: int(s[name][i]) for name in ("invoked_us", "completed_us")}
        return b.send(i, acked_offset=int(s["offset"][i]), **{f"found_{name}": found[name] for name in names}, **times)

    b.report("misplaced_write", s, acked[elsewhere], shown, tally)


def _at_offset(b: ProducerBlock, send: int) -> bool:
    """Return whether a copy is at the acknowledged topic and offset; for acknowledgements without a partition."""
    rows, c, s = b.appends_of_send(send), b.appends, b.sends
    return bool(((c["topic"][rows] == s["topic"][send]) & (c["offset"][rows] == s["offset"][send])).any())


def _located_topics(s: Scenario) -> set[str]:
    """Return the topics with offsets that a writer learns: acks is not 0, and the library reports them."""
    found = {p.to for p in s.processors if learns(p.client)}
    for p in s.producers:
        config = settings_of(p)
        if str(config.get("acks", config.get("request.required.acks", "all"))) != "0" and learns(p.client):
            found.update(p.written)
    return found


def _seen_topics(s: Scenario) -> set[str]:
    """Return the topics with offsets of records known from an acknowledgement or a delivery."""
    names = [topic.name for topic in s.topics]
    return _located_topics(s).union(*(reader.topics_among(names) for reader in s.readers))


_NO_OFFSETS = "no producer learns the offset of a record (acks=0, or a library that does not report it)"
_SEEN = TOPICS.among(_seen_topics, f"{_NO_OFFSETS}, and there is no reader")


def _routed_topics(s: Scenario) -> set[str]:
    promised = routes(s)
    return {topic for p in s.producers if p.name in promised for topic in p.written}


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
        covered = np.append(route.covers(texts), False)[keys] if route.by != "seq" else True  # NONE is the last one
        rows = np.flatnonzero(ok & (codes == code) & covered)
        rows = rows[~np.isin(topics[rows], [i for i, name in enumerate(names) if name in plan.lives.ended])]
        if not len(rows):
            continue
        topic = names[topics[rows[0]]]
        tally.add(ROUTED, topic, value=len(rows))
        places, known = route.places(texts, keys[rows], seq[rows], part.ints("completed_us")[rows])
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


@dataclass(frozen=True)
class Seen:
    """A run of acknowledged records: offset, identity and times of the first one, and their number."""

    offset: int
    length: int
    identity: dict[str, Any]
    invoked_us: int
    completed_us: int


SIGHTS = ("acknowledged", "delivered", "in the log")
RECORDS_SHOWN = 4
"""Records in the evidence of one reused offset."""


def offset_reuse(block: PartitionBlock, tally: Tally) -> None:
    """Report offsets at which two different records were acknowledged, delivered, or in the log.

    Records without an identity cannot be distinguished and are left out. Each offset is one finding.
    """
    if block.topic in block.facts.lives.mixed:
        return
    reused = _reused_offsets(block)
    if not len(reused):
        return
    shown = reused[:CAP]
    sides = [(block.acks, "completed_us"), (block.deliveries, "processed_us"), (block.log, "timestamp_us")]
    chosen = [np.flatnonzero(np.isin(side["offset"], shown) & block.named[side["sender"]]) for side, _ in sides]
    rows = {
        n: np.concatenate([side[n][at] for (side, _), at in zip(sides, chosen, strict=True)])
        for n in ("offset", "sender", "seq")
    }
    rows["at_us"] = np.concatenate([side[time][at] for (side, time), at in zip(sides, chosen, strict=True)])
    rows["sight"] = np.repeat(np.arange(3), [len(at) for at in chosen])
    order = np.lexsort((rows["sight"], rows["at_us"], rows["seq"], rows["sender"], rows["offset"]))
    rows = {n: column[order] for n, column in rows.items()}
    found = (_reused(block, int(at), {n: c[rows["offset"] == at] for n, c in rows.items()}) for at in shown)
    tally.report("offset_reuse", block.topic, len(reused), found)


def count_mixed(run: RunData, tally: Tally) -> None:
    """Count what `offset_reuse` leaves out."""
    for topic in run.facts.lives.mixed:
        tally.add(MIXED, topic, value=tally.count(LOCATED, topic) + tally.count(DELIVERED_FROM, topic))


def _reused_offsets(block: PartitionBlock) -> Ints:
    """Return the offsets at which two different records with an identity were seen."""
    others = [_not_in_log(block, side) for side in (block.acks, block.deliveries)]
    offset, sender, seq = (np.concatenate(columns) for columns in zip(*others, strict=True))
    at = offset - block.base
    logged = block.row[at]
    other = np.full(len(block.row), NONE, np.int32)
    other[at] = np.arange(len(at))
    one = other[at]
    differs: Mask = (sender != sender[one]) | (seq != seq[one])
    differs[logged >= 0] |= block.named[block.log["sender"][logged[logged >= 0]]]
    return distinct(offset[differs])


def _not_in_log(block: PartitionBlock, side: Columns) -> tuple[Ints, Ints, Ints]:
    """Return offset, sender and seq of records with an identity that are not the record in the log at that offset."""
    offset, sender, seq = (side[name] for name in ("offset", "sender", "seq"))
    odd: Mask = block.named[sender]
    if len(block.log["offset"]):
        row = block.row[offset - block.base]
        odd &= (row < 0) | (block.log["sender"][row] != sender) | (block.log["seq"][row] != seq)
    return offset[odd], sender[odd], seq[odd]


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


EDGE_ACKED: Aggregate[list[tuple[int, list[Seen]]]] = collection("edge_acked")
"""By topic and partition: block of offsets, and its acknowledgements of two producers that came first."""
EDGE_SENT: Aggregate[list[tuple[int, list[Seen]]]] = collection("edge_sent")
"""By topic and partition: block of offsets, and the records in it that were sent last."""
EDGE = 20
"""Records of a block that are compared with records of later blocks, of each kind."""


def backdated_write(block: PartitionBlock, tally: Tally) -> None:
    """Report records at a lower offset than one of another producer that was acknowledged before their send was called.

    Both are in the final log at the acknowledged offsets, so that no lost record explains it. `reordered_write`
    judges the order of the records of one producer. The log has no record of a topic that was deleted.
    """
    acked = _acked_in_log(block)
    if not len(acked["offset"]):
        return
    tally.add(COMPARABLE, block.topic, block.partition, value=int(acked["length"].sum()))
    sender, invoked_us = acked["sender"], acked["invoked_us"]
    before_us = np.full(len(sender), NEVER_US)
    suspects = invoked_us > _earliest_after(acked["completed_us"])
    for number in distinct(sender[suspects]).tolist():
        of_others = _earliest_after(np.where(sender == number, NEVER_US, acked["completed_us"]))
        before_us = np.where(suspects & (sender == number), of_others, before_us)
    wrong = np.flatnonzero(invoked_us > before_us)

    def shown(i: int) -> Iterator[dict[str, Any]]:
        others = (acked["completed_us"] == before_us[i]) & (sender != sender[i])
        after = i + 1 + int(np.argmax(others[i + 1 :]))
        return _backdated(block.topic, block.partition, _seen(block, acked, i), _seen(block, acked, after))

    rows = chain.from_iterable(map(shown, wrong[:CAP].tolist()))
    tally.report("backdated_write", block.topic, int(acked["length"][wrong].sum()), islice(rows, CAP))
    _add_edges(block, acked, wrong, tally)


def _acked_in_log(block: PartitionBlock) -> Columns:
    """Return the acknowledgements of records that are in the log at the acknowledged offset, as runs, by offset."""
    acked: Columns = dict(block.ack_runs)
    if len(block.acks["offset"]):
        there = np.flatnonzero(block.agree(block.row[block.acks["offset"] - block.base], block.acks))
        alone = {"length": np.ones(len(there), np.int64)}
        acked = {n: np.concatenate([c, alone[n] if n in alone else block.acks[n][there]]) for n, c in acked.items()}
    order = np.argsort(acked["offset"], kind="stable")
    return {n: c[order] for n, c in acked.items()}


def _earliest_after(at_us: Ints) -> Ints:
    """Return for each row the lowest time in the rows after it."""
    found = np.full(len(at_us), NEVER_US)
    found[:-1] = np.minimum.accumulate(at_us[:0:-1])[::-1]
    return found


def _seen(block: PartitionBlock, acked: Columns, i: int) -> Seen:
    length, invoked_us, completed_us = (int(acked[n][i]) for n in ("length", "invoked_us", "completed_us"))
    identity = block.identity(int(acked["sender"][i]), acked["seq"][i])
    return Seen(int(acked["offset"][i]), length, identity, invoked_us, completed_us)


def _backdated(topic: str, partition: int, records: Seen, before: Seen) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the findings of some records. before: what had been acknowledged."""
    evidence = {
        "how": "acknowledged",
        "acked_producer": before.identity["producer"],
        "acked_seq": before.identity["seq"],
        "acked_offset": before.offset,
        "acked_us": before.completed_us,
        "invoked_us": records.invoked_us,
    }
    for nth in range(records.length):
        position = {"topic": topic, "partition": partition, "offset": records.offset + nth}
        record = records.identity | {"seq": records.identity["seq"] + nth, "at_us": records.completed_us}
        yield position | record | {"evidence": evidence}


def _add_edges(block: PartitionBlock, acked: Columns, wrong: Ints, tally: Tally) -> None:
    """Add what decides whether records of this block are before ones of later blocks. wrong: rows with a finding."""
    number, place = int(acked["offset"][0]) >> BLOCK_BITS, (block.topic, block.partition)
    latest = _latest(acked["invoked_us"], wrong)
    tally.add(EDGE_SENT, *place, value=[(number, [_seen(block, acked, i) for i in latest])])
    firsts = _first_of_two(acked["sender"], acked["completed_us"])
    tally.add(EDGE_ACKED, *place, value=[(number, [_seen(block, acked, i) for i in firsts])])


def _latest(at_us: Ints, left_out: Ints) -> list[int]:
    """Return the `EDGE` rows of the highest times, ascending, without some rows."""
    found = np.delete(np.arange(len(at_us)), left_out) if len(left_out) else np.arange(len(at_us))
    if len(found) > EDGE:
        lowest = np.partition(at_us[found], -EDGE)[-EDGE]
        found = found[at_us[found] >= lowest]
    latest: list[int] = found[np.argsort(at_us[found], kind="stable")[-EDGE:]].tolist()
    return latest


def _first_of_two(sender: Ints, at_us: Ints) -> list[int]:
    """Return the first row by time of each of the two senders that are first, in this order."""
    first_us = np.full(int(sender.max()) + 1, NEVER_US)
    np.minimum.at(first_us, sender, at_us)
    both = np.flatnonzero((first_us <= np.sort(first_us)[:2][-1]) & (first_us < NEVER_US))
    rows = [int(np.flatnonzero((sender == number) & (at_us == first_us[number]))[0]) for number in both.tolist()]
    return sorted(rows, key=lambda i: (at_us[i], i))[:2]


def backdated_over_blocks(run: RunData, tally: Tally) -> None:
    """Report the records that `backdated_write` compares with records of later blocks."""
    acknowledged = dict(tally.each(EDGE_ACKED))
    for place, blocks in acknowledged.items():
        if len({_sender(seen) for _, some in blocks for seen in some}) > 1:
            tally.add(COMPARED, place[0], value=tally.count(COMPARABLE, *place))
    for (topic, partition), blocks in list(tally.each(EDGE_SENT)):
        for number, records in blocks if len(blocks) > 1 else ():
            later = [seen for other, some in acknowledged[topic, partition] if other > number for seen in some]
            for record in records:
                others = [seen for seen in later if _sender(seen) != _sender(record)]
                first = min(others, key=lambda seen: (seen.completed_us, seen.offset), default=None)
                if first is not None and record.invoked_us > first.completed_us:
                    shown = islice(_backdated(topic, partition, record, first), CAP)
                    tally.report("backdated_write", topic, record.length, shown)


def _sender(seen: Seen) -> tuple[Any, Any]:
    return seen.identity["producer"], seen.identity["incarnation"]


def delivered_before_sent(part: Part, plan: SurveyPlan, tally: Tally) -> None:
    """Report deliveries of records before their send was called, as backdated_write."""
    sent_us, polled_us = part.ints("sent_us"), part.ints("polled_us")
    seen_us = np.where(polled_us != NONE, polled_us, part.ints("processed_us"))
    topics, names = part.codes("topic")
    dated = (sent_us != NONE) & (part.codes("producer")[0] != NONE)
    for code, count in enumerate(np.bincount(topics[dated], minlength=len(names)).tolist()):
        if count:
            tally.add(DATED, names[code], value=count)
    early = np.flatnonzero(dated & (seen_us < sent_us))
    if not len(early):
        return
    for (code,), rows in sections(topics[early]):
        wrong = early[rows.index]
        # a topic that was created again has a name for each of its lives, which the row does not have
        shown = [_early(row, names[code]) for row in part.take(wrong[:CAP])]
        tally.report("backdated_write", names[code], len(wrong), shown)


def _early(row: dict[str, Any], topic: str) -> dict[str, Any]:
    evidence = {"how": "delivered", "invoked_us": row["sent_us"], "polled_us": row["polled_us"]}
    record = {name: row[name] for name in ("partition", "offset", "producer", "seq", "consumer")} | {"topic": topic}
    return record | {"incarnation": row["producer_incarnation"], "at_us": row["processed_us"], "evidence": evidence}


def _explain_backdated(f: Finding, e: Evidence, c: RunData) -> str:
    if e["how"] == "delivered":
        early_ms = (e["invoked_us"] - e.get("polled_us", f["at_us"])) / 1e3
        return f"{f['consumer']} got it {early_ms:.1f} ms before {f['producer']} sent it"
    late_ms = (e["invoked_us"] - e["acked_us"]) / 1e3
    other = f"seq {e['acked_seq']} of {e['acked_producer']} at offset {e['acked_offset']}"
    return f"sent {late_ms:.1f} ms after {other} had been acknowledged, and yet it is at offset {f['offset']}"


RULES = {
    "backdated_write": Rule(
        examines=(COMPARED, DATED),
        explain=_explain_backdated,
        scopes=_SEEN,
        vacant="no partition has acknowledged records of two producers, and none was delivered",
        needs_clock=True,
        rows=RowRule("deliveries", delivered_before_sent, columns=("sent_us",)),
        reads=backdated_write,
        run=backdated_over_blocks,
    ),
    "misplaced_write": Rule(
        examines=(LOCATED,),
        explain="acked at {topic}/{partition} offset {acked_offset}, "
        "found at {found_topic}/{found_partition} offset {found_offset}",
        scopes=TOPICS.among(_located_topics, _NO_OFFSETS),
        leaves_out={NOT_IN_LOG: "the log does not have their records any more"},
        writes=misplaced_write,
    ),
    "misrouted_write": Rule(
        examines=(ROUTED,),
        explain=_explain_misrouted,
        scopes=TOPICS.among(_routed_topics, "no partitioner promises a partition"),
        rows=RowRule("sends", misrouted_write, columns=("seq", "key"), needed=lambda plan: bool(plan.routes)),
    ),
    "offset_reuse": Rule(
        examines=(LOCATED, DELIVERED_FROM),
        explain=_explain_reuse,
        scopes=_SEEN,
        leaves_out={MIXED: "to which of the topics with their name they belong is unknown"},
        reads=offset_reuse,
        run=count_mixed,
    ),
}
