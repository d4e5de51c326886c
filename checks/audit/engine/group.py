"""Rows by key, in NumPy. Clients write rows of one key in long stretches, so few stretches remain to be sorted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from checks.audit.arrays import Ints

LONG = 64
"""Average stretch length from which copying by stretch is faster than by row."""


def runs(*keys: Ints) -> Ints:
    """Return the indexes at which a run of rows with equal keys begins."""
    n = len(keys[0])
    new = np.zeros(n, np.bool_)
    new[:1] = True
    for key in keys:
        if n and (key[0] != key[-1] or (key != key[0]).any()):
            new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


@dataclass(frozen=True)
class Rows:
    """Some rows of a part in ascending order, as stretches of neighbouring rows."""

    starts: Ints
    lengths: Ints

    def __len__(self) -> int:
        return int(self.lengths.sum())

    @property
    def first(self) -> int:
        """The index of the first row."""
        return int(self.starts[0])

    @cached_property
    def index(self) -> Ints:
        """The indexes of all rows."""
        before = np.cumsum(self.lengths) - self.lengths
        return np.repeat(self.starts - before, self.lengths) + np.arange(len(self))

    def take(self, column: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the values of the rows in a column; a view if they are one stretch."""
        if len(self.starts) == 1:
            return column[self.first : self.first + int(self.lengths[0])]
        if len(self) >= LONG * len(self.starts):
            ends = (self.starts + self.lengths).tolist()
            return np.concatenate([column[a:b] for a, b in zip(self.starts.tolist(), ends, strict=True)])
        return column[self.index]

    def ints(self, column: Ints) -> Ints:
        """Return the values of the rows in a column of numbers, as 64 bits."""
        return self.take(column).astype(np.int64, copy=False)


def sections(*keys: Ints) -> Iterator[tuple[tuple[int, ...], Rows]]:
    """Yield each distinct combination of keys with its rows."""
    n = len(keys[0])
    starts = runs(*keys)
    if not n:
        return
    lengths = np.diff(starts, append=n)
    at_starts = [key[starts] for key in keys]
    codes, distinct = dense(at_starts)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=distinct)
    end = 0
    for count in counts.tolist():
        stretches = order[end : end + count]
        end += count
        yield tuple(int(key[stretches[0]]) for key in at_starts), Rows(starts[stretches], lengths[stretches])


def dense(keys: list[Ints]) -> tuple[Ints, int]:
    """Return a number from 0 on, without gaps, for each combination of keys, and how many there are."""
    codes, count = np.zeros(len(keys[0]), np.int64), min(len(keys[0]), 1)
    for key in keys:
        if not len(key) or (key[0] == key[-1] and (key == key[0]).all()):
            continue
        values, inverse = np.unique(key, return_inverse=True)
        combined, codes = np.unique(codes * len(values) + inverse, return_inverse=True)
        count = len(combined)
    return codes.astype(np.int64), count


def grouped(key: Ints, *reductions: tuple[np.ufunc, Ints]) -> tuple[Ints, list[Ints]]:
    """Return the distinct keys, ascending, and each column reduced (np.add, np.maximum, np.minimum) by key."""
    if not len(key):
        return key, [column for _, column in reductions]
    starts = runs(key)
    keys = key[starts]
    values = [f.reduceat(column, starts) for f, column in reductions]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    distinct = runs(keys)
    return keys[distinct], [f.reduceat(v[order], distinct) for (f, _), v in zip(reductions, values, strict=True)]


def counted(key: Ints, weights: Ints) -> tuple[Ints, Ints]:
    """Return the distinct keys, ascending, and the sum of their weights."""
    keys, (sums,) = grouped(key, (np.add, weights))
    return keys, sums
