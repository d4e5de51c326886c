"""Digests of which record stands where, by block of offsets: whoever says the same of a block need not be compared.

What was acknowledged at an offset and what is in the log there are as many as the records. Where the digests of both
sides agree they are the same records at the same places (but for one chance in 2^64), and the acknowledgements of that
block are not sent to where its offsets are judged.

A digest is a sum modulo `tally.DIGEST`, so it does not hang on how many parts the rows of a block lie in.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np

from checks.audit.large.columns import Ints, Part
from checks.audit.large.group import grouped
from checks.audit.large.tally import Tally


def note_places(part: Part, side: str, block_bits: int, rows: Ints, tally: Tally) -> None:
    """Add ("digest", side, topic, partition, block of offsets) of these rows of a part of sends or of the log."""
    if not len(rows):
        return
    every = len(rows) == part.rows
    numbers = {n: part.ints(n) for n in ("partition", "offset", "incarnation", "seq")}
    (codes, producers), (topics, names) = part.codes("producer"), part.codes("topic")
    if not every:
        numbers = {n: c[rows] for n, c in numbers.items()}
        codes, topics = codes[rows], topics[rows]
    weights = _mixed(numbers, codes, producers)
    block = numbers["offset"] >> block_bits
    least, first = int(block.min()), int(numbers["partition"].min())
    blocks, places = int(block.max()) - least + 1, int(numbers["partition"].max()) - first + 1
    keys = (topics.astype(np.int64) * places + (numbers["partition"] - first)) * blocks + (block - least)
    distinct, (sums,) = grouped(keys, (np.add, weights))  # of unsigned numbers: modulo 2^64
    for key, total in zip(distinct.tolist(), sums.tolist(), strict=True):
        place, nth = divmod(key, blocks)
        topic, partition = divmod(place, places)
        tally.add("digest", side, names[topic], partition + first, nth + least, value=total)


def _mixed(numbers: dict[str, Ints], codes: Ints, producers: list[str]) -> np.ndarray:
    """One number of 64 bits for what each row says: that this record stands at this offset."""
    names = np.array([crc32((name or "").encode()) for name in producers] or [0], np.uint64)
    lives = numbers["incarnation"]
    life = lives[:1] if (lives == lives[0]).all() else lives
    whose = names[codes] + (life.astype(np.uint64) << np.uint64(32))
    mixed = numbers["offset"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for value in (numbers["seq"].astype(np.uint64), whose):
        mixed ^= mixed >> np.uint64(31)
        mixed += value
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    return mixed
