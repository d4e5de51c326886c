"""The first look at every row: sums, curves, latencies, and what can be judged from one row or its neighbours.

Each function takes one part of a table and adds to a `Tally`. What they leave behind says who read what from when to
when, which is what the second look (`cut`, and the rules) needs to know before it can judge. Rows that differ only in
seq and offset are looked at together, as runs: there are far fewer of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checks.audit.findings import CAP, finding
from checks.audit.large.case import Committer
from checks.audit.large.columns import NONE, Ints, Mask, Part, known
from checks.audit.large.digest import note_places
from checks.audit.large.group import Rows, counted, grouped, runs, sections
from checks.audit.large.segments import segments
from checks.audit.large.tally import Tally, histogram
from checks.audit.large.times import BUCKET_US, bucket, heat, moments
from checks.audit.routing import COLUMNS as routing_columns
from checks.audit.routing import Routes, misrouted_write

BLOCK_BITS = 20
"""A block spans 2^20 offsets of a partition, or 2^20 seqs of a producer."""

NEEDED = {
    "sends": (
        *("producer", "incarnation", "seq", "topic", "partition", "offset", "outcome", "txn"),
        *("invoked_us", "completed_us"),
    ),
    "log": ("topic", "partition", "offset", "timestamp", "run", "producer", "incarnation", "seq", "crc_ok"),
    "deliveries": (
        *("consumer", "incarnation", "group", "mode", "assignment", "ordinal", "topic", "partition", "offset"),
        *("producer", "producer_incarnation", "seq", "polled_us", "processed_us"),
    ),
    "commits": (
        *("consumer", "incarnation", "group", "mode", "assignment", "topic", "partition", "offset", "kind", "outcome"),
        *("requested_us", "completed_us"),
    ),
}
"""The columns that are read of each table."""


@dataclass(frozen=True)
class Wanted:
    """What a survey has to know.

    run: the run's token. injected: fault -> us. cell_us: columns of the heat map. routes: what partitioners promise.
    """

    run: str
    injected: dict[str, int] = field(default_factory=dict)
    cell_us: int = 500_000
    routes: Routes = field(default_factory=dict)

    def needed(self, table: str) -> tuple[str, ...]:
        """The columns that are read of a table."""
        return NEEDED[table] + (routing_columns if table == "sends" and self.routes else ())


def survey(part: Part, wanted: Wanted, tally: Tally) -> None:
    """Add one part of any table."""
    tally.add("sum", "rows", part.table, value=part.rows)
    if part.rows:
        {"sends": _sends, "log": _log, "deliveries": _deliveries, "commits": _commits}[part.table](part, wanted, tally)


def _note_who(codes: Ints, names: list[str], incarnation: Ints, tally: Tally) -> None:
    """Take note of every incarnation of a producer that is seen."""
    starts = runs(codes, incarnation)
    pairs = set(zip(codes[starts].tolist(), incarnation[starts].tolist(), strict=True))
    tally.add("set", "who", value={(names[c] if c >= 0 else None, n) for c, n in pairs})


def _sends(part: Part, wanted: Wanted, tally: Tally) -> None:
    codes, producers = part.codes("producer")
    _note_who(codes, producers, part.ints("incarnation"), tally)
    topics, names = part.codes("topic")
    outcomes, words = part.codes("outcome")
    partition, offset = part.ints("partition"), part.ints("offset")
    invoked, completed = part.ints("invoked_us"), part.ints("completed_us")
    tally.add("max", "drive_end_us", value=int(completed.max()))
    if wanted.routes:
        misrouted_write(part, wanted.routes, tally)
    _backwards(tally, "sends", codes, producers, completed < invoked)
    placed = np.flatnonzero(np.isin(outcomes, [n for n, word in enumerate(words) if word == "ok"]) & (offset >= 0))
    note_places(part, "acked_at", BLOCK_BITS, placed, tally)
    _transactions(part, codes, producers, topics, names, tally)
    starts = runs(topics, outcomes, partition, invoked, completed)
    lengths = np.diff(starts, append=part.rows)
    located = np.add.reduceat((offset >= 0).astype(np.int64), starts)
    highest = np.maximum.reduceat(offset, starts)
    run = [c[starts] for c in (topics, outcomes, partition, invoked, completed)] + [lengths, located, highest]
    for (code,), mine in sections(run[0]):
        _, outcome, places, began, done, count, with_offset, reached = (mine.ints(c) for c in run)
        topic = names[code]
        tally.add("set", "topics", value={topic})
        tally.add("sum", "sent", topic, value=int(count.sum()))
        for nth, word in enumerate(words):
            name = {"ok": "acked", "fail": "failed"}.get(word, word)
            tally.add("sum", name, topic, value=int(count[outcome == nth].sum()))
        ok = outcome == (words.index("ok") if "ok" in words else NONE - 1)
        tally.add("sum", "located", topic, value=int(with_offset[ok].sum()))
        _after(tally, topic, places, began, count, ok, wanted.injected)
        if not ok.any():
            continue
        places, began, done, count, reached = (c[ok] for c in (places, began, done, count, reached))
        moments(tally, "produce", topic, places, done, began, count, wanted.injected)
        took = np.maximum(done - began, 0)
        tally.add("counts", "ack_latency", topic, value=histogram(took, count))
        heat(tally, "ack", topic, done, took, count, wanted.cell_us)
        tally.add("counts", "acked_curve", topic, value=counted(bucket(done), count))
        _reached(tally, "acked_reached", (topic,), places, done, reached)


def _transactions(part: Part, codes: Ints, producers: list[str], topics: Ints, names: list[str], tally: Tally) -> None:
    """When each transaction was still being sent to, and who wrote to which partitions in transactions."""
    txn = part.ints("txn")
    inside = np.flatnonzero(txn != NONE)
    if not len(inside):
        return
    lives, partition, invoked = (part.ints(n)[inside] for n in ("incarnation", "partition", "invoked_us"))
    for (code, life), mine in sections(codes[inside], lives):
        numbers, (last,) = grouped(mine.ints(txn[inside]), (np.maximum, mine.ints(invoked)))
        tally.add("highest", "last_invoked", producers[code], life, value=(numbers, last))
    for (code, life, topic, place), _ in sections(codes[inside], lives, topics[inside], partition):
        tally.add("set", "transactional", value={(names[topic], place, producers[code], life)})


def _backwards(tally: Tally, table: str, codes: Ints, clients: list[str], wrong: Mask) -> None:
    """Rows whose times contradict each other: the clock of their client was set back between them."""
    for (code,), mine in sections(codes[rows := np.flatnonzero(wrong)]):
        tally.add("sum", "clock_backwards", f"{table} of {clients[code]}", value=len(mine.ints(rows)))


def _after(
    tally: Tally, topic: str, partition: Ints, invoked: Ints, count: Ints, ok: Mask, injected: dict[str, int]
) -> None:
    """How much was sent to each partition after each fault, and how much of it was acknowledged."""
    for fault, at_us in injected.items():
        for name, late in (("sent_after", invoked >= at_us), ("acked_after", (invoked >= at_us) & ok)):
            if late.any():
                tally.add("counts", name, fault, topic, value=counted(partition[late], count[late]))


def _reached(tally: Tally, name: str, key: tuple[str, ...], partition: Ints, at_us: Ints, offset: Ints) -> None:
    """The highest offset + 1 in each partition and bucket of time; partition and bucket number in one key."""
    located = offset >= 0
    if located.any():
        keys = (partition[located] << 36) | (at_us[located] // BUCKET_US)
        slots, (highest,) = grouped(keys, (np.maximum, offset[located]))
        tally.add("highest", name, *key, value=(slots, highest + 1))


def _log(part: Part, wanted: Wanted, tally: Tally) -> None:
    codes, producers = part.codes("producer")
    topics, names = part.codes("topic")
    partition, offset = part.ints("partition"), part.ints("offset")
    incarnation, seq = part.ints("incarnation"), part.ints("seq")
    crc_ok, crc_known = part.flags("crc_ok")
    _note_who(codes, producers, incarnation, tally)
    own = part.own_records(wanted.run)
    note_places(part, "stands_at", BLOCK_BITS, np.flatnonzero(own), tally)
    for (code, place), mine in sections(topics, partition):
        topic = names[code]
        tally.add("set", "topics", value={topic})
        tally.add("sum", "in_log", topic, value=len(mine))
        for name, mask in (("own", own), ("checked", crc_known)):
            tally.add("sum", name, topic, value=int(mine.take(mask).sum()))
        tally.add("max", "log_end", topic, place, value=int(mine.ints(offset).max()) + 1)
    corrupt, foreign = np.flatnonzero(crc_known & ~crc_ok), np.flatnonzero(~own)
    _wrong_records(part, "corrupt_record", corrupt, tally)
    _wrong_records(part, "phantom_write", foreign, tally)
    kept = [c if not len(foreign) else c[own] for c in (topics, partition, codes, incarnation, seq >> BLOCK_BITS)]
    _lowest(tally, names, producers, kept, offset if not len(foreign) else offset[own])


def _wrong_records(part: Part, check: str, rows: Ints, tally: Tally) -> None:
    """Records that are wrong by themselves: the CRC does not fit, or they carry no identity of this run."""
    if not len(rows):
        return
    (codes, producers), (topics, names), (carried, tokens) = (part.codes(n) for n in ("producer", "topic", "run"))
    numbers = {n: part.ints(n) for n in ("partition", "offset", "incarnation", "seq", "timestamp")}
    for (code,), mine in sections(topics[rows]):
        chosen = mine.ints(rows)
        order = chosen[np.lexsort((numbers["offset"][chosen], numbers["partition"][chosen]))]
        shown = []
        for i in order[:CAP].tolist():
            told: dict[str, Any] = {n: known(c[i]) for n, c in numbers.items()}
            producer = producers[codes[i]] if codes[i] >= 0 else None
            evidence = {"carried_run": tokens[carried[i]] if carried[i] >= 0 else None}
            if check == "phantom_write":
                evidence["why"] = "identity of another run" if producer is not None else "no identity"
            at_us = told.pop("timestamp")
            row = finding(check, names[code], evidence=evidence, topic=names[code], producer=producer, **told)
            shown.append(row | {"at_us": at_us})
        tally.find(shown, check, "", names[code], len(chosen))


def _lowest(tally: Tally, names: list[str], producers: list[str], keys: list[Ints], offset: Ints) -> None:
    """The lowest offset at which a record of each block of seqs stands, by partition and incarnation.

    keys: topic, partition, producer, incarnation, block.
    """
    starts = runs(*keys)
    if not len(starts):
        return
    lowest = np.minimum.reduceat(offset, starts)
    *where, blocks = (key[starts] for key in keys)
    for (topic, place, code, life), mine in sections(*where):
        distinct, (least,) = grouped(mine.ints(blocks), (np.minimum, mine.ints(lowest)))
        tally.add("lowest", "lowest", producers[code], life, names[topic], place, value=(distinct, least))


def _deliveries(part: Part, wanted: Wanted, tally: Tally) -> None:
    codes, producers = part.codes("producer")
    _note_who(codes, producers, part.ints("producer_incarnation"), tally)
    names = part.codes("topic")[1]
    processed, offset = part.ints("processed_us"), part.ints("offset")
    tally.add("max", "drive_end_us", value=int(processed.max()))
    consumers, clients = part.codes("consumer")
    _backwards(tally, "deliveries", consumers, clients, processed < part.ints("polled_us"))
    for key, reader, mine, segment in segments(part):
        tally.add("all", "segments", *key, value=[segment])
        tally.add("sum", "delivered", reader, value=segment["rows"])
        _moved(tally, reader, key[3], key[4], mine, processed, offset)
        tally.add("sum", "delivered_of", key[3], value=segment["rows"])
    tally.add("set", "topics", value=set(names))


def _moved(tally: Tally, reader: str, topic: str, partition: int, mine: Rows, processed: Ints, offset: Ints) -> None:
    """How much the reader processed when, and how far it came."""
    at_us, offsets = mine.ints(processed), mine.ints(offset)
    starts = runs(at_us)
    at_us, counts = at_us[starts], np.diff(starts, append=len(offsets))
    tally.add("counts", "delivered_curve", reader, value=counted(bucket(at_us), counts))
    places = np.full(len(starts), partition, np.int64)
    _reached(tally, "delivered_reached", (reader, topic), places, at_us, np.maximum.reduceat(offsets, starts))


def _commits(part: Part, wanted: Wanted, tally: Tally) -> None:
    (topics, names), (kinds, kind_names) = part.codes("topic"), part.codes("kind")
    outcomes, words = part.codes("outcome")
    partition, offset = part.ints("partition"), part.ints("offset")
    requested, completed = part.ints("requested_us"), part.ints("completed_us")
    tally.add("set", "topics", value=set(names))
    tally.add("max", "drive_end_us", value=int(completed.max()))
    consumers, clients = part.codes("consumer")
    _backwards(tally, "commits", consumers, clients, (completed < requested) & (completed != NONE))
    ok = np.isin(outcomes, [code for code, word in enumerate(words) if word == "ok"])
    told = np.isin(kinds, [kind_names.index(k) for k in ("sync", "async") if k in kind_names])
    for committer, mine in committers(part):
        tally.add("set", "committers", value={committer})
        tally.add("sum", "committed", committer.reader, value=int(mine.take(ok).sum()))
        if len(timed := mine.index[mine.take(ok & told).astype(bool)]):
            took = np.maximum(completed[timed] - requested[timed], 0)
            value = histogram(took, np.ones(len(took), np.int64))
            tally.add("counts", "commit_latency", committer.reader, value=value)
        rows = mine.index[mine.take(ok).astype(bool)]
        for (code, place), here in sections(topics[rows], partition[rows]):
            highest = int(here.ints(offset[rows]).max())
            key = committer.consumer, committer.incarnation, committer.assignment, names[code], place
            tally.add("max", "committed_to", *key, value=highest)


def committers(part: Part) -> Iterator[tuple[Committer, Rows]]:
    """Who committed what in a part of commits."""
    (consumers, clients), (groups, group_names) = part.codes("consumer"), part.codes("group")
    modes, mode_names = part.codes("mode")
    keys = consumers, part.ints("incarnation"), part.ints("assignment"), modes, groups
    for (consumer, life, assignment, mode, group), mine in sections(*keys):
        name = group_names[group] if group >= 0 else ""
        yield Committer(clients[consumer], life, assignment, mode_names[mode], name), mine
