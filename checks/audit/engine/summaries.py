"""What the first pass keeps of rows, and the facts that the driver derives from it.

Segments are the deliveries of one epoch in one part, summarised by their ends and by the offsets that fell back.

Digests are of the records at each offset, by block of offsets: blocks with equal digests need no comparison. There are
as many acknowledged and logged positions as records. Where the digests of both sides agree, they hold the same records
at the same offsets (up to a chance of 1 in 2^64), and the acknowledgements of the block are not sent to the executor
that judges it. A digest is a sum modulo 2^64, so it does not depend on the parts that the rows of a block are in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

from checks.audit.arrays import NEVER_US, NONE, Ints, nullable
from checks.audit.engine import counters
from checks.audit.engine.blocks import BLOCK_BITS
from checks.audit.engine.group import Rows, grouped, sections
from checks.audit.engine.parts import Part
from checks.audit.engine.tally import Aggregate, Tally
from checks.audit.facts.epochs import KEY, Epochs, Key, Row
from checks.audit.facts.run_facts import TXN_ENDS, UNKNOWN_END, Sender, Transactions
from checks.audit.findings import CAP

Segment = dict[str, Any]
"""path, mode, group, rows, low, high, polled_us, `first` (the first delivery as `_Deliveries.delivery` returns it),
`last` (the last offset), `falls` (number of offsets not above the one before) and `fallen` (at most CAP of those
deliveries)."""


def segments(part: Part) -> Iterator[tuple[Key, str, Rows, Segment]]:
    """Yield key, reader, rows and segment of each epoch in a part of deliveries."""
    deliveries = _Deliveries(part)
    (groups, group_names), (modes, mode_names) = part.codes("group"), part.codes("mode")
    (consumers, clients), (topics, names) = part.codes("consumer"), part.codes("topic")
    keys = consumers, part.ints("incarnation"), part.ints("assignment"), topics, part.ints("partition"), groups, modes
    for (c, life, assignment, topic, partition, g, m), rows in sections(*keys):
        group, mode = (group_names[g] if g >= 0 else None), mode_names[m]
        reader = (group if mode == "subscribe" else clients[c]) or ""
        segment = deliveries.segment(rows) | {"path": part.path, "mode": mode, "group": group}
        yield (clients[c], life, assignment, names[topic], partition), reader, rows, segment


class _Deliveries:
    """The columns of a part from which segments are made."""

    def __init__(self, part: Part) -> None:
        self._ordinal, self._offset, self._polled = (part.ints(n) for n in ("ordinal", "offset", "polled_us"))
        self._processed, self._seq = part.ints("processed_us"), part.ints("seq")
        self._codes, self._producers = part.codes("producer")
        self._incarnation = part.ints("producer_incarnation")

    def segment(self, rows: Rows) -> Segment:
        """Return the segment of some rows of one epoch."""
        ordinal, offset = rows.ints(self._ordinal), rows.ints(self._offset)
        order = None
        if (ordinal[1:] < ordinal[:-1]).any():
            order = np.argsort(ordinal, kind="stable")
            offset = offset[order]
        falls = np.flatnonzero(offset[1:] <= offset[:-1]) + 1
        shown = falls[np.argsort(offset[falls], kind="stable")[:CAP]].tolist()
        return {
            "rows": len(offset),
            "low": int(offset.min()),
            "high": int(offset.max()),
            "last": int(offset[-1]),
            "first": self.delivery(_row(rows, order, 0), None),
            "polled_us": int(rows.ints(self._polled).min()),
            "falls": len(falls),
            "fallen": [self.delivery(_row(rows, order, i), int(offset[i - 1])) for i in shown],
        }

    def delivery(self, row: int, before: int | None) -> dict[str, Any]:
        """Return one delivery with the offset delivered before it."""
        code = int(self._codes[row])
        return {
            "offset": int(self._offset[row]),
            "ordinal": int(self._ordinal[row]),
            "processed_us": int(self._processed[row]),
            "producer": self._producers[code] if code >= 0 else None,
            "incarnation": nullable(self._incarnation[row]),
            "seq": nullable(self._seq[row]),
            "before": before,
        }


def _row(rows: Rows, order: Ints | None, nth: int) -> int:
    if order is None and nth == 0:
        return rows.first
    return int(rows.index[nth if order is None else order[nth]])


def add_digests(part: Part, aggregate: Aggregate[int], rows: Ints, tally: Tally) -> None:
    """Add the digests of some rows of sends or of the log, by topic, partition and block of offsets."""
    if not len(rows):
        return
    numbers = {n: part.ints(n) for n in ("partition", "offset", "incarnation", "seq")}
    (codes, producers), (topics, names) = part.codes("producer"), part.codes("topic")
    if len(rows) < part.rows:
        numbers = {n: c[rows] for n, c in numbers.items()}
        codes, topics = codes[rows], topics[rows]
    weights = _mixed(numbers, codes, producers)
    block, partition = numbers["offset"] >> BLOCK_BITS, numbers["partition"]
    first_block, first_partition = int(block.min()), int(partition.min())
    blocks, partitions = int(block.max()) - first_block + 1, int(partition.max()) - first_partition + 1
    keys = (topics.astype(np.int64) * partitions + (partition - first_partition)) * blocks + (block - first_block)
    distinct, (sums,) = grouped(keys, (np.add, weights))  # of unsigned numbers: modulo 2^64
    for key, value in zip(distinct.tolist(), sums.tolist(), strict=True):
        place, nth_block = divmod(key, blocks)
        topic, nth_partition = divmod(place, partitions)
        tally.add(aggregate, names[topic], nth_partition + first_partition, nth_block + first_block, value=value)


def _mixed(numbers: dict[str, Ints], codes: Ints, producers: list[str]) -> np.ndarray:
    """Return a 64-bit hash of each row's record (producer, incarnation, seq) and offset."""
    names = np.array([crc32((name or "").encode()) for name in producers] or [0], np.uint64)
    lives = numbers["incarnation"]
    life = lives[:1] if (lives == lives[0]).all() else lives
    sender = names[codes] + (life.astype(np.uint64) << np.uint64(32))
    mixed = numbers["offset"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for value in (numbers["seq"].astype(np.uint64), sender):
        mixed ^= mixed >> np.uint64(31)
        mixed += value
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    return mixed


def rows_of_parts(survey: Tally) -> dict[tuple[str, str], int]:
    """Return by table and path the rows of each part."""
    return {(table, path): rows for (table, path), rows in survey.each(counters.PART_ROWS)}


def later_offsets(survey: Tally) -> dict[tuple[str, int, str, int], tuple[Ints, Ints]]:
    """Return `RunFacts.later_offsets`: from the lowest offset of each block to the lowest of it and all later ones."""
    return {
        key: (blocks, np.minimum.accumulate(lowest[::-1])[::-1])
        for key, (blocks, lowest) in survey.each(counters.LOWEST_OFFSETS)
    }


def transactions(survey: Tally, rows: list[Row]) -> dict[Sender, Transactions]:
    """Return the transactions with sends. rows: table `transactions`; one without a row was cut off by a crash."""
    ends: dict[Sender, dict[int, int]] = {}
    times: dict[Sender, dict[int, list[tuple[int | None, int]]]] = {}
    for row in rows:
        seen = times.setdefault((row["producer"], row["incarnation"]), {}).setdefault(row["txn"], [])
        seen.append((row["requested_us"], row["ended_us"] if row["ended_us"] is not None else NEVER_US))
        by_number = ends.setdefault((row["producer"], row["incarnation"]), {})
        end = TXN_ENDS.get(row["outcome"], UNKNOWN_END)
        by_number[row["txn"]] = end if by_number.get(row["txn"], end) == end else UNKNOWN_END
    found = {}
    for (producer, incarnation), (numbers, last_us) in survey.each(counters.LAST_INVOKED):
        by_number = ends.get((producer, incarnation), {})
        codes = np.array([by_number.get(n, UNKNOWN_END) for n in numbers.tolist()], np.int64)
        requested = [_requested(times.get((producer, incarnation), {}).get(n, ())) for n in numbers.tolist()]
        requested_us, unsure_us = np.array(requested, np.int64).reshape(-1, 2).T
        found[producer, incarnation] = Transactions(numbers, codes, last_us, requested_us, unsure_us)
    return found


def _requested(seen: Sequence[tuple[int | None, int]]) -> tuple[int, int]:
    """Return `requested_us` and `unsure_us` of a transaction (see `Transactions`) from these times of its rows."""
    requested = [at_us for at_us, _ in seen if at_us is not None]
    if len(requested) < len(seen):
        return NONE, max(ended_us for _, ended_us in seen)
    return min(requested, default=NONE), NONE


def contested(survey: Tally) -> frozenset[tuple[str, int, int]]:
    """Return `RunFacts.contested`."""
    in_log = dict(survey.each(counters.LOG_DIGEST))
    transactional = {(topic, partition) for topic, partition, *_ in survey.members(counters.TRANSACTION_WRITERS)}
    return frozenset(
        (topic, partition, block)
        for (topic, partition, block), digest in survey.each(counters.ACKED_DIGEST)
        if (topic, partition) in transactional or in_log.get((topic, partition, block)) != digest
    )


def heads(survey: Tally, epochs: Epochs) -> dict[tuple[str, int], tuple[int, int]]:
    """Return `RunFacts.heads`."""
    found = {}
    for key, segments in survey.each(counters.SEGMENTS):
        epoch = epochs.by_key[key]
        due, reached = NONE if epoch.position is None else epoch.position, NONE
        for segment in _in_order(segments):
            found[segment["path"], epoch.index] = due, reached
            due = reached = max(reached, segment["high"] + 1)
    return found


def _in_order(segments: list[Segment]) -> list[Segment]:
    """Return the segments of an epoch in the order of delivery."""
    return sorted(segments, key=lambda s: (s["first"]["ordinal"], s["path"]))


def delivered_rows(survey: Tally) -> list[Row]:
    """Return the summary of each epoch's deliveries, as `epochs.build` takes it."""
    rows = []
    for key, unordered in survey.each(counters.SEGMENTS):
        segments = _in_order(unordered)
        row = dict(zip(KEY, key, strict=True))
        row |= {name: segments[0][name] for name in ("mode", "group")}
        row |= {"first": segments[0]["first"]["offset"], "last": segments[-1]["last"]}
        row |= {name: min(s[name] for s in segments) for name in ("low", "polled_us")}
        row |= {"rows": sum(s["rows"] for s in segments), "high": max(s["high"] for s in segments)}
        rows.append(row)
    return rows


def falls(survey: Tally) -> list[tuple[Key, int, list[dict[str, Any]]]]:
    """Return by epoch the number of offsets not above the one before, and some of those deliveries."""
    found = []
    for key, unordered in survey.each(counters.SEGMENTS):
        segments = _in_order(unordered)
        shown = [row for s in segments for row in s["fallen"]]
        count = sum(s["falls"] for s in segments)
        for before, after in pairwise(segments):
            if after["first"]["offset"] <= before["last"]:
                count += 1
                shown.append(after["first"] | {"before": before["last"]})
        if count:
            found.append((key, count, shown))
    return found
