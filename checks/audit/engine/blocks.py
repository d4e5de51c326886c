"""The blocks of the second pass: their names, the columns of the rows in them, and their compact form.

Writes meet by sender: a block is 2^20 seqs of one producer, with its sends and its records in the log. Reads meet by
position: a block is 2^20 offsets of one partition, with its log records and all deliveries of them. Commits meet by
partition. Records of compacted topics also meet by key, and so do inputs and outputs of processors that count.

Blocks are sent between executors by the hundred million rows. Neighbouring rows differ little (the next offset, the
same time), so a packed column holds differences, in the smallest integer type that fits, compressed.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from checks.audit.arrays import Columns, Ints
from checks.audit.engine.group import Rows as Chosen
from checks.audit.engine.group import runs, sections
from checks.audit.engine.parts import Part
from checks.audit.facts.run_facts import RunFacts

BLOCK_BITS = 20
"""A block spans 2^20 offsets of a partition, or 2^20 seqs of a producer."""
KINDS = {
    "sends": (
        *("seq", "incarnation", "topic", "partition", "offset", "outcome", "end", "txn", "invoked_us", "completed_us"),
    ),
    "log": ("seq", "incarnation", "topic", "partition", "offset", "timestamp_us", "committed"),
    "records": ("offset", "sender", "seq", "timestamp_us", "committed"),
    "deliveries": ("epoch", "ordinal", "offset", "sender", "seq", "sent_us", "polled_us", "processed_us"),
    "acks": ("offset", "sender", "seq", "end", "last_us", "requested_us", "unsure_us", "invoked_us", "completed_us"),
    "ack_runs": ("offset", "length", "sender", "seq", "invoked_us", "completed_us"),
    "outputs": ("offset", "sender", "topic", "output_partition", "output_offset", "timestamp_us", "committed"),
    "acquisitions": ("member", "ordinal", "offset", "count", "sender", "seq", "sent_us", "acquired_us"),
    "acknowledgements": ("member", "ordinal", "offset", "type", "outcome", "requested_us", "completed_us"),
    "gaps": ("epoch", "begin", "end", "expected", "next_offset", "processed_us", "polled"),
    "commits": ("committer", "offset", "kind", "outcome", "requested_us", "completed_us", "done_us", "by_log"),
    "progress": ("epoch", "at_us", "reached"),
    "runs": ("first", "last"),
    "committed_runs": ("first", "last"),
    "keyed_sends": (
        *("key", "partition", "offset", "sender", "seq", "end", "invoked_us", "completed_us"),
        *("outcome", "tombstone"),
    ),
    "keyed_log": ("key", "partition", "offset", "sender", "seq", "committed", "tombstone"),
    "counted_inputs": ("key", "partition", "offset", "sender", "seq", "committed"),
    "counted_outputs": (
        *("key", "partition", "offset", "sender", "topic", "output_partition", "output_offset", "timestamp_us"),
        *("committed", "count"),
    ),
    "key_texts": ("key", "length"),
    "key_bytes": ("byte",),
}
"""The columns of each kind of rows. Topics, senders, epochs and committers are indexes into the lists of `RunFacts`.

