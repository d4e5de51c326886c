"""Rows by key, in numpy: clients write in stretches, so rows of a key stand together, and little is left to sort."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Rows = slice | Ints
"""Which rows: a stretch of them, or their numbers in ascending order."""


def runs(*keys: Ints) -> Ints:
    """Where a run of rows with equal keys begins."""
    n = len(keys[0])
    new = np.zeros(n, np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def grouped(key: Ints, *reductions: tuple[np.ufunc, Ints]) -> tuple[Ints, list[Ints]]:
    """The distinct keys, ascending, and each column reduced (np.add, np.maximum, np.minimum) over the rows of a key."""
    if not len(key):
        return key, [column for _, column in reductions]
    starts = runs(key)
    keys = key[starts]
    values = [f.reduceat(column, starts) for f, column in reductions]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    again = runs(keys)
    return keys[again], [f.reduceat(v[order], again) for (f, _), v in zip(reductions, values, strict=True)]


def counted(key: Ints) -> tuple[Ints, Ints]:
    """The distinct keys, ascending, and how many rows each has."""
    starts = runs(key)
    lengths = np.diff(starts, append=len(key))
    order = np.argsort(key[starts], kind="stable")
    keys = key[starts][order]
    again = runs(keys)
    return keys[again], np.add.reduceat(lengths[order], again) if len(again) else lengths


def sections(*keys: Ints) -> Iterator[tuple[tuple[int, ...], Rows]]:
    """The rows of each distinct combination of keys, in their order."""
    n = len(keys[0])
    starts = runs(*keys)
    if not n:
        return
    lengths = np.diff(starts, append=n)
    codes, distinct = dense([key[starts] for key in keys])
    if distinct == len(starts):  # each stands in one stretch
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            yield tuple(int(key[start]) for key in keys), slice(start, start + length)
        return
    small = codes.astype(np.int16 if distinct < 1 << 15 else np.int32)
    order = np.argsort(np.repeat(small, lengths), kind="stable")
    rows = np.bincount(codes, weights=lengths, minlength=distinct).astype(np.int64)
    end = 0
    for count in rows.tolist():
        mine = order[end : end + count]
        end += count
        yield tuple(int(key[mine[0]]) for key in keys), mine


def dense(keys: list[Ints]) -> tuple[Ints, int]:
    """One number for each combination of keys, from 0 on without gaps, and how many there are."""
    codes, count = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        values, inverse = np.unique(key, return_inverse=True)
        together, codes = np.unique(codes * len(values) + inverse, return_inverse=True)
        count = len(together)
    return codes.astype(np.int64), count
