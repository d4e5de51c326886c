"""Records of compacted topics by key: cutting parts into blocks of keys, and one such block.

A block holds every acknowledgement and every log record of some keys of one topic, so that a rule sees what superseded
a record. Keys are compared by 63 bits of their BLAKE2 hash; the texts travel along, for findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from hashlib import blake2b

import numpy as np

from checks.audit.arrays import NONE, Columns, Ints, Mask
from checks.audit.engine.blocks import KINDS, OK, Rows, block_name, pack
from checks.audit.engine.group import dense
from checks.audit.engine.parts import Part
from checks.audit.facts.run_facts import RunFacts

Piece = tuple[str, str, bytes]


def rows_by_key(part: Part, columns: Columns, kind: str, chosen: Mask, facts: RunFacts) -> Iterator[Piece]:
    """Yield the chosen rows of a part that are in compacted topics, by block of keys.

    columns: the columns of the kind, and the topic; `key` is added. A log record without a key (ledgers before version
    3 have none) goes to every block of its topic, because it may have any key.
    """
    codes, texts = part.codes("key")
    hashes = np.array([*map(hash_of, texts), NONE], np.int64)  # the code of a null is -1
    for topic, blocks in facts.compacted.items():
        rows = np.flatnonzero(chosen & (columns["topic"] == facts.topic_ids.get(topic, NONE)))
        if not len(rows):
            continue
        keys, of_block = hashes[codes[rows]], hashes[codes[rows]] % blocks
        for block in range(blocks):
            within = (keys != NONE) & (of_block == block)
            within |= (keys == NONE) & (kind == "keyed_log" or block == 0)
            here = rows[within]
            if not len(here):
                continue
            name = block_name("keys", topic, block)
            values = {n: columns[n][here].astype(np.int64) for n in KINDS[kind] if n != "key"}
            yield name, kind, pack(values | {"key": keys[within]})
            if kind == "keyed_sends":
                yield from _texts(name, np.unique(codes[here]), texts, hashes)


def hash_of(text: str) -> int:
    """Return the 63 bits by which keys are compared."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def _texts(block: str, codes: Ints, texts: list[str], hashes: Ints) -> Iterator[Piece]:
    """Yield the texts of keys as bytes one after another, with the length of each."""
    codes = codes[codes >= 0]
    encoded = [texts[code].encode() for code in codes.tolist()]
    lengths = np.array([len(text) for text in encoded], np.int64)
    yield block, "key_texts", pack({"key": hashes[codes], "length": lengths})
    yield block, "key_bytes", pack({"byte": np.frombuffer(b"".join(encoded), np.uint8).astype(np.int64)})


class KeyBlock:
    """All acknowledged sends and all log records of some keys of a topic.

    acks, log: kinds `keyed_sends` and `keyed_log` of `blocks.KINDS`. unplaced: the keys of tombstones that may have
    been written, but were not acknowledged with an offset. ack_group, log_group: one number for partition and key of
    each row, so that equal numbers are records that supersede each other.
    """

    def __init__(self, topic: str, facts: RunFacts, rows: Rows) -> None:
        self.topic, self.facts = topic, facts
        sends, self.log = rows["keyed_sends"], rows["keyed_log"]
        self.acks = {name: column[sends["outcome"] == OK] for name, column in sends.items()}
        nowhere = (sends["outcome"] != OK) | (sends["offset"] == NONE)
        self.unplaced = np.unique(sends["key"][(sends["tombstone"] == 1) & nowhere])
        self._texts, self._bytes = rows["key_texts"], rows["key_bytes"]["byte"]
        groups, self.groups = dense([np.concatenate([self.acks[n], self.log[n]]) for n in ("partition", "key")])
        self.ack_group, self.log_group = groups[: len(self.acks["key"])], groups[len(self.acks["key"]) :]

    def in_log(self) -> Mask:
        """Return which acknowledged records are in the log, in any partition; by producer, incarnation and seq."""
        senders = len(self.facts.senders) or 1
        acked, logged = (side["seq"] * senders + side["sender"] for side in (self.acks, self.log))
        own: Mask = self.log["seq"] != NONE
        return np.isin(acked, logged[own])

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
