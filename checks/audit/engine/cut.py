"""Cutting parts into blocks, so that rows that are compared meet on one executor. See `blocks`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from chaos.ledger.schemas import INPUT_COLUMNS
from checks.audit.arrays import NONE, Columns, Ints
from checks.audit.engine import shares
from checks.audit.engine.blocks import (
    BLOCK_BITS,
    COMMIT_KINDS,
    KINDS,
    OK,
    OUTCOMES,
    UNKNOWN,
    Piece,
    block_name,
    by_offset,
    pack,
    piece,
    sender_numbers,
    topic_numbers,
)
from checks.audit.engine.commits import committers, outcomes
from checks.audit.engine.group import Rows, runs, sections
from checks.audit.engine.keys import rows_by_key
from checks.audit.engine.outputs import rows_by_count, rows_by_input
from checks.audit.engine.parts import Part
from checks.audit.engine.survey import COLUMNS
from checks.audit.facts.readers import entry_of
from checks.audit.facts.run_facts import NO_TXN, TXN_TIMES, RunFacts

_TRANSACTION_COLUMNS = ("txn", "polled_us")
"""Columns that are needed only if something was sent in a transaction."""
_KEY_COLUMNS = ("key", "tombstone")
"""Columns that are needed only if a topic is compacted."""
_OF_RUNS = tuple(name for name in KINDS["ack_runs"] if name != "length")
_COUNT_COLUMNS = ("count",)
"""Columns that are needed only if a processor counts."""
_COLUMNS = {
    "sends": ("producer", "key", *(name for name in KINDS["sends"] if name != "end")),
    "log": (
        *("topic", "partition", "offset", "timestamp_us", "run", "producer", "incarnation", "seq", "committed", "key"),
        "tombstone",
        *INPUT_COLUMNS,
        *_COUNT_COLUMNS,
    ),
    "deliveries": (
        *("consumer", "incarnation", "assignment", "ordinal", "topic", "partition", "offset"),
        *("producer", "producer_incarnation", "seq", "sent_us", "polled_us", "processed_us"),
    ),
    "commits": COLUMNS["commits"],
    **shares.CUT_COLUMNS,
}


def columns_of(table: str, facts: RunFacts) -> tuple[str, ...]:
    """Return the columns to read of a table."""
    unused = set(() if facts.transactions else _TRANSACTION_COLUMNS)
    unused |= set(() if facts.compacted else _KEY_COLUMNS) - set(("key",) if facts.counted and table == "log" else ())
    unused |= set(() if facts.counted else _COUNT_COLUMNS)
    unused |= set(() if facts.lineage else INPUT_COLUMNS)
    return tuple(c for c in _COLUMNS[table] if c not in unused)


def cut(part: Part, facts: RunFacts) -> Iterator[Piece]:
    """Yield the pieces of one part of any table."""
    if part.rows:
        yield from _CUTTERS[part.table](part, facts)


def _sends(part: Part, facts: RunFacts) -> Iterator[Piece]:
    codes, producers = part.codes("producer")
    outcomes, outcome_names = part.codes("outcome")
    columns = {name: part.ints(name) for name in KINDS["sends"] if name not in ("topic", "outcome", "end", "txn")}
    columns["txn"] = part.ints("txn") if facts.transactions else np.full(part.rows, NONE, np.int64)
    columns["topic"] = topic_numbers(part, facts)
    columns["outcome"] = np.array([OUTCOMES.get(name, UNKNOWN) for name in outcome_names], np.int64)[outcomes]
    transactions = _transactions(part, codes, producers, facts)
    columns["end"] = transactions.pop("end")
    for (code, block), rows in sections(codes, columns["seq"] >> BLOCK_BITS):
        yield piece(block_name("write", producers[code], block), "sends", columns, rows)
    columns["sender"] = sender_numbers(codes, producers, columns["incarnation"], facts)
    yield from _acknowledged(columns | transactions, facts)
    if facts.compacted:
        columns["tombstone"] = _tombstones(codes, producers, columns["seq"], facts)
        deleted = (columns["tombstone"] == 1) & (columns["outcome"] == UNKNOWN)
        yield from rows_by_key(part, columns, "keyed_sends", (columns["outcome"] == OK) | deleted, facts)


def _tombstones(codes: Ints, producers: list[str], seq: Ints, facts: RunFacts) -> Ints:
    """Return 1 for each send of a tombstone, else 0."""
    every = [facts.tombstone_every.get(entry_of(producer), 0) for producer in producers]
    of_row = np.array(every, np.int64)[codes]
    return np.where(of_row > 0, (seq + 1) % np.maximum(of_row, 1) == 0, False).astype(np.int64)


def _transactions(part: Part, codes: Ints, producers: list[str], facts: RunFacts) -> Columns:
    """Return the end of each send's transaction, and the times of `run_facts.Transactions`."""
    columns = {name: np.full(part.rows, NONE, np.int64) for name in TXN_TIMES}
    columns["end"] = np.full(part.rows, NO_TXN, np.int64)
    if not facts.transactions:
        return columns
    txn = part.ints("txn")
    inside = np.flatnonzero(txn != NONE)
    for (code, life), section in sections(codes[inside], part.ints("incarnation")[inside]):
        rows = section.ints(inside)
        for name, values in facts.transactions[producers[code], life].at(txn[rows].astype(np.int64)).items():
            columns[name][rows] = values
    return columns


