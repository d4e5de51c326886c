"""NumPy conventions of the audit: integer columns, masks and the sentinel of a missing number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Columns = dict[str, Ints]
"""Columns of equal length, by name."""

NONE = -1
"""A missing number: offsets, partitions, assignments and seqs are never negative."""
NEVER_US = 1 << 62
"""A time after every other one."""


def nullable(value: Any) -> int | None:
    """Return a number of a column, None for `NONE`."""
    return None if value == NONE else int(value)
