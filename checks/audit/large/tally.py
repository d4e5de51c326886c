"""What executors tell the driver: values by kind and key that can be merged in any order.

It is all that leaves an executor, so it is small whatever the load: sums, histograms, curves, and of findings the exact
count with a capped sample.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from checks.audit.findings import Finding, cap

Ints = npt.NDArray[np.int64]
Sparse = tuple[Ints, Ints]
"""Distinct numbers, ascending, and a value for each."""

EXACT_ROWS = 20_000
"""Up to so many values at once a histogram keeps as they are; of more it keeps 11 significant bits (under 0.1 %)."""


def _sparse(reduce: np.ufunc) -> Callable[[Sparse, Sparse], Sparse]:
    def merge(a: Sparse, b: Sparse) -> Sparse:
        keys = np.concatenate([a[0], b[0]])
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], np.concatenate([a[1], b[1]])[order]
        if not len(keys):
            return a
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        return keys[starts], reduce.reduceat(values, starts)

    return merge


def _findings(a: tuple[int, list[Finding]], b: tuple[int, list[Finding]]) -> tuple[int, list[Finding]]:
    return a[0] + b[0], cap([*a[1], *b[1]])


DIGEST = 1 << 64
"""Digests are sums modulo this, whoever makes one."""

MERGE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "digest": lambda a, b: (a + b) % DIGEST,
    "max": max,
    "min": min,
    "counts": _sparse(np.add),
    "highest": _sparse(np.maximum),
    "lowest": _sparse(np.minimum),
    "findings": _findings,
    "all": lambda a, b: a + b,
    "set": lambda a, b: a | b,
}
"""How two values of a kind become one."""


class Tally:
    """Values by (kind, name, *key)."""

    def __init__(self) -> None:
        self._values: dict[tuple[Any, ...], Any] = {}

    def add(self, kind: str, name: str, *key: Any, value: Any) -> None:
        """Merge a value in."""
        slot = kind, name, *key
        known = self._values.get(slot)
        self._values[slot] = value if known is None else MERGE[kind](known, value)

    def find(self, rows: Iterable[Finding], check: str, split: str, scope: str, count: int) -> None:
        """Merge findings of one check, split and scope in: some rows to show, and how many there are."""
        if count:
            self.add("findings", check, split, scope, value=(count, cap(list(rows))))

    def merge(self, other: Tally) -> None:
        """Merge another one in."""
        for (kind, name, *key), value in other._values.items():
            self.add(kind, name, *key, value=value)

    def get(self, kind: str, name: str, *key: Any) -> Any:
        """A value, or None."""
        return self._values.get((kind, name, *key))

    def each(self, kind: str, name: str | None = None) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Keys and values of a kind; with a name the key is what stands behind it."""
        for (its_kind, its_name, *key), value in self._values.items():
            if its_kind == kind and name in (None, its_name):
                yield (tuple(key) if name else (its_name, *key)), value

    def pack(self) -> bytes:
        """As bytes; `unpack` reads it back. It never leaves one Spark application."""
        return pickle.dumps(self._values, protocol=5)

    @classmethod
    def unpack(cls, data: bytes) -> Tally:
        """What `pack` made."""
        tally = cls()
        tally._values = pickle.loads(data)
        return tally


def histogram(values: Ints, weights: Ints) -> Sparse:
    """Values that are not negative, and how often each occurs; see `EXACT_ROWS`."""
    if len(values) <= EXACT_ROWS:
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct.astype(np.int64), np.bincount(inverse, weights).astype(np.int64)
    codes = _coded(values)
    least = int(codes.min())
    counts = np.bincount(codes - least, weights)
    found = np.flatnonzero(counts)
    return _decoded(found + least), counts[found].astype(np.int64)


_SHIFT = 52 - 10


def _coded(values: Ints) -> Ints:
    """The exponent and the 10 leading bits of the mantissa of each value as a float64: ascending with the value."""
    return values.astype(np.float64).view(np.int64) >> _SHIFT


def _decoded(codes: Ints) -> Ints:
    """The least value of each code."""
    lowest: Ints = np.ceil((codes.astype(np.int64) << _SHIFT).view(np.float64)).astype(np.int64)
    return lowest


def quantile(sparse: Sparse, q: float) -> int:
    """The least value that at least this share of all values does not exceed."""
    values, counts = sparse
    so_far = np.cumsum(counts)
    return int(values[np.searchsorted(so_far, q * so_far[-1])])


def merge_all(parts: Iterable[bytes]) -> Tally:
    """Many packed tallies as one."""
    whole = Tally()
    for part in parts:
        whole.merge(Tally.unpack(part))
    return whole
