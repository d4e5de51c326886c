"""Partitions created after a group had begun to read their topic; the group has to read all of them.

`auto.offset.reset=latest` means "from now on" where a consumer finds a partition for the first time. For a partition
that existed when the group began, that is the configured behaviour, and nothing is skipped. A partition that is added
later had no record before the group began, so every record of it was written while the group subscribed to the topic.
With `latest` the group leaves out the records written between the creation of the partition and its discovery, without
an error. See KAFKA-12478, the "metadata blindness window" of KIP-1327 and KIP-1282, and the warning in Kafka's
documentation of `auto.offset.reset` (KAFKA-12261, KAFKA-20539).

This concerns groups only. A subscription covers a whole topic, by name or by pattern; an assign-mode consumer names the
partitions that it reads. A group that a fault deleted begins again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from checks.audit.facts.epochs import Epochs, ReaderPartition
from checks.audit.facts.observed import Observed
from checks.audit.facts.offset_changes import OffsetChange
from checks.audit.facts.readers import Reader, entry_of

SAMPLE_US = 3_000_000
"""Maximum duration of one metadata sample of the observer: three brokers in turn that do not answer."""


@dataclass(frozen=True)
class AddedPartition:
    """A partition created after a group had begun.

    began_us: the first assignment of a member that subscribes to the topic. seen_us: the first observation of the
    partition.
    """

    began_us: int
    seen_us: int


def added_partitions(
    readers: list[Reader],
    epochs: Epochs,
    observed: Observed,
    partitions: Iterable[tuple[str, int]],
    offset_changes: Iterable[OffsetChange] = (),
) -> dict[ReaderPartition, AddedPartition]:
    """Return the partitions that were certainly created after a group had begun to read their topic.

    Certain means: the observer had sampled the metadata before the group began, and no sample can have missed the
    partition between then and the earliest time at which it may have been created.
    """
    samples = observed.changes("cluster", "answers")
    if not samples:
        return {}
    created: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for topic, partition in partitions:
        if leaders := observed.changes(f"{topic}/{partition}", "leader"):
            seen = leaders[0][0]
            created[topic].append((partition, seen, _absent_until(seen, observed)))
    begins, found = _begins(epochs), {}
    for reader in (r for r in readers if r.mode == "subscribe"):
        deleted = [m.from_us for m in offset_changes if m.offsets is None and m.group == reader.name]
        for topic in reader.topics:
            subscribed = [begins[reader.name, entry.name] for entry in reader.entries if topic in entry.topics]
            for partition, seen, absent_until in created[topic]:
                turns = epochs.turns.get((reader.name, topic, partition), [])
                since = max((at for at in deleted if not turns or at <= turns[0].begin_us), default=0)
                firsts = (at[i] for at in subscribed if (i := bisect_left(at, since)) < len(at))
                began = min(firsts, default=None)
                if began is not None and samples[0][0] <= began < absent_until:
                    found[reader.name, topic, partition] = AddedPartition(began, seen)
    return found


def _begins(epochs: Epochs) -> dict[tuple[str, str], list[int]]:
    """Return by reader and scenario entry the sorted times at which members were assigned a partition of any topic."""
    begins: dict[tuple[str, str], list[int]] = defaultdict(list)
    for e in epochs.all:
        begins[e.reader, entry_of(e.consumer)].append(e.begin_us)
    for times in begins.values():
        times.sort()
    return begins


def _absent_until(seen_us: int, observed: Observed) -> int:
    """Return a time at which a partition first seen at `seen_us` certainly did not exist yet.

    That is one sample earlier, or one sample before the span without an answer that ended with the observation.
    """
    since = seen_us - SAMPLE_US
    for s in observed.spans(("cluster", "answers")):
        if s.values["answers"] is False and s.begin_us <= seen_us and s.end_us >= since:
            since = min(since, s.begin_us - SAMPLE_US)
    return since
