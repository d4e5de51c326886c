"""Records of compacted topics by key: cutting parts into blocks of keys, and one such block.

A block holds every acknowledgement and every log record of some keys of one topic, so that a rule sees what superseded
a record. Keys are compared by a hash of 63 bits (`hashes_of`); the texts travel along, for findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checks.audit.arrays import NONE, Columns, Ints, Mask, among, distinct
from checks.audit.engine.blocks import KINDS, OK, Rows, block_name, pack
from checks.audit.engine.parts import Part
from checks.audit.facts.run_facts import RunFacts

Piece = tuple[str, str, bytes]

GOLDEN, MIX = np.uint64(0x9E3779B97F4A7C15), ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""The constants of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)."""
MOST_GAPS = 4
"""Numbers for each row, above which pairs of partition and key are numbered without gaps."""
HASHED_BYTES = 1 << 20
"""Bytes of keys that are hashed at once, at about 16 bytes of memory for each."""


def rows_by_key(part: Part, columns: Columns, kind: str, chosen: Mask, facts: RunFacts) -> Iterator[Piece]:
    """Yield the chosen rows of a part that are in compacted topics, by block of keys.

    columns: the columns of the kind, and the topic; `key` is added. A log record without a key (ledgers before version
    3 have none) goes to every block of its topic, because it may have any key.
    """
    codes, texts = part.dictionary("key")
    hashes = np.append(hashes_of(texts), NONE)  # the code of a null is -1
    for topic, blocks in facts.compacted.items():
        rows = np.flatnonzero(chosen & (columns["topic"] == facts.topic_ids.get(topic, NONE)))
        if not len(rows):
            continue
        keys = hashes[codes[rows]]
        of_block = np.where(keys == NONE, 0, keys % blocks)
        if kind == "keyed_log":
            nameless = np.tile(rows[keys == NONE], blocks - 1)
            copies = np.repeat(np.arange(1, blocks), len(nameless) // max(blocks - 1, 1))
            rows, of_block = np.append(rows, nameless), np.append(of_block, copies)
        for block, some in _by_block(of_block, blocks):
            here = rows[some]
            values = {n: columns[n][here].astype(np.int64, copy=False) for n in KINDS[kind] if n != "key"}
            yield block_name("keys", topic, block), kind, pack(values | {"key": hashes[codes[here]]})
        if kind == "keyed_sends":
            used = distinct(codes[rows])
            used = used[used >= 0]
            for block, some in _by_block(hashes[used] % blocks, blocks):
                yield from _texts(block_name("keys", topic, block), used[some], texts, hashes)


def _by_block(of_block: Ints, blocks: int) -> Iterator[tuple[int, Ints]]:
    """Yield each block that rows are in, and the indexes of the rows."""
    order = np.argsort(of_block.astype(np.uint16), kind="stable")  # 16 bits are sorted by radix
    ends = np.cumsum(np.bincount(of_block, minlength=blocks))
    for block, rows in enumerate(np.split(order, ends[:-1])):
        if len(rows):
            yield block, rows


def hashes_of(texts: pa.StringArray) -> Ints:
    """Return the 63 bits by which texts are compared: their length and words of eight bytes, mixed as by SplitMix64."""
    data, offsets = _bytes(texts)
    lengths = np.diff(offsets)
    by_length, found = np.argsort(lengths, kind="stable"), np.empty(len(texts), np.uint64)
    begins = np.searchsorted(lengths[by_length], distinct(lengths))
    for rows in np.split(by_length, begins[1:]):
        length = int(lengths[rows[0]]) if len(rows) else 0
        for some in np.array_split(rows, 1 + len(rows) * length // HASHED_BYTES):
            padded = np.zeros((len(some), -(-length // 8) * 8), np.uint8)
            padded[:, :length] = data[offsets[some][:, None] + np.arange(length)]
            state = _mixed(np.full(len(some), length, np.uint64))
            for words in padded.view("<u8").T:
                state = _mixed(state ^ words)
            found[some] = state
    return (found >> np.uint64(1)).astype(np.int64)


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = state + GOLDEN
    for shift, factor in MIX:
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    mixed: npt.NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed


def _bytes(texts: pa.StringArray) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Return the bytes of texts, and where each begins in them; one number more is where the last one ends."""
    _, offsets, data = texts.buffers()
    begins = np.frombuffer(offsets, np.int32) if offsets else np.zeros(1, np.int32)
    own = begins[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), own


def _texts(block: str, codes: Ints, texts: pa.StringArray, hashes: Ints) -> Iterator[Piece]:
    """Yield the texts of keys as bytes one after another, with the length of each."""
    data, offsets = _bytes(texts.take(pa.array(codes)))
    yield block, "key_texts", pack({"key": hashes[codes], "length": np.diff(offsets)})
    yield block, "key_bytes", pack({"byte": data[offsets[0] : offsets[-1]].astype(np.int64)})


def numbered(partitions: Ints, keys: Ints) -> tuple[Ints, int]:
    """Return a number for each pair of partition and key, from 0 on, and one more than the highest.

    Hashing takes a seventh of the time of a sort. There may be gaps, of three in four numbers at most.
    """
    if not len(keys):
        return keys, 0
    found = pa.array(keys).dictionary_encode()
    lowest = int(partitions.min())
    width = int(partitions.max()) - lowest + 1
    pairs = found.indices.to_numpy(zero_copy_only=False).astype(np.int64) * width + (partitions - lowest)
    if len(found.dictionary) * width <= MOST_GAPS * len(keys):
        return pairs, len(found.dictionary) * width
    found = pa.array(pairs).dictionary_encode()
    return found.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(found.dictionary)


class KeyBlock:
    """All acknowledged sends and all log records of some keys of a topic.

    acks, log: kinds `keyed_sends` and `keyed_log` of `blocks.KINDS`. unplaced: the keys of tombstones that may have
    been written, but were not acknowledged with an offset. ack_group, log_group: one number for partition and key of
    each row, so that equal numbers are records that supersede each other.
    """

    def __init__(self, topic: str, facts: RunFacts, rows: Rows) -> None:
        self.topic, self.facts = topic, facts
        sends, self.log = rows["keyed_sends"], rows["keyed_log"]
        ok = sends["outcome"] == OK
        self.acks = dict(sends) if ok.all() else {name: column[ok] for name, column in sends.items()}
        nowhere = ~ok | (sends["offset"] == NONE)
        self.unplaced = distinct(sends["key"][(sends["tombstone"] == 1) & nowhere])
        self._texts, self._bytes = rows["key_texts"], rows["key_bytes"]["byte"]
        sides = {n: np.concatenate([self.acks[n], self.log[n]]) for n in ("partition", "key")}
        groups, self.groups = numbered(sides["partition"], sides["key"])
        self.ack_group, self.log_group = groups[: len(self.acks["key"])], groups[len(self.acks["key"]) :]

    def in_log(self) -> Mask:
        """Return which acknowledged records are in the log, in any partition; by producer, incarnation and seq."""
        senders = len(self.facts.senders) or 1
        acked, logged = (side["seq"] * senders + side["sender"] for side in (self.acks, self.log))
        return among(acked, logged[self.log["seq"] != NONE])

    def latest(self, acks: Mask, log: Mask) -> Ints:
        """Return by group the highest offset of some acknowledgements and log records, NONE for a group without one."""
        latest = np.full(self.groups, NONE, np.int64)
        for rows, side, group in ((acks, self.acks, self.ack_group), (log, self.log, self.log_group)):
            np.maximum.at(latest, group[rows], side["offset"][rows])
        return latest

    @cached_property
    def text(self) -> dict[int, str]:
        """The text of each key, by its hash."""
        data, ends = self._bytes.astype(np.uint8).tobytes(), np.cumsum(self._texts["length"])
        begins = ends - self._texts["length"]
        spans = zip(self._texts["key"].tolist(), begins.tolist(), ends.tolist(), strict=True)
        return {key: data[begin:end].decode() for key, begin, end in spans}
