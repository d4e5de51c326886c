"""Cutting parts into blocks, so that what has to be held against each other comes together on one executor.

Writes meet by who sent them: a block is 2^20 seqs of one producer, with its sends and its records in the log. Reads
meet by place: a block is 2^20 offsets of one partition, with its log records and everybody's deliveries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from checks.audit.large.case import Case
from checks.audit.large.columns import NONE, Ints, Part
from checks.audit.large.group import runs, sections
from checks.audit.large.pack import Columns, pack
from checks.audit.large.survey import BLOCK_BITS, committers

OK, FAIL, UNKNOWN = 0, 1, 2
OUTCOMES = {"ok": OK, "fail": FAIL, "unknown": UNKNOWN}

SEND = ("seq", "incarnation", "topic", "partition", "offset", "outcome", "end", "invoked_us", "completed_us")
COPY = ("seq", "incarnation", "topic", "partition", "offset", "timestamp", "committed")
RECORD = ("offset", "who", "seq", "timestamp", "committed")
DELIVERY = ("epoch", "ordinal", "offset", "who", "seq", "sent_us", "polled_us", "processed_us")
ACK = ("offset", "who", "seq", "end", "last_us", "completed_us")
GAP = ("epoch", "begin", "end", "expected", "next_offset", "processed_us", "polled")
COMMIT = ("committer", "offset", "kind", "outcome", "requested_us", "completed_us")
DONE = ("epoch", "at_us", "done")
RUN = ("first", "last")
"""The columns of each kind of rows in a block; topics, `who`s and committers are numbers of those in `Case`.

`end` is what became of the transaction (`case.NO_TXN`, …), `last_us` when the last send to it was invoked, `committed`
1, 0, or NONE where it is not known, and `polled` 1 where what a gap lacks was polled and never done.
"""

KINDS = ("sync", "async", "auto", "transaction")
COMMITTED = {"ok": 0, "unknown": 1}
NOT_COMMITTED = 2

NEEDED = {
    "sends": ("producer", "txn", *(name for name in SEND if name != "end")),
    "log": ("topic", "partition", "offset", "timestamp", "run", "producer", "incarnation", "seq", "committed"),
    "deliveries": (
        *("consumer", "incarnation", "assignment", "ordinal", "topic", "partition", "offset"),
        *("producer", "producer_incarnation", "seq", "sent_us", "polled_us", "processed_us"),
    ),
    "commits": (
        *("consumer", "incarnation", "group", "mode", "assignment", "topic", "partition", "offset", "kind", "outcome"),
        *("requested_us", "completed_us"),
    ),
}
OF_TRANSACTIONS = ("txn", "polled_us")
"""Those of them that are of use only where something was sent in a transaction."""
Piece = tuple[str, str, bytes]
"""Block, kind of rows, rows."""


def needed(table: str, case: Case) -> tuple[str, ...]:
    """The columns that are read of a table."""
    return NEEDED[table] if case.transactions else tuple(c for c in NEEDED[table] if c not in OF_TRANSACTIONS)


def cut(part: Part, case: Case) -> Iterator[Piece]:
    """The pieces of one part of any table."""
    if part.rows:
        yield from {"sends": _sends, "log": _log, "deliveries": _deliveries, "commits": _commits}[part.table](
            part, case
        )


def write_block(producer: str, block: int) -> str:
    """The name of a block of seqs."""
    return json.dumps(["write", producer, block])


def read_block(topic: str, partition: int, block: int) -> str:
    """The name of a block of offsets."""
    return json.dumps(["read", topic, partition, block])


def commit_block(topic: str, partition: int) -> str:
    """The name of the block of all commits on a partition."""
    return json.dumps(["commits", topic, partition])


def _sends(part: Part, case: Case) -> Iterator[Piece]:
    codes, producers = part.codes("producer")
    outcomes, words = part.codes("outcome")
    columns = {name: part.ints(name) for name in SEND if name not in ("topic", "outcome", "end")}
    columns["topic"] = _topics(part, case)
    columns["outcome"] = np.array([OUTCOMES.get(word, UNKNOWN) for word in words], np.int64)[outcomes]
    columns["end"], last_us = _ends(part, codes, producers, case)
    for (code, block), mine in sections(codes, columns["seq"] >> BLOCK_BITS):
        yield write_block(producers[code], block), "sends", pack({n: mine.ints(columns[n]) for n in SEND})
    if case.contested:
        columns["last_us"], columns["who"] = last_us, _who(codes, producers, columns["incarnation"], case)
        yield from _acks(columns, case)


def _ends(part: Part, codes: Ints, producers: list[str], case: Case) -> tuple[Ints, Ints]:
    """What became of each send's transaction, and when the last send to it was invoked."""
    ends, last_us = np.zeros(part.rows, np.int64), np.full(part.rows, NONE, np.int64)
    txn = part.ints("txn") if case.transactions else np.full(part.rows, NONE, np.int64)
    inside = np.flatnonzero(txn != NONE)
    for (code, life), mine in sections(codes[inside], part.ints("incarnation")[inside]):
        rows = mine.ints(inside)
        ends[rows], last_us[rows] = case.transactions[producers[code], life].at(txn[rows].astype(np.int64))
    return ends, last_us


