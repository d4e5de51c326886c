"""Times at which partitions had fewer replicas in sync, from logs of brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from zoneinfo import ZoneInfo

from chaos.forensics.model import Finding, Findings, UnderReplicated
from chaos.incident.logs.broker_timeline import Timeline, read_timeline
from chaos.incident.logs.events import (
    BelowMinIsr,
    Event,
    IsrShrunk,
    IsrUpdated,
    LeaderChosen,
    LeaderStarted,
    UncleanElection,
)
from chaos.kafka.partition import TopicPartition

SIGNS = IsrShrunk, IsrUpdated, LeaderChosen, LeaderStarted
"""Lines that name the replicas in sync."""


def read(folders: Iterable[Path], zone: ZoneInfo, progress: Callable[[str], None]) -> tuple[list[Event], list[str]]:
    """Return the events of all folders by time, and notes about them. Raises `UsageError` without a log."""
    events, notes = list[Event](), list[str]()
    for folder in folders:
        timeline: Timeline = read_timeline(folder, zone, progress)
        events += timeline.events
        notes += [f"{folder}: {problem}" for problem in timeline.files.problems]
        if timeline.assumed_zone:
            notes.append(f"{folder}: its times have no zone, and are taken for {zone.key}; give --timezone")
        if not timeline.select(*SIGNS, BelowMinIsr, UncleanElection):
            notes.append(f"{folder}: no line of it names replicas in sync")
    return sorted(events, key=lambda e: e.at_us), notes


def judge(events: Iterable[Event], since_us: int, findings: Findings) -> list[UnderReplicated]:
    """Return the times with fewer replicas in sync, by partition and time, and add them to what was found.

    A time begins with a line about a smaller ISR, and ends with a line that names as many replicas as before it.
    """
    found: list[UnderReplicated] = []
    full: dict[TopicPartition, frozenset[int]] = defaultdict(frozenset)
    open_: dict[TopicPartition, UnderReplicated] = {}
    refused: dict[TopicPartition, list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, IsrShrunk | IsrUpdated | LeaderChosen | LeaderStarted):
            partition, isr = event.partition, frozenset(event.isr)
            before = frozenset(event.before) if isinstance(event, IsrShrunk) else frozenset[int]()
            full[partition] = max(isr, before, full[partition], key=len)
            _follow(partition, isr, full[partition], event.at_us, open_, found)
        elif event.at_us < since_us:
            continue
        elif isinstance(event, BelowMinIsr):
            refused[event.partition].append(event.at_us)
        elif isinstance(event, UncleanElection):
            where = str(event.partition or f"topic id {event.topic_id}, partition {event.number}")
            findings.add(Finding(kind="unclean", where=where, at_us=event.at_us, words=event.describe()))
    for partition, times in sorted(refused.items()):
        words = f"{len(times):,} lines about refused writes"
        findings.add(Finding(kind="refused", where=str(partition), at_us=times[0], words=words))
    found = [u for u in found if u.until_us is None or u.until_us >= since_us]
    for u in found:
        findings.add(Finding(kind="under-replicated", where=u.partition, at_us=u.from_us, words=_words(u)))
    return sorted(found, key=lambda u: (u.partition, u.from_us))


def _follow(
    partition: TopicPartition,
    isr: frozenset[int],
    full: frozenset[int],
    at_us: int,
    open_: dict[TopicPartition, UnderReplicated],
    found: list[UnderReplicated],
) -> None:
    """Take the replicas in sync of a partition from a time on."""
    at = open_.get(partition)
    if len(isr) >= len(full):
        if at is not None:
            at.until_us = at_us
            del open_[partition]
        return
    if at is None:
        at = UnderReplicated(partition=str(partition), from_us=at_us, until_us=None, fewest=sorted(isr), missing=[])
        open_[partition] = at
        found.append(at)
    if len(isr) <= len(at.fewest):
        at.fewest, at.missing = sorted(isr), sorted(full - isr)


def _words(u: UnderReplicated) -> str:
    until = "; the logs do not show its end" if u.until_us is None else f" for {(u.until_us - u.from_us) / 1e6:,.1f} s"
    return f"only {u.fewest} in sync, without {u.missing}{until}"
