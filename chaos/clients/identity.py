"""The identity of `chaos.ledger.record` for many values at a time: made and read by columns, byte for byte the same."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.ledger import record

BLOCK = 1000
"""Values of one call are of one block of seqs: they differ in the last three digits of seq (and in key) only."""
MOST_BYTES = 1 << 20

Ints = npt.NDArray[np.int64]
_BITS = np.arange(32, dtype=np.uint32)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
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
        for i in range(record.CRC_WIDTH):
            rows[:, record.CRC_AT + i] = _HEX[(crcs >> np.uint32(28 - 4 * i)) & np.uint32(15)]
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


_PRODUCER_END = record.PRODUCER_AT + record.PRODUCER_WIDTH
_WHO_WIDTH = record.PRODUCER_WIDTH + 1 + record.INCARNATION_WIDTH
_LOWEST, _HIGHEST = np.zeros(record.HEADER_BYTES, np.uint8), np.full(record.HEADER_BYTES, 255, np.uint8)
_LOWEST[: len(record.VERSION)] = _HIGHEST[: len(record.VERSION)] = np.frombuffer(record.VERSION, np.uint8)
_HIGHEST[record.RUN_AT : _PRODUCER_END] = 127
for _at, _width in (
    (record.INCARNATION_AT, record.INCARNATION_WIDTH),
    (record.SEQ_AT, record.SEQ_WIDTH),
    (record.TIME_AT, record.TIME_WIDTH),
):
    _LOWEST[_at : _at + _width], _HIGHEST[_at : _at + _width] = ord("0"), ord("9")
_SEQ_POWERS = 10 ** np.arange(record.SEQ_WIDTH - 1, -1, -1, dtype=np.int64)
_TIME_POWERS = 10 ** np.arange(record.TIME_WIDTH - 1, -1, -1, dtype=np.int64)


class Identities:
    """The identities in many values, as Arrow columns; null where a value carries none, as `record.parse` sees it."""

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self._rows: npt.NDArray[np.uint8] | None = _regular(values)
        self._parsed = [] if self._rows is not None else [record.parse(v) for v in values]

    def seq(self) -> pa.Array:
        """The numbers of the records within their incarnation."""
        if self._rows is None:
            return pa.array([p and p.seq for p in self._parsed], pa.int64())
        digits = self._rows[:, record.SEQ_AT : record.SEQ_AT + record.SEQ_WIDTH] - np.uint8(48)
        return pa.array(digits.astype(np.int64) @ _SEQ_POWERS)

    def sent_us(self) -> pa.Array:
        """When they were sent."""
        if self._rows is None:
            return pa.array([p and p.sent_us for p in self._parsed], pa.int64())
        digits = self._rows[:, record.TIME_AT : record.TIME_AT + record.TIME_WIDTH] - np.uint8(48)
        return pa.array(digits.astype(np.int64) @ _TIME_POWERS)

    def who(self) -> tuple[pa.Array, pa.Array]:
        """Their producers and incarnations."""
        if self._rows is None:
            return (
                pa.array([p and p.producer for p in self._parsed], pa.string()),
                pa.array([p and p.incarnation for p in self._parsed], pa.int32()),
            )
        cut = np.ascontiguousarray(self._rows[:, record.PRODUCER_AT : record.PRODUCER_AT + _WHO_WIDTH])
        column = pa.Array.from_buffers(pa.binary(_WHO_WIDTH), len(cut), [None, pa.py_buffer(cut)]).dictionary_encode()
        each = column.dictionary.to_pylist()  # few: one for each life of each producer
        producers = pa.array([w[: record.PRODUCER_WIDTH].decode("ascii").rstrip() for w in each], pa.string())
        incarnations = pa.array([int(w[-record.INCARNATION_WIDTH :]) for w in each], pa.int32())
        return producers.take(column.indices), incarnations.take(column.indices)


def _regular(values: Sequence[bytes | None]) -> npt.NDArray[np.uint8] | None:
    """The headers as a matrix of bytes, if each is as `record.encode` writes it; else None."""
    try:
        joined = b"".join([v[: record.HEADER_BYTES] for v in values])  # type: ignore[index]
    except TypeError:  # a value is null
        return None
    if len(joined) != len(values) * record.HEADER_BYTES:
        return None
    rows = np.frombuffer(joined, np.uint8).reshape(len(values), record.HEADER_BYTES)
    return rows if ((rows >= _LOWEST) & (rows <= _HIGHEST)).all() else None
