"""Sparse distributions: distinct numbers with a value each, mergeable in any order."""

from __future__ import annotations

import numpy as np

from checks.audit.arrays import Ints
from checks.audit.engine.group import grouped

Sparse = tuple[Ints, Ints]
"""Distinct numbers, ascending, and a value for each."""

EXACT_ROWS = 20_000
"""Up to this many values a histogram is exact; above, it keeps 11 significant bits (error below 0.1 %)."""
_SHIFT = 52 - 10


def merge(reduce: np.ufunc, a: Sparse, b: Sparse) -> Sparse:
    """Merge two distributions. reduce: combines the values of equal numbers (np.add, np.maximum, np.minimum)."""
    keys, (values,) = grouped(np.concatenate([a[0], b[0]]), (reduce, np.concatenate([a[1], b[1]])))
    return keys, values


def histogram(values: Ints, weights: Ints) -> Sparse:
    """Return the weight of each distinct value; values are not negative. See `EXACT_ROWS`."""
    if len(values) <= EXACT_ROWS:
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct.astype(np.int64), np.bincount(inverse, weights).astype(np.int64)
    # exponent and leading bits of the mantissa as float64 ascend with the value
    codes = values.astype(np.float64).view(np.int64) >> _SHIFT
    least = int(codes.min())
    counts = np.bincount(codes - least, weights)
    present = np.flatnonzero(counts)
    lowest = np.ceil(((present + least).astype(np.int64) << _SHIFT).view(np.float64)).astype(np.int64)
    return lowest, counts[present].astype(np.int64)


def quantile(sparse: Sparse, q: float) -> int:
    """Return the lowest value that at least the share q of all values does not exceed."""
    values, counts = sparse
    cumulative = np.cumsum(counts)
    return int(values[np.searchsorted(cumulative, q * cumulative[-1])])