def _acknowledged(columns: Columns, facts: RunFacts) -> Iterator[Piece]:
    """Yield the acknowledged positions by block of offsets: in contested blocks all of them, in other blocks of
    partitions with several senders as runs."""
    located = (columns["outcome"] == OK) & (columns["offset"] != NONE) & (columns["partition"] != NONE)
    names = "topic", "partition", *(KINDS["acks"] if facts.contested else _OF_RUNS)
    kept = columns if located.all() else {n: columns[n][located] for n in names}
    starts = _starts_of_runs(kept)
    ends = np.append(starts, len(kept["seq"]))[1:]
    found = {n: kept[n][starts].astype(np.int64, copy=False) for n in ("topic", "partition", *_OF_RUNS)}
    found["length"] = ends - starts
    for (topic, partition, block), rows in sections(found["topic"], found["partition"], found["offset"] >> BLOCK_BITS):
        place = facts.topics[topic], partition
        name = block_name("read", *place, block)
        if (*place, block) in facts.contested:
            first, last = starts[rows.starts], ends[rows.starts + rows.lengths - 1]
            yield piece(name, "acks", kept, Rows(first, last - first))
        elif place in facts.with_several_senders:
            yield piece(name, "ack_runs", found, rows)


def _starts_of_runs(acked: Columns) -> Ints:
    """Return the rows that do not go on where the row before ends: with equal times, and the next offset and seq."""
    times, same = acked["invoked_us"], ("completed_us", "topic", "partition", "sender")
    on = np.flatnonzero(times[1:] == times[:-1]) + 1  # few, so that little is left to compare
    for name, step in (*((name, 0) for name in same), ("offset", 1), ("seq", 1)):
        on = on[acked[name][on] - acked[name][on - 1] == step]
    on = on[acked["offset"][on] & ((1 << BLOCK_BITS) - 1) != 0]
    starts = np.ones(len(times), np.bool_)
    starts[on] = False
    return np.flatnonzero(starts)


def _log(part: Part, facts: RunFacts) -> Iterator[Piece]:
    codes, producers = part.codes("producer")
    columns = {n: part.ints(n) for n in ("seq", "incarnation", "partition", "offset", "timestamp_us")}
    columns["topic"] = topic_numbers(part, facts)
    committed, known = part.flags("committed")
    columns["committed"] = np.where(known, committed.astype(np.int64), NONE)
    own = np.flatnonzero(part.own_records(facts.run_token))
    all_own = len(own) == part.rows
    kept = columns if all_own else {n: c[own] for n, c in columns.items()}
    for (code, block), rows in sections(codes if all_own else codes[own], kept["seq"] >> BLOCK_BITS):
        yield piece(block_name("write", producers[code], block), "log", kept, rows)
    columns["sender"] = sender_numbers(codes, producers, columns["incarnation"], facts)
    yield from by_offset(facts, columns, "records")
    if facts.compacted:
        seq = columns["seq"] if all_own else np.where(part.own_records(facts.run_token), columns["seq"], NONE)
        tombstone, known = part.flags("tombstone")
        columns["tombstone"] = np.where(known, tombstone.astype(np.int64), NONE)
        yield from rows_by_key(part, columns | {"seq": seq}, "keyed_log", np.ones(part.rows, np.bool_), facts)
    if facts.lineage:
        yield from rows_by_input(part, columns, own, facts)
    if facts.counted:
        yield from rows_by_count(part, columns, own, facts)
    if facts.committers:
        yield from _runs_of_log(columns, "runs", facts)
        visible = columns["committed"] != 0
        if not visible.all():
            columns = {n: columns[n][visible] for n in ("topic", "partition", "offset")}
        yield from _runs_of_log(columns, "committed_runs", facts)


