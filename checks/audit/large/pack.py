"""Columns of numbers as bytes, small enough to be sent between executors by the hundred million.

Neighbouring rows differ little (the next offset, the same time), so what is kept is the differences, in as few bytes as
they need, compressed.
"""

from __future__ import annotations

import pickle

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Columns = dict[str, Ints]

_CODEC = "lz4_raw"


def pack(columns: Columns) -> bytes:
    """Columns of equal length as bytes."""
    return pickle.dumps({name: _packed(values) for name, values in columns.items()}, protocol=5)


def unpack(data: bytes) -> Columns:
    """What `pack` was given."""
    return {name: _unpacked(*packed) for name, packed in pickle.loads(data).items()}


def concatenated(parts: list[Columns], names: tuple[str, ...]) -> Columns:
    """Columns one behind the other; empty ones where there is no part."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([p[name] for p in parts] or [np.zeros(0, np.int64)]) for name in names}


def _packed(values: Ints) -> tuple[int, int, str, bytes]:
    """The first value, the number of values, and the type and bytes of the differences."""
    if not len(values):
        return 0, 0, "i1", b""
    steps = np.diff(values)
    least, most = (int(steps.min()), int(steps.max())) if len(steps) else (0, 0)
    if least == most == 0:
        return int(values[0]), len(values), "", b""
    kind = next(k for k in ("i1", "i2", "i4", "i8") if np.iinfo(k).min <= least and most <= np.iinfo(k).max)
    data = pa.compress(steps.astype(kind), codec=_CODEC, asbytes=True)
    return int(values[0]), len(values), kind, data


def _unpacked(first: int, count: int, kind: str, data: bytes) -> Ints:
    if not kind or count < 2:
        return np.full(count, first, np.int64)
    width = np.dtype(kind).itemsize
    steps = pa.decompress(data, decompressed_size=(count - 1) * width, codec=_CODEC)
    values = np.empty(count, np.int64)
    values[0] = first
    values[1:] = np.frombuffer(steps, kind)
    return np.cumsum(values, out=values)
