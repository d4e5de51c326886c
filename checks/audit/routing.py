"""Where records were promised to lie: partitioners that go by the key or the seq, held against what was acknowledged.

That a record lies where it was acknowledged is another rule's (`misplaced_write`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from chaos.scenario.model import Scenario
from chaos.scenario.producers import Producer
from checks.audit.findings import CAP, finding
from checks.audit.large.columns import NONE, Ints, Part, known
from checks.audit.large.tally import Tally

Routes = dict[str, tuple[str, int]]
"""By the name of a producer of the scenario, what its records' partitions follow, and how many partitions there are."""

COLUMNS = ("seq", "key")
"""What has to be read of `sends` besides what the survey reads of it."""

_BY_KEY = {"murmur2": "murmur2", "murmur2_random": "murmur2", "consistent": "crc32", "consistent_random": "crc32"}
_BY_OTHER = {"round_robin": "seq", "by_key_number": "key number"}


def routes(scenario: Scenario, partitions: dict[str, int]) -> Routes:
    """The promises of a scenario's producers. partitions: how many each topic has in the end; where some were added
    meanwhile, nothing is promised."""
    found: Routes = {}
    for p in scenario.producers:
        by, count = _promise(p), scenario.topic(p.topic).partitions
        if by and partitions.get(p.topic) == count:
            found[p.name] = by, count
    return found


def _promise(p: Producer) -> str:
    chosen = str(p.partitioner or p.config.get("partitioner", ""))
    if chosen in _BY_OTHER:
        return _BY_OTHER[chosen]
    return _BY_KEY.get(chosen, "") if p.keys is not None else ""


def promised(by: str, partitions: int, keys: list[str], key: Ints, seq: Ints) -> Ints:
    """The partition of each record. keys: the distinct keys; key: which of them each record has."""
    if by == "seq":
        return seq % partitions
    of_key: Ints = np.array([_HASHES[by](text.encode()) % partitions for text in keys] or [0], np.int64)
    return of_key[key]


def murmur2(key: bytes) -> int:
    """The hash that Kafka's own clients partition by, without its sign."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := key[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def _key_number(key: bytes) -> int:
    """Keys are called k0, k1, …"""
    return int(key[1:])


_HASHES: dict[str, Callable[[bytes], int]] = {"murmur2": murmur2, "crc32": zlib.crc32, "key number": _key_number}


def misrouted_write(part: Part, routes: Routes, tally: Tally) -> None:
    """Acknowledged in another partition than the one that the producer's partitioner promises for its key or seq."""
    codes, producers = part.codes("producer")
    outcomes, words = part.codes("outcome")
    topics, names = part.codes("topic")
    keys, texts = part.codes("key")
    partition, seq = part.ints("partition").astype(np.int64), part.ints("seq")
    ok = (outcomes == (words.index("ok") if "ok" in words else NONE - 1)) & (partition != NONE)
    for code, client in enumerate(producers):
        by, partitions = routes.get(client.rpartition("/")[0], ("", 0))
        rows = np.flatnonzero(ok & (codes == code) & ((keys != NONE) | (by == "seq")))
        if not by or not len(rows):
            continue
        topic = names[topics[rows[0]]]
        tally.add("sum", "routed", topic, value=len(rows))
        due = promised(by, partitions, texts, keys[rows], seq[rows])
        wrong = np.flatnonzero(due != partition[rows])
        shown = [
            finding(
                "misrouted_write",
                topic,
                topic=topic,
                partition=int(partition[i]),
                offset=known(part.ints("offset")[i]),
                producer=client,
                incarnation=int(part.ints("incarnation")[i]),
                seq=int(seq[i]),
                at_us=int(part.ints("completed_us")[i]),
                evidence={"promised": int(due[n]), "by": by, "key": texts[keys[i]] if keys[i] != NONE else None},
            )
            for n, i in zip(wrong[:CAP].tolist(), rows[wrong[:CAP]].tolist(), strict=True)
        ]
        tally.find(shown, "misrouted_write", "", topic, len(wrong))