def _runs_of_log(columns: Columns, kind: str, facts: RunFacts) -> Iterator[Piece]:
    """Yield the log as runs of contiguous offsets, for the commits on each partition."""
    for (topic, partition), rows in sections(columns["topic"], columns["partition"]):
        offset = rows.ints(columns["offset"])
        if (offset[1:] < offset[:-1]).any():
            offset = np.sort(offset)
        starts = runs(offset - np.arange(len(offset)))
        lasts = offset[np.append(starts[1:], len(offset)) - 1]
        block = block_name("commits", facts.topics[topic], partition)
        yield block, kind, pack({"first": offset[starts], "last": lasts})


def _deliveries(part: Part, facts: RunFacts) -> Iterator[Piece]:
    codes, producers = part.codes("producer")
    columns = {n: part.ints(n) for n in ("ordinal", "partition", "offset", "seq", "sent_us", "processed_us")}
    columns["polled_us"] = part.ints("polled_us") if facts.transactions else np.full(part.rows, NONE, np.int64)
    columns["topic"] = topic_numbers(part, facts)
    columns["sender"] = sender_numbers(codes, producers, part.ints("producer_incarnation"), facts)
    consumers, clients = part.codes("consumer")
    lives = part.ints("incarnation")
    starts: list[Ints] = []
    epochs: list[Ints] = []
    gaps: list[Columns] = []
    keys = consumers, lives, part.ints("assignment"), columns["topic"], columns["partition"]
    for (consumer, life, assignment, topic, partition), rows in sections(*keys):
        name = facts.topics[topic]
        epoch = facts.epochs.by_key[clients[consumer], life, assignment, name, partition]
        starts.append(rows.starts)
        epochs.append(np.full(len(rows.starts), epoch.index))
        ordinal, offset, at_us = (rows.ints(columns[n]) for n in ("ordinal", "offset", "processed_us"))
        ordinals = partial(_ordinals, columns["ordinal"], (consumers, consumer), (lives, life))
        polls = ordinals if entry_of(epoch.consumer) in facts.pooled else None
        found = _gaps(ordinal, offset, at_us, facts.heads[part.path, epoch.index], polls)
        if len(found["begin"]):
            gaps.append(_split_by_block(found, epoch.index, topic, partition, facts))
        if epoch.reader in facts.committing:
            yield block_name("commits", name, partition), "progress", pack(_progress(epoch.index, offset, at_us))
    order = np.argsort(begins := np.concatenate(starts))
    columns["epoch"] = np.repeat(np.concatenate(epochs)[order], np.diff(begins[order], append=part.rows))
    yield from by_offset(facts, columns, "deliveries")
    if gaps:
        joined = {n: np.concatenate([g[n] for g in gaps]) for n in gaps[0]}
        yield from by_offset(facts, joined, "gaps", by="begin")


def _ordinals(ordinal: Ints, *keys: tuple[Ints, int]) -> Ints:
    """Return the ordinals of the rows with the given values in some columns."""
    chosen: Ints = ordinal[np.logical_and.reduce([column == value for column, value in keys])]
    return chosen


def _progress(epoch: int, offset: Ints, at_us: Ints) -> Columns:
    """Return the highest offset + 1 that an epoch had processed at each time."""
    starts = runs(at_us)
    reached = np.maximum.reduceat(offset, starts) + 1
    return {"epoch": np.full(len(starts), epoch, np.int64), "at_us": at_us[starts], "reached": reached}


