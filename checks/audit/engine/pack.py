"""Columns of numbers as bytes, compact enough to be sent between executors by the hundred million.

Neighbouring rows differ little (the next offset, the same time), so a packed column holds differences, in the smallest
integer type that fits, compressed.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from checks.audit.arrays import Columns, Ints

_CODEC = "lz4_raw"


def pack(columns: Columns) -> bytes:
    """Return columns of equal length as bytes."""
    return pickle.dumps({name: _packed(values) for name, values in columns.items()}, protocol=5)


def unpack(parts: Sequence[bytes], names: Sequence[str]) -> Columns:
    """Return the columns of some packed parts, concatenated in order; empty columns without parts."""
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
    data = pa.compress(steps.astype(kind), codec=_CODEC, asbytes=True)
    return int(values[0]), len(values), kind, data


def _unpack(into: Ints, first: int, count: int, kind: str, data: bytes) -> None:
    if not kind or count < 2:
        into.fill(first)
        return
    width = np.dtype(kind).itemsize
    steps = pa.decompress(data, decompressed_size=(count - 1) * width, codec=_CODEC)
    into[0] = first
    into[1:] = np.frombuffer(steps, kind)
    np.cumsum(into, out=into)
