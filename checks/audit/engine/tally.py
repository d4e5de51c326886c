"""Tallies: what executors return to the driver, as typed aggregates that merge in any order.

A tally is all that leaves an executor, so it is small whatever the load: sums, distributions, curves, and of findings
the exact count with a capped sample.

A sparse distribution has distinct numbers with a value each.
"""

from __future__ import annotations

import operator
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from checks.audit.arrays import Ints, distinct
from checks.audit.engine.group import grouped
from checks.audit.findings import UNDECIDED, Finding, Reason, cap, finding

Sparse = tuple[Ints, Ints]
"""Distinct numbers, ascending, and a value for each."""

EXACT_ROWS = 20_000
"""Up to this many values a histogram is exact; above, it keeps 11 significant bits (error below 0.1 %)."""
_SHIFT = 52 - 10


def merge_sparse(reduce: np.ufunc, a: Sparse, b: Sparse) -> Sparse:
    """Merge two distributions. reduce: combines the values of equal numbers (np.add, np.maximum, np.minimum)."""
    keys, (values,) = grouped(np.concatenate([a[0], b[0]]), (reduce, np.concatenate([a[1], b[1]])))
    return keys, values


V = TypeVar("V")


@dataclass(frozen=True)
class Aggregate(Generic[V]):
    """A named, typed aggregate. merge: combines two values, in any order; it can be pickled."""

    name: str
    merge: Callable[[V, V], V] = field(compare=False)


def _add_digests(a: int, b: int) -> int:
    return (a + b) % (1 << 64)


def _merge_findings(a: tuple[int, list[Finding]], b: tuple[int, list[Finding]]) -> tuple[int, list[Finding]]:
    return a[0] + b[0], cap([*a[1], *b[1]])


def _merge_extents(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return min(a[0], b[0]), max(a[1], b[1])


def _merge_numbers(a: Ints, b: Ints) -> Ints:
    return distinct(np.concatenate([a, b]))


Kind = Callable[[str], Aggregate[V]]
"""A kind of aggregates: from the name to the aggregate."""
total: Kind[int] = partial(Aggregate, merge=operator.add)
maximum: Kind[int] = partial(Aggregate, merge=max)
minimum: Kind[int] = partial(Aggregate, merge=min)
digest: Kind[int] = partial(Aggregate, merge=_add_digests)
union: Kind[set[Any]] = partial(Aggregate, merge=operator.or_)
numbers: Kind[Ints] = partial(Aggregate, merge=_merge_numbers)
collection: Kind[list[Any]] = partial(Aggregate, merge=operator.add)
extent: Kind[tuple[int, int]] = partial(Aggregate, merge=_merge_extents)
distribution: Kind[Sparse] = partial(Aggregate, merge=partial(merge_sparse, np.add))
highest: Kind[Sparse] = partial(Aggregate, merge=partial(merge_sparse, np.maximum))
lowest: Kind[Sparse] = partial(Aggregate, merge=partial(merge_sparse, np.minimum))
"""They keep the sum, the highest number, the lowest number, the sum modulo 2^64, all members, all distinct numbers
(ascending), all entries, the lowest and the highest number; and by number the sum, the highest and the lowest value."""
FINDINGS: Aggregate[tuple[int, list[Finding]]] = Aggregate("findings", _merge_findings)
"""By check, split and scope: the exact count and the findings to show."""

BY_REASON: Aggregate[int] = total("undecided")
"""Rows for which a check could not be decided, by check, scope and reason."""


class Tally:
    """Values by aggregate and key."""

    def __init__(self) -> None:
        self._values: dict[Aggregate[Any], dict[tuple[Any, ...], Any]] = defaultdict(dict)

    def add(self, aggregate: Aggregate[V], *key: Any, value: V) -> None:
        """Merge a value into an aggregate."""
        values = self._values[aggregate]
        values[key] = aggregate.merge(values[key], value) if key in values else value

    def report(self, check: str, scope: str, count: int, rows: Iterable[dict[str, Any]] = (), split: str = "") -> None:
        """Add findings of one check, split and scope. rows: the arguments of `finding` for those to show."""
        if count:
            shown = cap(finding(check, scope, split, **row) for row in rows)
            self.add(FINDINGS, check, split, scope, value=(count, shown))

    def report_undecided(self, check: str, scope: str, count: int, reason: Reason) -> None:
        """Add rows for which a check could not be decided."""
        self.report(check, scope, count, split=UNDECIDED)
        if count:
            self.add(BY_REASON, check, scope, reason, value=count)

    def merge(self, other: Tally) -> None:
        """Merge all values of another tally."""
        for aggregate, values in other._values.items():
            for key, value in values.items():
                self.add(aggregate, *key, value=value)

    def get(self, aggregate: Aggregate[V], *key: Any) -> V | None:
        """Return a value, None if there is none."""
        return self._values.get(aggregate, {}).get(key)

    def count(self, aggregate: Aggregate[int], *key: Any) -> int:
        """Return a number, 0 if there is none."""
        return self.get(aggregate, *key) or 0

    def members(self, aggregate: Aggregate[set[Any]]) -> set[Any]:
        """Return a set, empty if there is none."""
        return self.get(aggregate) or set()

    def each(self, aggregate: Aggregate[V]) -> Iterator[tuple[tuple[Any, ...], V]]:
        """Yield the keys and values of an aggregate."""
        yield from self._values.get(aggregate, {}).items()

    def pack(self) -> bytes:
        """Return the tally as bytes for `unpack`. They never leave one Spark application."""
        return pickle.dumps(dict(self._values), protocol=5)

    @classmethod
    def unpack(cls, data: bytes) -> Tally:
        """Return the tally that `pack` was called on."""
        tally = cls()
        tally._values.update(pickle.loads(data))
        return tally


def merge_all(packed: Iterable[bytes]) -> Tally:
    """Return many packed tallies as one."""
    merged = Tally()
    for data in packed:
        merged.merge(Tally.unpack(data))
    return merged


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