def _gaps(
    ordinal: Ints,
    offset: Ints,
    processed_us: Ints,
    head: tuple[int, int],
    polls: Callable[[], Ints] | None = None,
) -> Columns:
    """Return where an epoch continued above the offset that was due: its position, then the highest offset + 1.

    head: see `RunFacts.heads`. polls: for a consumer with workers, returns all ordinals of the incarnation in the part.
    Columns: begin, next_offset, processed_us, polled.
    """
    in_order_offset, in_order_us = offset, processed_us
    if (ordinal[1:] < ordinal[:-1]).any():
        order = np.argsort(ordinal, kind="stable")
        in_order_offset, in_order_us = offset[order], processed_us[order]
    due = np.empty_like(in_order_offset)
    first, reached = head
    due[0] = first if first != NONE else in_order_offset[0]
    np.maximum.accumulate(in_order_offset[:-1] + 1, out=due[1:])
    np.maximum(due[1:], reached, out=due[1:])
    gap = np.flatnonzero(in_order_offset > due)
    gaps = {"begin": due[gap], "next_offset": in_order_offset[gap], "processed_us": in_order_us[gap]}
    gaps["polled"] = np.zeros(len(gap), np.int64)
    if polls is not None and len(gap):
        gaps["polled"] = _polled(gaps, ordinal, offset, polls())
    return gaps


def _polled(gaps: Columns, ordinal: Ints, offset: Ints, polls: Ints) -> Ints:
    """Return 1 for gaps with records that were polled and lost with their workers, else 0.

    Ordinals count what an incarnation polled. If at least as many ordinals without a row as the gap has offsets are
    between the deliveries on both sides of the gap, they belong to the gap. A poll that leaves records out leaves no
    ordinals out.
    """
    order = np.argsort(ordinal, kind="stable")
    ordinal, offset = ordinal[order], offset[order]
    if not (offset[1:] > offset[:-1]).all():  # the reader went back: no gap is excused
        return np.zeros(len(gaps["begin"]), np.int64)
    recorded = np.sort(polls)
    after = np.searchsorted(offset, gaps["next_offset"])
    until = ordinal[after]
    since = np.where(after > 0, ordinal[np.maximum(after - 1, 0)], -1)
    rows = np.searchsorted(recorded, until, "left") - np.searchsorted(recorded, since, "right")
    absent = until - since - 1 - rows
    return (absent >= gaps["next_offset"] - gaps["begin"]).astype(np.int64)


def _split_by_block(gaps: Columns, epoch: int, topic: int, partition: int, facts: RunFacts) -> Columns:
    """Return gaps limited to the log and split at the borders of blocks; columns: kind `gaps`, topic, partition."""
    key = facts.topics[topic], partition
    begin = np.maximum(gaps["begin"], facts.log_ranges.get(key, (None, None))[0] or 0)
    end = np.minimum(gaps["next_offset"], facts.log_ends.get(key, 0))
    kept = np.flatnonzero(begin < end)
    begin, end = begin[kept], end[kept]
    blocks = ((end - 1) >> BLOCK_BITS) - (begin >> BLOCK_BITS) + 1
    gap = np.repeat(np.arange(len(kept)), blocks)
    nth = np.arange(len(gap)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    first = (((begin >> BLOCK_BITS)[gap] + nth) << BLOCK_BITS).astype(np.int64)
    split = {n: gaps[n][kept][gap] for n in ("next_offset", "processed_us", "polled")}
    split |= {
        n: np.full(len(gap), v, np.int64) for n, v in (("epoch", epoch), ("topic", topic), ("partition", partition))
    }
    split["expected"] = gaps["begin"][kept][gap]
    split["begin"] = np.maximum(begin[gap], first)
    split["end"] = np.minimum(end[gap], first + (1 << BLOCK_BITS))
    return split


def _commits(part: Part, facts: RunFacts) -> Iterator[Piece]:
    kinds, kind_names = part.codes("kind")
    columns = {n: part.ints(n) for n in ("partition", "offset", "requested_us", "completed_us")}
    columns["topic"] = topic_numbers(part, facts)
    columns["kind"] = np.array([COMMIT_KINDS.index(k) if k in COMMIT_KINDS else 0 for k in kind_names], np.int64)[kinds]
    columns["outcome"], columns["done_us"], columns["by_log"] = outcomes(part, facts.decisions)
    columns["committer"] = np.zeros(part.rows, np.int64)
    for committer, rows in committers(part):
        columns["committer"][rows.index] = facts.committer_ids[committer]
    for (topic, partition), rows in sections(columns["topic"], columns["partition"]):
        yield piece(block_name("commits", facts.topics[topic], partition), "commits", columns, rows)


_CUTTERS: dict[str, Callable[[Part, RunFacts], Iterator[Piece]]] = {
    "sends": _sends,
    "log": _log,
    "deliveries": _deliveries,
    "commits": _commits,
    "acquisitions": shares.cut_acquisitions,
    "acknowledgements": shares.cut_acknowledgements,
}