def _acks(columns: Columns, case: Case) -> Iterator[Piece]:
    """What was acknowledged where, of the blocks of offsets in which that has to be looked at."""
    placed = np.flatnonzero((columns["outcome"] == OK) & (columns["offset"] != NONE) & (columns["partition"] != NONE))
    kept = {n: columns[n][placed] for n in (*ACK, "topic", "partition")}
    for (topic, partition, block), mine in sections(kept["topic"], kept["partition"], kept["offset"] >> BLOCK_BITS):
        if (case.topics[topic], partition, block) in case.contested:
            packed = pack({n: mine.ints(kept[n]) for n in ACK})
            yield read_block(case.topics[topic], partition, block), "acks", packed


def _log(part: Part, case: Case) -> Iterator[Piece]:
    codes, producers = part.codes("producer")
    columns = {n: part.ints(n) for n in ("seq", "incarnation", "partition", "offset", "timestamp")}
    columns["topic"] = _topics(part, case)
    committed, told = part.flags("committed")
    columns["committed"] = np.where(told, committed.astype(np.int64), NONE)
    own = np.flatnonzero(part.own_records(case.run))
    whole = len(own) == part.rows
    kept = columns if whole else {n: c[own] for n, c in columns.items()}
    for (code, block), mine in sections(codes if whole else codes[own], kept["seq"] >> BLOCK_BITS):
        yield write_block(producers[code], block), "log", pack({n: mine.ints(kept[n]) for n in COPY})
    columns["who"] = _who(codes, producers, columns["incarnation"], case)
    yield from _by_place(case, columns, RECORD, "records")
    if case.committers:
        yield from _runs_of_log(columns, case)


def _runs_of_log(columns: Columns, case: Case) -> Iterator[Piece]:
    """The log as runs of contiguous offsets, for the commits on each partition."""
    yield from _runs(columns, "runs", case)
    if len(seen := np.flatnonzero(columns["committed"] != 0)) < len(columns["offset"]):
        yield from _runs({n: columns[n][seen] for n in ("topic", "partition", "offset")}, "committed_runs", case)
    else:
        yield from _runs(columns, "committed_runs", case)


def _runs(columns: Columns, kind: str, case: Case) -> Iterator[Piece]:
    for (topic, partition), mine in sections(columns["topic"], columns["partition"]):
        offset = mine.ints(columns["offset"])
        if (offset[1:] < offset[:-1]).any():
            offset = np.sort(offset)
        starts = runs(offset - np.arange(len(offset)))
        lasts = offset[np.append(starts[1:], len(offset)) - 1]
        yield commit_block(case.topics[topic], partition), kind, pack({"first": offset[starts], "last": lasts})


