"""NumPy conventions of the audit: integer columns, masks and the sentinel of a missing number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Columns = dict[str, Ints]
"""Columns of equal length, by name."""

NONE = -1
"""A missing number: offsets, partitions, assignments and seqs are never negative."""
NEVER_US = 1 << 62
"""A time after every other one."""


def distinct(values: Ints) -> Ints:
    """Return the distinct values, ascending.

    `np.unique` hashes them, which takes 150 times as long for a million different ones (NumPy 2.4, measured).
    """
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    found: Ints = ordered[first]
    return found


def among(values: Ints, members: Ints) -> Mask:
    """Return which values are among some members, by hashing; `np.isin` sorts both if they are far apart."""
    found: Mask = pc.is_in(pa.array(values), pa.array(members)).to_numpy(zero_copy_only=False)
    return found


def nullable(value: Any) -> int | None:
    """Return a number of a column, None for `NONE`."""
    return None if value == NONE else int(value)
