"""Routes: the partitions that partitioners by key or by seq promise."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from chaos.scenario.clients import Producer
from chaos.scenario.model import Scenario
from checks.audit.arrays import Ints

Routes = dict[str, tuple[str, int]]
"""By scenario producer: what determines the partition (murmur2, crc32, seq, key number), number of partitions."""

_BY_KEY = {"murmur2": "murmur2", "murmur2_random": "murmur2", "consistent": "crc32", "consistent_random": "crc32"}
_WITHOUT_KEYS = {"round_robin": "seq", "by_key_number": "key number"}


def routes(scenario: Scenario, partitions: dict[str, int]) -> Routes:
    """Return the promises of a scenario's producers.

    partitions: the final number of partitions by topic. A topic that grew during the run promises nothing.
    """
    found: Routes = {}
    for p in scenario.producers:
        by, count = _promise(p), scenario.topic(p.topic).partitions
        if by and partitions.get(p.topic) == count:
            found[p.name] = by, count
    return found


def _promise(p: Producer) -> str:
    partitioner = str(p.partitioner or p.config.get("partitioner", ""))
    if partitioner in _WITHOUT_KEYS:
        return _WITHOUT_KEYS[partitioner]
    return _BY_KEY.get(partitioner, "") if p.keys is not None else ""


def promised(by: str, partitions: int, keys: list[str], key: Ints, seq: Ints) -> Ints:
    """Return the promised partition of each record. keys: the distinct keys; key: each record's index into them."""
    if by == "seq":
        return seq % partitions
    of_key: Ints = np.array([_HASHES[by](text.encode()) % partitions for text in keys] or [0], np.int64)
    return of_key[key]


def murmur2(key: bytes) -> int:
    """Return the hash by which Kafka's Java client partitions, without its sign."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    aligned = len(key) & ~3
    for i in range(0, aligned, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := key[aligned:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def _key_number(key: bytes) -> int:
    """Return the number of a key such as k0 or k1."""
    return int(key[1:])


_HASHES: dict[str, Callable[[bytes], int]] = {"murmur2": murmur2, "crc32": zlib.crc32, "key number": _key_number}
