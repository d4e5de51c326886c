"""Digests of the records at each offset, by block of offsets: blocks with equal digests need no comparison.

There are as many acknowledged and logged positions as records. Where the digests of both sides agree, they hold the
same records at the same offsets (up to a chance of 1 in 2^64), and the acknowledgements of the block are not sent to
the executor that judges it.

A digest is a sum modulo 2^64, so it does not depend on the parts that the rows of a block are in.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np

from checks.audit.arrays import Ints
from checks.audit.engine.blocks import BLOCK_BITS
from checks.audit.engine.group import grouped
from checks.audit.engine.parts import Part
from checks.audit.engine.tally import Aggregate, Tally


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
