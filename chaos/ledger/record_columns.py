"""`chaos.ledger.record` for many values at a time: writes and reads the same bytes, as columns."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.ledger import record
from chaos.ledger.stream import runs, same

BLOCK = 1000
"""Seqs in a block. The values of one call are in one block, so only the last three digits of seq (and keys) differ."""
MAX_BYTES = 1 << 20

Ints = npt.NDArray[np.int64]
_BITS = np.arange(32, dtype=np.uint32)
_HEX = np.frombuffer(b"".join(b"%02x" % i for i in range(256)), np.uint16)
_DIGITS = np.frombuffer(b"".join(b"%03d" % i for i in range(BLOCK)), np.uint8).reshape(BLOCK, 3)
_LAST_DIGITS_AT = record.SEQ_AT + record.SEQ_WIDTH - 3


class ValueFactory:
    """Creates the values of one incarnation of a producer.

    CRC-32 is linear: a change of certain bits in a message of fixed length flips certain bits of the CRC, whatever the
    other bits are. So the CRC of a value is the CRC of the first value of its block, with the bits flipped that belong
    to its digits and its key.
    """

    def __init__(self, run: str, producer: str, incarnation: int, size: int, keys: Sequence[bytes] = ()) -> None:
        self._prefix = record.header_prefix(run, producer, incarnation)
        pattern = b"abcdefghijklmnopqrstuvwxyz0123456789"
        length = size - record.HEADER_BYTES
        if length < 0:
            raise ValueError(f"a value of {size} bytes is too small for its identity of {record.HEADER_BYTES} bytes")
        self._payload = (pattern * (length // len(pattern) + 1))[:length]
        self._size = size
        after_seq = record.TIME_WIDTH + 2 + length  # bytes after the digits that the CRC covers; it leaves itself out
        flips = [_flips(after_seq + 3 - i, np.arange(10, dtype=np.uint32)) for i in range(3)]
        self._digit_flips = flips[0][_DIGITS[:, 0] - 48] ^ flips[1][_DIGITS[:, 1] - 48] ^ flips[2][_DIGITS[:, 2] - 48]
        covered = record.CRC_AT + length
        self._key_flips = _advance(covered, np.array([zlib.crc32(k) for k in keys], dtype=np.uint32))

    def room(self, first_seq: int) -> int:
        """Return the largest `count` for `make` from this seq on."""
        return min(BLOCK - first_seq % BLOCK, max(1, MAX_BYTES // self._size))

    def make(self, first_seq: int, count: int, sent_us: int, keys: Ints | None = None) -> list[bytes]:
        """Return the values of `count` seqs, at most `room`. `keys` are the numbers of their keys."""
        head = self._prefix + b"%012d %016d " % (first_seq, sent_us)
        low = first_seq % BLOCK
        crcs = self._digit_flips[low : low + count] ^ self._digit_flips[low]
        crcs ^= np.uint32(zlib.crc32(self._payload, zlib.crc32(head)))
        if keys is not None:
            crcs ^= self._key_flips[keys]
        rows = np.empty((count, self._size), np.uint8)
        rows[:] = np.frombuffer(b"%s%08d %s" % (head, 0, self._payload), np.uint8)
        rows[:, _LAST_DIGITS_AT : _LAST_DIGITS_AT + 3] = _DIGITS[low : low + count]
        hexed = _HEX[crcs.astype(">u4").view(np.uint8)].view(np.uint8).reshape(count, record.CRC_WIDTH)
        rows[:, record.CRC_AT : record.CRC_AT + record.CRC_WIDTH] = hexed
        values: list[bytes] = rows.view(f"S{self._size}").ravel().tolist()
        return values


def _advance(length: int, states: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the difference in the CRC after `length` bytes, for differences in the CRC before them."""
    zeros = bytes(length)
    base = zlib.crc32(zeros)
    of_bit = np.array([zlib.crc32(zeros, 1 << bit) ^ base for bit in range(32)], dtype=np.uint32)
    bits = (states[:, None] >> _BITS) & np.uint32(1)
    flips: npt.NDArray[np.uint32] = np.bitwise_xor.reduce(bits * of_bit, axis=1)
    return flips


