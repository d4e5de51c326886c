"""Times of many rows, reduced for curves, heat maps and unavailability.

Rows are given as runs of rows with equal values; counts is the length of each run.
"""

from __future__ import annotations

import math

import numpy as np

from checks.audit.arrays import Ints
from checks.audit.engine.counters import HEAT, Successes
from checks.audit.engine.group import counted, grouped
from checks.audit.engine.tally import Sparse, Tally

BUCKET_US = 250_000
BINS_PER_DECADE = 4
BEFORE_US = 10_000_000
"""The span before a fault from which the usual time between successes is taken."""
_TIME_BITS = 40

EDGES = np.array([math.floor(10 ** (k / BINS_PER_DECADE)) for k in range(13 * BINS_PER_DECADE)], np.int64)
"""The lower edges of the latency bins of a heat map, in microseconds."""


def bucket(at_us: Ints) -> Ints:
    """Return the begin of the time bucket of each time."""
    return at_us - at_us % BUCKET_US


def add_heat(tally: Tally, series: str, scope: str, at_us: Ints, value_us: Ints, counts: Ints, cell_us: int) -> None:
    """Count values by time cell and latency bin; both numbers share one key."""
    bins = np.searchsorted(EDGES, np.maximum(value_us, 1), "right") - 1
    keys = at_us // cell_us * 64 + bins
    least = int(keys.min())
    if int(keys.max()) - least > 4 * len(keys) + 100_000:
        tally.add(HEAT, series, scope, value=counted(keys, counts))
        return
    sums = np.bincount(keys - least, counts)
    present = np.flatnonzero(sums)
    tally.add(HEAT, series, scope, value=(present + least, sums[present].astype(np.int64)))


def add_successes(
    tally: Tally,
    successes: Successes,
    scope: str,
    partition: Ints,
    at_us: Ints,
    invoked_us: Ints,
    counts: Ints,
    injected: dict[str, int],
) -> None:
    """Add, per fault and partition, the times of successes before it and the first success of a later operation."""
    for fault, fault_us in injected.items():
        before = (at_us >= fault_us - BEFORE_US) & (at_us < fault_us)
        if before.any():
            keys = (partition[before] << _TIME_BITS) | (at_us[before] - (fault_us - BEFORE_US))
            tally.add(successes.before, fault, scope, value=counted(keys, counts[before]))
        after = invoked_us >= fault_us
        if after.any():
            partitions, (firsts,) = grouped(partition[after], (np.minimum, at_us[after]))
            tally.add(successes.first, fault, scope, value=(partitions, firsts))


def usual_gap_us(before: Sparse | None, partition: int) -> int:
    """Return the median time between successes in a partition, 0 if unknown. Successes at one time are 0 apart."""
    if before is None:
        return 0
    here = before[0] >> _TIME_BITS == partition
    times, counts = before[0][here] & ((1 << _TIME_BITS) - 1), before[1][here]
    gaps = int(counts.sum()) - 1
    if gaps < 1:
        return 0
    between = np.sort(np.diff(times))
    zeros = gaps - len(between)
    median = math.ceil(gaps / 2) - 1
    return 0 if median < zeros else int(between[median - zeros])