`ack_runs` are acknowledgements with neighbouring offsets and seqs and equal times, of blocks of offsets in which the
log is what was acknowledged. `txn` is the number of the transaction, `end` its end (`run_facts.NO_TXN`, …), `last_us`,
`requested_us` and `unsure_us` its times (`run_facts.Transactions`), `committed` 1, 0 or NONE if unknown, `polled` 1
for a gap of records that were polled and never done, `reached` the highest offset + 1, `offset` of an output the offset
of its input, `member` an index into the members of the share groups, `count` the delivery count, `by_log` 1 for a
commit that the log of offset commits decides, `done_us` when a commit had been carried out at the latest.
"""
Rows = Mapping[str, Columns]
"""The rows of one block, by kind."""

OK, FAIL, UNKNOWN = 0, 1, 2
OUTCOMES = {"ok": OK, "fail": FAIL, "unknown": UNKNOWN}
"""Outcomes of sends."""
ACCEPT, RELEASE, REJECT = 0, 1, 2
ACKNOWLEDGEMENTS = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT}
REFUSED, MISDIRECTED = 3, 4
"""Outcomes of acknowledgements: the member did not hold the lock any more; the broker that gave the record, to which a
member sends its acknowledgement, led the partition no more."""
REFUSALS = {
    "INVALID_RECORD_STATE": REFUSED,
    "NOT_LEADER_OR_FOLLOWER": MISDIRECTED,
    "FENCED_LEADER_EPOCH": MISDIRECTED,
}
"""They, by error."""
COMMIT_KINDS = ("sync", "async", "auto", "transaction")
COMMIT_OK, COMMIT_UNKNOWN, COMMIT_FAILED = 0, 1, 2


def block_name(path: str, *key: str | int) -> str:
    """Return the name of a block: write, producer and block of seqs; read, topic, partition and block of offsets;
    commits, topic and partition; keys, topic and block of keys; or counts, topic and block of keys.
    """
    return json.dumps([path, *key])


def unpack_block(packed: Mapping[str, Sequence[bytes]]) -> Rows:
    """Return the rows of a block from its packed pieces by kind, in order; empty columns without pieces."""
    return {kind: _unpacked(packed.get(kind, ()), names) for kind, names in KINDS.items()}


def pack(columns: Columns) -> bytes:
    """Return columns of equal length as bytes."""
    return pickle.dumps({name: _packed(values) for name, values in columns.items()}, protocol=5)


def _unpacked(parts: Sequence[bytes], names: Sequence[str]) -> Columns:
    loaded = [pickle.loads(data) for data in parts]
    columns: Columns = {}
    for name in names:
        pieces = [part[name] for part in loaded]
        columns[name] = np.empty(sum(count for _, count, _, _ in pieces), np.int64)
        end = 0
        for piece in pieces:
            begin, end = end, end + piece[1]
            _unpack(columns[name][begin:end], *piece)
    return columns


def _packed(values: Ints) -> tuple[int, int, str, bytes]:
    """Return the first value, the number of values, and the type and bytes of the differences."""
    if not len(values):
        return 0, 0, "i1", b""
    if values[0] == values[-1] and (values == values[0]).all():
        return int(values[0]), len(values), "", b""
    steps = np.diff(values)
    least, most = int(steps.min()), int(steps.max())
    kind = next(k for k in ("i1", "i2", "i4", "i8") if np.iinfo(k).min <= least and most <= np.iinfo(k).max)
    data = pa.compress(steps.astype(kind), codec="lz4_raw", asbytes=True)
    return int(values[0]), len(values), kind, data


def _unpack(into: Ints, first: int, count: int, kind: str, data: bytes) -> None:
    if not kind or count < 2:
        into.fill(first)
        return
    width = np.dtype(kind).itemsize
    steps = pa.decompress(data, decompressed_size=(count - 1) * width, codec="lz4_raw")
    into[0] = first
    into[1:] = np.frombuffer(steps, kind)
    np.cumsum(into, out=into)


Piece = tuple[str, str, bytes]
"""Name of the block, kind of rows, packed rows."""


def piece(block: str, kind: str, columns: Columns, rows: Chosen) -> Piece:
    """Return some rows as a piece of a block."""
    return block, kind, pack({name: rows.ints(columns[name]) for name in KINDS[kind]})


def by_offset(facts: RunFacts, columns: Columns, kind: str, by: str = "offset") -> Iterator[Piece]:
    """Yield rows by block of offsets. columns: of the kind, topic and partition. by: the column of offsets."""
    for (topic, partition, block), rows in sections(columns["topic"], columns["partition"], columns[by] >> BLOCK_BITS):
        yield piece(block_name("read", facts.topics[topic], partition, block), kind, columns, rows)


def topic_numbers(part: Part, facts: RunFacts) -> Ints:
    """Return the index of each row's topic."""
    codes, names = part.codes("topic")
    return np.array([facts.topic_ids[name] for name in names], np.int64)[codes]


def sender_numbers(codes: Ints, producers: list[str], incarnation: Ints, facts: RunFacts) -> Ints:
    """Return the index of each row's producer and incarnation."""
    starts = runs(codes, incarnation)
    names = [*producers, None]  # the code of a null is -1
    pairs = zip(codes[starts].tolist(), incarnation[starts].tolist(), strict=True)
    numbers = np.array([facts.sender_ids[names[c], n] for c, n in pairs], np.int64)
    return np.repeat(numbers, np.diff(starts, append=len(codes)))
