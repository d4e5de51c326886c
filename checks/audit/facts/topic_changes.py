"""Changes of topics, as faults and the observer recorded them: lives of deleted and created topics, added partitions.

A group has to read all of a partition that was created after it had begun to read the topic.
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

import json
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from checks.audit.arrays import NEVER_US
from checks.audit.facts.epochs import Epochs, ReaderPartition, Row
from checks.audit.facts.observed import Observed
from checks.audit.facts.offset_changes import OffsetChange, evidence_of
from checks.audit.facts.readers import Reader, entry_of
from checks.audit.facts.topic_lives import SETTLE_US, TopicLife, TopicLives


def topic_lives(
    cluster: list[Row], faults: Iterable[Row], starts: Mapping[tuple[str, int], int], compacted: Collection[str] = ()
) -> TopicLives:
    """Return the lives of the topics that were deleted.

    cluster, faults: rows of these tables. starts: start of the log of each partition that was read back.
    """
    changes = _by_faults(faults)
    for topic, seen in _sampled(cluster).items():
        known = changes.get(topic, [])
        unknown = [c for c in seen if not any(_same(c, k) for k in known)]
        known = [_completed(k, [c for c in seen if _same(c, k)]) for k in known]
        changes[topic] = sorted([*known, *unknown], key=lambda c: c.deleted_us)
    here = {topic for topic, _ in starts}
    lives = {topic: _lives(topic, found, topic in here) for topic, found in changes.items() if found}
    steady = _steady(cluster, {t: chain for t, chain in lives.items() if t not in compacted})
    steady = frozenset((t, p) for t, p in steady if t not in here or not starts.get((t, p), 1))
    return TopicLives(lives, steady=steady, partitions=frozenset(starts))


def _steady(cluster: Iterable[Row], lives: Mapping[str, list[TopicLife]]) -> frozenset[tuple[str, int]]:
    """Return labels and partitions of the lives with one leader epoch, as far as the observer saw.

    Only a new leader makes replicas truncate their logs (KIP-101). So each record that such a partition acknowledged is
    in its log, where nothing was deleted from the log since.
    """
    epochs: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in cluster:
        topic, _, number = row["entity"].rpartition("/")
        for life in lives.get(topic, ()) if row["key"] == "leader_epoch" else ():
            if life.not_before_us <= row["at_us"] < life.deleted_us:
                epochs[life.label, int(number)].add(row["value"])
    return frozenset(partition for partition, seen in epochs.items() if len(seen) == 1)


@dataclass(frozen=True)
class _Change:
    """A deletion between deleted_us and gone_us, and the creation that followed it.

    created_us: the moment at which all brokers listed the new topic, NEVER_US if that is unknown or there is none.
    """

    former_id: str
    deleted_us: int
    gone_us: int
    created_us: int = NEVER_US
    topic_id: str = ""


def _same(a: _Change, b: _Change) -> bool:
    """Return whether the observer and a fault report the same change."""
    if a.former_id and b.former_id:
        return a.former_id == b.former_id
    return a.deleted_us <= b.gone_us and b.deleted_us <= a.gone_us


def _completed(fault: _Change, seen: list[_Change]) -> _Change:
    """Return a change by a fault with the creation that the observer saw, if a client created the topic again."""
    if fault.topic_id or fault.created_us != NEVER_US or not seen:
        return fault
    return replace(fault, created_us=seen[0].created_us, topic_id=seen[0].topic_id)


def _by_faults(faults: Iterable[Row]) -> dict[str, list[_Change]]:
    """Return the changes by faults in their order, from the evidence of their last phase."""
    last: dict[str, tuple[int, str, dict[str, Any]]] = {}
    for row in sorted(faults, key=lambda r: r["at_us"]):
        if row["kind"] in ("topic.delete", "topic.recreate"):
            evidence = evidence_of(row)
            if isinstance(evidence.get("delete_us"), list):
                last[row["fault"]] = row["at_us"], row["target"].removeprefix("topic "), evidence
    found: dict[str, list[_Change]] = defaultdict(list)
    for _, topic, evidence in last.values():
        asked, answered = evidence["delete_us"]
        former, topic_id = (str(evidence.get(key) or "") for key in ("former_id", "topic_id"))
        created = evidence.get("everywhere_us") or NEVER_US
        found[topic].append(_Change(former, asked, answered, created, topic_id))
    # faults on one topic may overlap: the first fault to delete it need not be the first to report the deletion
    return {topic: sorted(changes, key=lambda c: c.deleted_us) for topic, changes in found.items()}


def _sampled(cluster: Iterable[Row]) -> dict[str, list[_Change]]:
    """Return the changes that the observer saw: from one id to none or to another one."""
    current: dict[str, tuple[str, int]] = {}
    found: dict[str, list[_Change]] = defaultdict(list)
    for row in sorted(cluster, key=lambda r: r["at_us"]):
        if row["key"] != "id" or not row["entity"].startswith("topic:"):
            continue
        topic, value, at_us = row["entity"].removeprefix("topic:"), json.loads(row["value"]), row["at_us"]
        before, gone_us = current.get(topic, (None, 0))
        if value is None:
            if before is not None and not gone_us:
                current[topic] = before, at_us
        elif before is None or (value == before and before):
            current[topic] = value, 0
        else:
            since = gone_us or at_us
            found[topic].append(_Change(before, since - SAMPLE_US, since, at_us + SAMPLE_US, value))
            current[topic] = value, 0
    for topic, (before, gone_us) in current.items():
        if gone_us:
            found[topic].append(_Change(before, gone_us - SAMPLE_US, gone_us))
    return dict(found)


def _lives(topic: str, changes: list[_Change], present: bool) -> list[TopicLife]:
    """Return the lives around the changes. present: whether the topic was read back.

    The last one has the plain name. It exists if it was read back, or if a creation followed the last deletion.
    """
    lives: list[TopicLife] = []
    topic_id, not_before, since = changes[0].former_id, 0, 0
    for number, change in enumerate(changes, start=1):
        label = _label(topic, topic_id or change.former_id, change.deleted_us, number, len(changes))
        lives.append(TopicLife(topic, label, topic_id or change.former_id, not_before, since, change.deleted_us))
        topic_id, not_before, since = change.topic_id, change.gone_us, change.created_us + SETTLE_US
    if present or topic_id or since < NEVER_US:
        since = min(since, NEVER_US - 1)
        lives.append(TopicLife(topic, topic, topic_id, not_before, since))
    return lives


def _label(topic: str, topic_id: str, deleted_us: int, number: int, of: int) -> str:
    at = time.strftime("%H:%M:%S", time.gmtime(deleted_us / 1e6))
    return f"{topic} (deleted {at}, {f'id {topic_id}' if topic_id else f'life {number} of {of + 1}, no id'})"


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