def _deliveries(part: Part, case: Case) -> Iterator[Piece]:
    codes, producers = part.codes("producer")
    columns = {n: part.ints(n) for n in ("ordinal", "partition", "offset", "seq", "sent_us", "processed_us")}
    columns["polled_us"] = part.ints("polled_us") if case.transactions else np.full(part.rows, NONE, np.int64)
    columns["topic"] = _topics(part, case)
    columns["who"] = _who(codes, producers, part.ints("producer_incarnation"), case)
    starts: list[Ints] = []
    numbers: list[Ints] = []
    consumers, clients = part.codes("consumer")
    gaps: list[Columns] = []
    keys = consumers, part.ints("incarnation"), part.ints("assignment"), columns["topic"], columns["partition"]
    for (consumer, life, assignment, topic, partition), mine in sections(*keys):
        place = case.topics[topic], partition
        epoch = case.epoch_ids[(clients[consumer], life, assignment, *place)]
        starts.append(mine.starts)
        numbers.append(np.full(len(mine.starts), epoch))
        ordinal, offset, at_us = (mine.ints(columns[n]) for n in ("ordinal", "offset", "processed_us"))
        found = _gaps(ordinal, offset, at_us, case.heads[part.path, epoch])
        found["polled"] = np.zeros(len(found["begin"]), np.int64)
        if case.epochs[epoch].reader in case.pooled and len(found["begin"]):
            of_life = (consumers == consumer) & (keys[1] == life)
            found["polled"] = _polled(found, ordinal, offset, columns["ordinal"][of_life])
        gaps += _within_log(found, epoch, topic, partition, case)
        if case.epochs[epoch].reader in case.committing:
            yield commit_block(*place), "done", pack(_done(epoch, offset, at_us))
    order = np.argsort(begins := np.concatenate(starts))
    columns["epoch"] = np.repeat(np.concatenate(numbers)[order], np.diff(begins[order], append=part.rows))
    yield from _by_place(case, columns, DELIVERY, "deliveries")
    if gaps:
        together = {n: np.concatenate([g[n] for g in gaps]) for n in gaps[0]}
        yield from _by_place(case, together, GAP, "gaps", at="begin")


def _done(epoch: int, offset: Ints, at_us: Ints) -> Columns:
    """How far (the highest offset + 1) an epoch had come at each time at which it processed."""
    starts = runs(at_us)
    done = np.maximum.reduceat(offset, starts) + 1
    return {"epoch": np.full(len(starts), epoch, np.int64), "at_us": at_us[starts], "done": done}


def _commits(part: Part, case: Case) -> Iterator[Piece]:
    (kinds, kind_names), (outcomes, outcome_names) = part.codes("kind"), part.codes("outcome")
    columns = {n: part.ints(n) for n in ("partition", "offset", "requested_us", "completed_us")}
    columns["topic"] = _topics(part, case)
    columns["kind"] = np.array([KINDS.index(k) if k in KINDS else 0 for k in kind_names], np.int64)[kinds]
    columns["outcome"] = np.array([COMMITTED.get(o, NOT_COMMITTED) for o in outcome_names], np.int64)[outcomes]
    columns["committer"] = np.zeros(part.rows, np.int64)
    for committer, mine in committers(part):
        columns["committer"][mine.index] = case.committer_ids[committer]
    for (topic, partition), mine in sections(columns["topic"], columns["partition"]):
        packed = pack({n: mine.ints(columns[n]) for n in COMMIT})
        yield commit_block(case.topics[topic], partition), "commits", packed


def _by_place(case: Case, columns: Columns, names: tuple[str, ...], kind: str, at: str = "offset") -> Iterator[Piece]:
    for (topic, partition, block), mine in sections(columns["topic"], columns["partition"], columns[at] >> BLOCK_BITS):
        yield read_block(case.topics[topic], partition, block), kind, pack({n: mine.ints(columns[n]) for n in names})