def _flips(length: int, differences: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the difference in the CRC for a byte changed by XOR, `length` bytes from the end, that byte included."""
    of_byte = np.array([zlib.crc32(bytes([int(d)])) ^ zlib.crc32(b"\0") for d in differences], dtype=np.uint32)
    return _advance(length - 1, of_byte)


Headers = npt.NDArray[np.uint8]
"""A row of `HEADER_BYTES` bytes for each value; zeros for a value that is null or too short for an identity."""

_COPY_BYTES = 4 * record.HEADER_BYTES
"""Values up to this length are copied whole, which costs less than to cut each."""
_BEGINNING = np.frombuffer(record.VERSION + b" ", np.uint32)[0]
_NO_HEADER = bytes(record.HEADER_BYTES)


def own_headers(values: Sequence[bytes | None]) -> Headers | None:
    """Return the headers of values of one length that all carry an identity, the usual case; else None."""
    if not values or not (record.HEADER_BYTES <= len(values[0] or b"") <= _COPY_BYTES):
        return None
    try:
        joined = b"".join(values)  # type: ignore[arg-type]
    except TypeError:  # a value is null
        return None
    size, rest = divmod(len(joined), len(values))
    if rest or size < record.HEADER_BYTES:
        return None
    # if their lengths differed, the rows would not begin with the version
    rows = np.frombuffer(joined, np.uint8).reshape(len(values), size)
    if not (rows[:, :4].view(np.uint32) == _BEGINNING).all():
        return None
    # a copy, because a view would keep the whole values in memory; they are in the processor's cache now
    return np.ascontiguousarray(rows[:, : record.HEADER_BYTES])


def headers_of(values: Sequence[bytes | None]) -> Headers:
    """Return the headers of any values."""
    headers = own_headers(values)
    if headers is not None:
        return headers
    cut = [v[: record.HEADER_BYTES] if v and len(v) >= record.HEADER_BYTES else _NO_HEADER for v in values]
    return np.frombuffer(b"".join(cut), np.uint8).reshape(len(values), record.HEADER_BYTES)


class Identities:
    """The identities in headers, as Arrow columns; null where `record.parse` finds none.

    seq, sent_us: the columns of seqs and of send times.
    """

    def __init__(self, headers: Headers) -> None:
        numbers: tuple[Any, Any] | None = _numbers(headers)
        starts, sources = _runs(headers)
        if numbers is None or None in sources:  # some differ from what `record.encode` writes
            parsed = [record.parse(row.tobytes()) for row in headers]
            numbers = [p and p.seq for p in parsed], [p and p.sent_us for p in parsed]
            starts, sources = np.arange(len(parsed)), [(p.producer, p.incarnation) if p else None for p in parsed]
        self.seq, self.sent_us = (pa.array(n, pa.int64()) for n in numbers)
        self._ends, self._sources = np.append(starts[1:], len(headers)), sources

    def known_sent_us(self) -> pa.Array:
        """Return the column of send times, with null for `record.UNTIMED_US`."""
        untimed = pc.equal(self.sent_us, record.UNTIMED_US)
        return pc.if_else(untimed, None, self.sent_us) if pc.any(untimed).as_py() else self.sent_us

    def producers(self) -> tuple[pa.Array, pa.Array]:
        """Return the columns of producers and incarnations, run-end encoded."""
        if len(set(self._sources)) == 1 and self._sources[0] is not None:
            rows, (producer, incarnation) = self._ends[-1], self._sources[0]
            return same(producer, pa.string()).slice(0, rows), same(incarnation, pa.int32()).slice(0, rows)
        producers = pa.array([s and s[0] for s in self._sources], pa.string())
        incarnations = pa.array([s and s[1] for s in self._sources], pa.int32())
        return runs(self._ends, producers), runs(self._ends, incarnations)


Source = tuple[str, int]
"""A producer and its incarnation."""


def _runs(headers: Headers) -> tuple[Ints, list[Source | None]]:
    """Return the rows at which the source may change, and the source from each on; None where it is not readable.

    Records arrive in the batches of their producers, so many rows have few changes.
    """
    # compares words of eight bytes; the last word includes the first digit of seq, which hardly ever changes
    blocks = np.ascontiguousarray(headers[:, : record.SEQ_AT + 1]).view(np.uint64)
    changed = np.flatnonzero(blocks[1:] != blocks[:-1]) // blocks.shape[1] + 1
    starts = np.unique(np.concatenate(([0], changed)))
    return starts, [_source(headers[start, : record.SEQ_AT].tobytes()) for start in starts.tolist()]


@lru_cache(maxsize=1024)
def _source(prefix: bytes) -> Source | None:
    """Return the source in the first bytes of a header, or None if `record.encode` does not write such bytes."""
    if not prefix[record.INCARNATION_AT : record.INCARNATION_AT + record.INCARNATION_WIDTH].isdigit():
        return None
    identity = record.parse(prefix.ljust(record.HEADER_BYTES, b"0"))
    return (identity.producer, identity.incarnation) if identity else None


def _numbers(headers: Headers) -> tuple[Ints, Ints] | None:
    """Return seqs and send times; None if one of them has other bytes than digits."""
    blocks = np.ascontiguousarray(headers[:, _DIGITS_AT : _DIGITS_AT + 32]).view("<u8")
    blocks = blocks ^ _ZERO_DIGITS
    blocks &= _IN_NUMBERS  # a digit leaves 0 to 9, any other byte leaves more
    if blocks.view(np.uint8).max(initial=0) > 9:
        return None
    for ten, shift, mask in _JOIN:
        later = blocks >> shift
        blocks *= ten
        blocks += later
        blocks &= mask
    parts: Ints = blocks.view(np.int64)
    return parts[:, 0] * 10**7 + parts[:, 1] // 10, parts[:, 2] * 10**8 + parts[:, 3]


_DIGITS_AT = record.TIME_AT + record.TIME_WIDTH - 32
"""Start of four words of eight bytes: three bytes, five digits | seven digits, a space | the time in two halves."""
_ZERO_DIGITS = np.uint64(0x3030303030303030)
_IN_NUMBERS = np.array([0xFFFFFFFFFF000000, 0x00FFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF], np.uint64)
_JOIN = [
    # joins neighbours to one number, in all words at once: digits, then pairs, then fours; the lower byte comes first
    # and is worth more
    (np.uint64(10), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10000), np.uint64(32), np.uint64(0x00000000FFFFFFFF)),
]
