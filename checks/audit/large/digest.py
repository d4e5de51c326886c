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
from checks.audit.large.tally import DIGEST, Tally

_PIECE_BITS = 22
_DENSE = 1 << 22


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
    for key, total in _sums(keys, weights):
        place, nth = divmod(key, blocks)
        topic, partition = divmod(place, places)
        tally.add("digest", side, names[topic], partition + first, nth + least, value=total)


def _mixed(numbers: dict[str, Ints], codes: Ints, producers: list[str]) -> np.ndarray:
    """One number of 64 bits for what each row says: that this record stands at this offset."""
    names = np.array([crc32((name or "").encode()) for name in producers] or [0], np.uint64)
    mixed = numbers["offset"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for value in (numbers["seq"].astype(np.uint64), names[codes], numbers["incarnation"].astype(np.uint64)):
        mixed ^= mixed >> np.uint64(31)
        mixed += value
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(29))


def _sums(keys: Ints, weights: np.ndarray) -> list[tuple[int, int]]:
    """The sum of the weights of each key modulo `DIGEST`, exactly: in pieces that a float64 can add up."""
    distinct: Ints | None = None
    if int(keys.max()) >= _DENSE:
        distinct, keys = np.unique(keys, return_inverse=True)
    mask = np.uint64((1 << _PIECE_BITS) - 1)
    pieces = [(weights >> np.uint64(_PIECE_BITS * n)) & mask for n in range(3)]
    sums = [np.bincount(keys, piece.astype(np.float64)) for piece in pieces]
    found = np.flatnonzero(np.bincount(keys))
    return [
        (
            int(key if distinct is None else distinct[key]),
            sum(int(s[key]) << (_PIECE_BITS * n) for n, s in enumerate(sums)) % DIGEST,
        )
        for key in found.tolist()
    ]