def _topics(part: Part, case: Case) -> Ints:
    codes, names = part.codes("topic")
    return np.array([case.topic_ids[name] for name in names], np.int64)[codes]


def _who(codes: Ints, producers: list[str], incarnation: Ints, case: Case) -> Ints:
    """The number of each row's producer and incarnation."""
    starts = runs(codes, incarnation)
    names = [*producers, None]  # the code of a null is -1
    pairs = zip(codes[starts].tolist(), incarnation[starts].tolist(), strict=True)
    numbers = np.array([case.who_ids[names[c], n] for c, n in pairs], np.int64)
    return np.repeat(numbers, np.diff(starts, append=len(codes)))


def _gaps(ordinal: Ints, offset: Ints, processed_us: Ints, head: tuple[int, int]) -> Columns:
    """Where an epoch went on above the offset that was due: at its beginning the position, then the highest + 1."""
    if (ordinal[1:] < ordinal[:-1]).any():
        order = np.argsort(ordinal, kind="stable")
        offset, processed_us = offset[order], processed_us[order]
    due = np.empty_like(offset)
    first, reached = head
    due[0] = first if first != NONE else offset[0]
    np.maximum.accumulate(offset[:-1] + 1, out=due[1:])
    np.maximum(due[1:], reached, out=due[1:])
    found = np.flatnonzero(offset > due)
    return {"begin": due[found], "next_offset": offset[found], "processed_us": processed_us[found]}


def _polled(gaps: Columns, ordinal: Ints, offset: Ints, of_life: Ints) -> Ints:
    """Whether what a gap lacks was polled, and died with its workers: 1 or 0.

    Ordinals count what a life of the consumer polled. Where as many of them have no row as the gap has offsets, between
    the deliveries on its two sides, the gap is theirs; a poll that left records out leaves no ordinals out.
    """
    order = np.argsort(ordinal, kind="stable")
    ordinal, offset = ordinal[order], offset[order]
    there = np.sort(of_life)
    after = np.searchsorted(offset, gaps["next_offset"]) if (offset[1:] > offset[:-1]).all() else None
    if after is None:  # it went back: nothing is excused
        return np.zeros(len(gaps["begin"]), np.int64)
    until = ordinal[after]
    since = np.where(after > 0, ordinal[np.maximum(after - 1, 0)], -1)
    rows = np.searchsorted(there, until, "left") - np.searchsorted(there, since, "right")
    absent = until - since - 1 - rows
    return (absent >= gaps["next_offset"] - gaps["begin"]).astype(np.int64)


def _within_log(gaps: Columns, epoch: int, topic: int, partition: int, case: Case) -> list[Columns]:
    """Gaps as far as the log reaches, cut at the borders of blocks."""
    if not len(gaps["begin"]):
        return []
    place = case.topics[topic], partition
    begin = np.maximum(gaps["begin"], case.ranges.get(place, (None, None))[0] or 0)
    end = np.minimum(gaps["next_offset"], case.log_ends.get(place, 0))
    kept = np.flatnonzero(begin < end)
    begin, end = begin[kept], end[kept]
    blocks = ((end - 1) >> BLOCK_BITS) - (begin >> BLOCK_BITS) + 1
    which = np.repeat(np.arange(len(kept)), blocks)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    first = (((begin >> BLOCK_BITS)[which] + nth) << BLOCK_BITS).astype(np.int64)
    whole = {n: gaps[n][kept][which] for n in ("next_offset", "processed_us", "polled")}
    whole |= {n: np.full(len(which), v, np.int64) for n, v in (("epoch", epoch), ("topic", topic))}
    whole |= {"partition": np.full(len(which), partition, np.int64), "expected": gaps["begin"][kept][which]}
    whole["begin"] = np.maximum(begin[which], first)
    whole["end"] = np.minimum(end[which], first + (1 << BLOCK_BITS))
    return [whole]
