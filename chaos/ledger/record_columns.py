"""The identity of `chaos.ledger.record` for many values at a time: made and read by columns, byte for byte the same."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.ledger import record
from chaos.ledger.runs import runs, same

BLOCK = 1000
"""Values of one call are of one block of seqs: they differ in the last three digits of seq (and in key) only."""
MOST_BYTES = 1 << 20

Ints = npt.NDArray[np.int64]
_BITS = np.arange(32, dtype=np.uint32)
_HEX = np.frombuffer(b"".join(b"%02x" % i for i in range(256)), np.uint16)
_DIGITS = np.frombuffer(b"".join(b"%03d" % i for i in range(BLOCK)), np.uint8).reshape(BLOCK, 3)
_LAST_DIGITS_AT = record.SEQ_AT + record.SEQ_WIDTH - 3


class ValueFactory:
    """Makes the values of one incarnation.

    CRC-32 is linear: changing certain bits of a message of fixed length flips certain bits of its CRC, whatever the
    rest is. So the CRC of each value follows from one of its block, and from what its digits and its key flip.
    """

    def __init__(self, run: str, producer: str, incarnation: int, size: int, keys: Sequence[bytes] = ()) -> None:
        self._prefix = record.header_prefix(run, producer, incarnation)
        pattern = b"abcdefghijklmnopqrstuvwxyz0123456789"
        length = size - record.HEADER_BYTES
        if length < 0:
            raise ValueError(f"a value of {size} bytes has no room for its identity of {record.HEADER_BYTES}")
        self._payload = (pattern * (length // len(pattern) + 1))[:length]
        self._size = size
        after_seq = record.TIME_WIDTH + 2 + length  # what the CRC covers after the digits: the CRC leaves itself out
        flips = [_flips(after_seq + 3 - i, np.arange(10, dtype=np.uint32)) for i in range(3)]
        self._digit_flips = flips[0][_DIGITS[:, 0] - 48] ^ flips[1][_DIGITS[:, 1] - 48] ^ flips[2][_DIGITS[:, 2] - 48]
        covered = record.CRC_AT + length
        self._key_flips = _advance(covered, np.array([zlib.crc32(k) for k in keys], dtype=np.uint32))

    def room(self, first_seq: int) -> int:
        """The most values that `make` takes from this seq on."""
        return min(BLOCK - first_seq % BLOCK, max(1, MOST_BYTES // self._size))

    def make(self, first_seq: int, count: int, sent_us: int, keys: Ints | None = None) -> list[bytes]:
        """The values of `count` seqs, at most `room`; `keys` are the numbers of their keys."""
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
    """What a difference in the CRC before `length` bytes makes of the CRC after them."""
    zeros = bytes(length)
    none = zlib.crc32(zeros)
    of_bit = np.array([zlib.crc32(zeros, 1 << bit) ^ none for bit in range(32)], dtype=np.uint32)
    bits = (states[:, None] >> _BITS) & np.uint32(1)
    flips: npt.NDArray[np.uint32] = np.bitwise_xor.reduce(bits * of_bit, axis=1)
    return flips


def _flips(length: int, differences: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """What changing one byte by XOR makes of the CRC, `length` bytes from the end, that byte included."""
    of_byte = np.array([zlib.crc32(bytes([int(d)])) ^ zlib.crc32(b"\0") for d in differences], dtype=np.uint32)
    return _advance(length - 1, of_byte)


Headers = npt.NDArray[np.uint8]
"""A row of `HEADER_BYTES` for each value; zeros where a value is too short to carry an identity, or null."""

_WHOLE_BYTES = 4 * record.HEADER_BYTES
"""Values up to this length are copied whole: that costs less than to cut each."""
_BEGINNING = np.frombuffer(record.VERSION + b" ", np.uint32)[0]
_NO_HEADER = bytes(record.HEADER_BYTES)


def own_headers(values: Sequence[bytes | None]) -> Headers | None:
    """The headers of values that are all of one length and all ours, as nearly always; else None."""
    if not values or not (record.HEADER_BYTES <= len(values[0] or b"") <= _WHOLE_BYTES):
        return None
    try:
        joined = b"".join(values)  # type: ignore[arg-type]
    except TypeError:  # a value is null
        return None
    size, rest = divmod(len(joined), len(values))
    if rest or size < record.HEADER_BYTES:
        return None
    # if they were of different lengths, what is cut here would not begin as our values do
    rows = np.frombuffer(joined, np.uint8).reshape(len(values), size)
    if not (rows[:, :4].view(np.uint32) == _BEGINNING).all():
        return None
    # a copy, while the processor has them in its cache: as a view they would keep whole values in memory
    return np.ascontiguousarray(rows[:, : record.HEADER_BYTES])


def headers_of(values: Sequence[bytes | None]) -> Headers:
    """The headers of any values."""
    headers = own_headers(values)
    if headers is not None:
        return headers
    cut = [v[: record.HEADER_BYTES] if v and len(v) >= record.HEADER_BYTES else _NO_HEADER for v in values]
    return np.frombuffer(b"".join(cut), np.uint8).reshape(len(values), record.HEADER_BYTES)


class Identities:
    """The identities in many headers, as Arrow columns; null where there is none, as `record.parse` sees it."""

    def __init__(self, headers: Headers) -> None:
        numbers = _numbers(headers)
        self._starts, self._lives = _runs(headers)
        self._parsed: list[record.Identity | None] | None = None
        if numbers is None or None in self._lives:  # not all are as `record.encode` writes them
            self._parsed = [record.parse(row.tobytes()) for row in headers]
        else:
            self._seq, self._sent_us = numbers
        self._rows = len(headers)

    def seq(self) -> pa.Array:
        """The numbers of the records within their incarnation."""
        if self._parsed is not None:
            return pa.array([p and p.seq for p in self._parsed], pa.int64())
        return pa.array(self._seq)

    def sent_us(self) -> pa.Array:
        """When they were sent."""
        if self._parsed is not None:
            return pa.array([p and p.sent_us for p in self._parsed], pa.int64())
        return pa.array(self._sent_us)

    def who(self) -> tuple[pa.Array, pa.Array]:
        """Their producers and incarnations; as runs, but where some value is not ours."""
        lives = self._lives
        if self._parsed is not None:
            lives = [(p.producer, p.incarnation) if p else None for p in self._parsed]
        elif len(set(lives)) == 1 and lives[0] is not None:
            producer, incarnation = lives[0]
            return same(producer, pa.string()).slice(0, self._rows), same(incarnation, pa.int32()).slice(0, self._rows)
        producers = pa.array([w and w[0] for w in lives], pa.string())
        incarnations = pa.array([w and w[1] for w in lives], pa.int32())
        if self._parsed is not None:
            return producers, incarnations
        ends = np.append(self._starts[1:], self._rows)
        return runs(ends, producers), runs(ends, incarnations)


Life = tuple[str, int]
"""A producer and its incarnation."""


def _runs(headers: Headers) -> tuple[Ints, list[Life | None]]:
    """Where another life of a producer may begin, and which it is; None where that cannot be read.

    Records come in the batches of their producers, so there are few such places in many rows.
    """
    # in words of eight bytes; the last one takes in the first digit of seq, which changes about never
    words = np.ascontiguousarray(headers[:, : record.SEQ_AT + 1]).view(np.uint64)
    changed = np.flatnonzero(words[1:] != words[:-1]) // words.shape[1] + 1
    starts = np.unique(np.concatenate(([0], changed)))
    return starts, [_life(headers[start, : record.SEQ_AT].tobytes()) for start in starts.tolist()]


@lru_cache(maxsize=1024)
def _life(prefix: bytes) -> Life | None:
    """Whose header it is that begins so, if it is as `record.encode` writes it."""
    if not prefix[record.INCARNATION_AT : record.INCARNATION_AT + record.INCARNATION_WIDTH].isdigit():
        return None
    identity = record.parse(prefix.ljust(record.HEADER_BYTES, b"0"))
    return (identity.producer, identity.incarnation) if identity else None


def _numbers(headers: Headers) -> tuple[Ints, Ints] | None:
    """The seqs and the times; None if one of them is anything but digits."""
    words = np.ascontiguousarray(headers[:, _WORDS_AT : _WORDS_AT + 32]).view("<u8")
    words = words ^ _ZERO_DIGITS
    words &= _IN_NUMBERS  # of a digit, 0 to 9 is left, and of any other byte more
    if words.view(np.uint8).max(initial=0) > 9:
        return None
    for ten, shift, mask in _JOIN:
        later = words >> shift
        words *= ten
        words += later
        words &= mask
    parts: Ints = words.view(np.int64)
    return parts[:, 0] * 10**7 + parts[:, 1] // 10, parts[:, 2] * 10**8 + parts[:, 3]


_WORDS_AT = record.TIME_AT + record.TIME_WIDTH - 32
"""Here begin four words of eight bytes: three bytes, five digits | seven digits, a space | the time in two halves."""
_ZERO_DIGITS = np.uint64(0x3030303030303030)
_IN_NUMBERS = np.array([0xFFFFFFFFFF000000, 0x00FFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF], np.uint64)
_JOIN = [
    # neighbours become one number, in all words at once: digits, then pairs, then fours; the lower byte is the earlier
    # one and counts more
    (np.uint64(10), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10000), np.uint64(32), np.uint64(0x00000000FFFFFFFF)),
]
