"""Routes: the partitions that partitioners by key or by seq promise."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.faults.topics import AddPartitionsSpec
from chaos.scenario.model import Scenario
from chaos.setup.clients import Producer
from checks.audit.arrays import NEVER_US, Ints, Mask


@dataclass(frozen=True)
class Route:
    """The promise of one producer.

    by: what determines the partition (murmur2, crc32, seq, key number). counts: each number of partitions that the
    topic had, by the earliest time at which a client can know it. A client learns of a new number when it refreshes its
    metadata, so from then on a record may be where any of these numbers puts it: keys change when partitions are added.
    """

    by: str
    counts: Mapping[int, int]

    def covers(self, keys: list[str]) -> Mask:
        """Return for each key whether the partitioner promises a partition for it: one by number needs a number."""
        return np.array([self.by != "key number" or _NUMBERED.fullmatch(key) is not None for key in keys], bool)

    def places(self, keys: list[str], key: Ints, seq: Ints, completed_us: Ints) -> tuple[Ints, Mask]:
        """Return for each number of partitions (rows) the partition of each record, and whether a client knew it."""
        own, index = np.unique(key, return_inverse=True)
        texts = [keys[i] if self.by != "seq" else "" for i in own.tolist()]
        places = [promised(self.by, count, texts, index, seq) for count in self.counts]
        return np.array(places), np.array([completed_us >= from_us for from_us in self.counts.values()])


Routes = dict[str, Route]
"""By scenario producer."""

_BY_KEY = {"murmur2": "murmur2", "murmur2_random": "murmur2", "consistent": "crc32", "consistent_random": "crc32"}
_WITHOUT_KEYS = {"round_robin": "seq", "by_key_number": "key number"}


def routes(
    scenario: Scenario, partitions: Mapping[str, int] | None = None, faults: Iterable[Mapping[str, Any]] = ()
) -> Routes:
    """Return the promises of a scenario's producers; the same producers have one whatever happened in a run.

    partitions: the final number of partitions by topic, if it is known. faults: rows of table `faults`, with times by
    the clock of the drive. A number that no fault explains may have been there at any time.
    """
    begun: dict[str, int] = {}
    for row in faults:
        begun[row["fault"]] = min(begun.get(row["fault"], NEVER_US), row["at_us"])
    wrong_clock = bool(scenario.skewed_clients)
    found: Routes = {}
    for p in scenario.producers:
        if (by := _promise(p)) and p.topic is not None:  # several topics may have other numbers of partitions
            counts = {scenario.topic(p.topic).partitions: 0}
            for fault in scenario.faults:
                if isinstance(fault, AddPartitionsSpec) and fault.target.topic == p.topic and fault.name in begun:
                    counts.setdefault(fault.to, 0 if wrong_clock else begun[fault.name])
            counts.setdefault((partitions or {}).get(p.topic) or scenario.topic(p.topic).partitions, 0)
            found[p.name] = Route(by, counts)
    return found


def _promise(p: Producer) -> str:
    partitioner = str(p.partitioner or p.config.get("partitioner", ""))
    if partitioner in _WITHOUT_KEYS:
        return _WITHOUT_KEYS[partitioner]
    return _BY_KEY.get(partitioner, "") if p.has_keys else ""


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


_NUMBERED = re.compile(r"k[0-9]+")


def _key_number(key: bytes) -> int:
    """Return the number of a key such as k0 or k1."""
    return int(key[1:])


_HASHES: dict[str, Callable[[bytes], int]] = {"murmur2": murmur2, "crc32": zlib.crc32, "key number": _key_number}
