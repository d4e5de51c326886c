"""Points in time of many rows, reduced to what the curves, the heat maps and the unavailability need.

Rows come as runs: rows that share all the given values, and how many they are.
"""

from __future__ import annotations

import math

import numpy as np

from checks.audit.large.columns import Ints
from checks.audit.large.group import counted, grouped
from checks.audit.large.tally import Sparse, Tally

BUCKET_US = 250_000
BINS_PER_DECADE = 4
BEFORE_US = 10_000_000
"""The usual time between successes is taken from so much time before a fault."""

EDGES = np.array([math.floor(10 ** (k / BINS_PER_DECADE)) for k in range(13 * BINS_PER_DECADE)], np.int64)
"""The lower edges of the bins of a heat map, in us."""


def bucket(at_us: Ints) -> Ints:
    """The beginning of each one's bucket."""
    return at_us - at_us % BUCKET_US


def heat(tally: Tally, series: str, scope: str, at_us: Ints, value_us: Ints, counts: Ints, cell_us: int) -> None:
    """Count values by cell of time and bin of size, the number of both in one key."""
    bins = np.searchsorted(EDGES, np.maximum(value_us, 1), "right") - 1
    keys = at_us // cell_us * 64 + bins
    least = int(keys.min())
    if int(keys.max()) - least > 4 * len(keys) + 100_000:
        tally.add("counts", "heat", series, scope, value=counted(keys, counts))
        return
    sums = np.bincount(keys - least, counts)
    found = np.flatnonzero(sums)
    tally.add("counts", "heat", series, scope, value=(found + least, sums[found].astype(np.int64)))


def moments(
    tally: Tally,
    what: str,
    scope: str,
    partition: Ints,
    at_us: Ints,
    invoked_us: Ints,
    counts: Ints,
    injected: dict[str, int],
) -> None:
    """For each fault and partition: the distinct times of success before it, with how many each saw, and the first
    success of an operation invoked after it."""
    for fault, fault_us in injected.items():
        before = (at_us >= fault_us - BEFORE_US) & (at_us < fault_us)
        if before.any():
            keys = (partition[before] << 40) | (at_us[before] - (fault_us - BEFORE_US))
            tally.add("counts", f"{what}_before", fault, scope, value=counted(keys, counts[before]))
        after = invoked_us >= fault_us
        if after.any():
            firsts = grouped(partition[after], (np.minimum, at_us[after]))
            tally.add("lowest", f"{what}_first", fault, scope, value=(firsts[0], firsts[1][0]))


def usual_gap(before: Sparse | None, partition: int) -> int:
    """The median time between neighbouring successes in a partition; those of one moment are 0 apart. 0 if unknown."""
    if before is None:
        return 0
    mine = before[0] >> 40 == partition
    times, counts = before[0][mine] & ((1 << 40) - 1), before[1][mine]
    gaps = int(counts.sum()) - 1
    if gaps < 1:
        return 0
    between = np.sort(np.diff(times))
    zeros = gaps - len(between)
    nth = math.ceil(gaps / 2) - 1
    return 0 if nth < zeros else int(between[nth - zeros])
