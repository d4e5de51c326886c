"""Timeline of the cluster: the events of all logs on one clock, the process lives of each broker, and its settings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypeVar
from zoneinfo import ZoneInfo

from chaos.errors import UsageError
from chaos.incident.logs.entries import NO_NODE, Entry, LogFile, LogFolder, Source, entries, find_logs
from chaos.incident.logs.events import LIBRDKAFKA, Event, FollowerStarted, LeaderStarted, PeerLost, PollTimeExceeded
from chaos.incident.logs.writers import Record, Stream, assign_writers, processes, streams_of
from chaos.kafka.partition import TopicPartition

MIN_SILENCE_US = 2 * 10**6
"""Shortest gap between two entries of a broker that counts as a silence."""
REPEAT_US = 5 * 10**6
"""Reports of one lost connection within this time count once."""
PROGRESS_ENTRIES = 50_000
TOLERANCE_US = 2 * 10**6
"""Normal difference between brokers: the time that metadata takes to reach all of them."""
QUARTER_US = 15 * 60 * 10**6
"""Unit of the differences between time zones."""
APART_US = 5 * 10**6
"""Minimum time between the first and the last change for a correction."""
_SETTING = re.compile(r"^\s+([a-z][\w.]*) = (.*)$", re.MULTILINE)

Kind = TypeVar("Kind", bound=Event)


@dataclass
class Life:
    """First and last entry of one broker process. `started` is False if the log begins while the process runs."""

    first: Entry
    last: Entry
    started: bool


@dataclass(frozen=True)
class Silence:
    """Gap between two entries of a broker."""

    before: Entry
    after: Entry

    @property
    def length_us(self) -> int:
        """Length of the gap."""
        return self.after.at_us - self.before.at_us


@dataclass
class BrokerLog:
    """Content of the log of one node. `settings` are the settings of its last start.

    `successor`: the id with which its process came back, and the line that shows it. `assumed_zone`: some time has no
    zone.
    """

    node: int
    lives: list[Life] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    settings_source: Source | None = None
    successor: tuple[int, Source] | None = None
    assumed_zone: bool = False


@dataclass
class Timeline:
    """Content of all logs, with the events by time."""

    files: LogFolder
    nodes: dict[int, BrokerLog] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    @property
    def assumed_zone(self) -> bool:
        """Whether some time in the log of a broker has no zone."""
        return any(log.assumed_zone for log in self.nodes.values())

    @property
    def began_us(self) -> int:
        """Time of the first entry of a broker, else of the first event."""
        times = [log.lives[0].first.at_us for log in self.nodes.values()]
        return min(times or [event.at_us for event in self.events])

    @property
    def ended_us(self) -> int:
        """Time of the last entry of a broker, else of the last event."""
        times = [life.last.at_us for log in self.nodes.values() for life in log.lives]
        return max(times or [event.at_us for event in self.events])

    def select(
        self, *kinds: type[Kind], node: int | None = None, since_us: int = 0, until_us: int | None = None
    ) -> list[Kind]:
        """Return the events of these kinds, by time: of one node or all, from `since_us` to `until_us` inclusive."""
        return [
            x
            for x in self.events
            if isinstance(x, kinds)
            and (node is None or x.node == node)
            and since_us <= x.at_us
            and (until_us is None or x.at_us <= until_us)
        ]

    def after_silence(self, node: int, at_us: int, length_us: int) -> bool:
        """Return whether a silence of at least this length ended shortly before that time in the log of the node."""
        return any(
            s.after.at_us <= at_us <= s.after.at_us + MIN_SILENCE_US and s.length_us >= length_us
            for s in self.nodes[node].silences
        )


def read_timeline(path: Path, zone: ZoneInfo, progress: Callable[[str], None] = lambda message: None) -> Timeline:
    """Return the content of the logs below a folder, or of one log. Raises `UsageError` if there is nothing to read.

    zone: of times that have no zone.
    """
    files = find_logs(path)
    timeline = Timeline(files)
    streams: list[Stream] = []
    assumed: set[tuple[str, str]] = set()
    for log in files.logs:
        progress(f"reading {log.path.stat().st_size:,} bytes of {log.name}")
        if log.librdkafka:
            timeline.events += _librdkafka_events(log, files)
            continue
        found, clocks = entries(files.lines(log.path, log.name), zone, log.name)
        streams += streams_of(_counted(found, log.name, progress))
        assumed |= {(log.name, label) for label, clock in clocks.items() if clock.assumed_zone}
    nodes, clients, problems = assign_writers(streams)
    files.problems += problems
    for node, records in sorted(nodes.items()):
        _read_broker(node, records, timeline)
        written = {(r.entry.file, r.entry.label) for r in records}
        timeline.nodes[node].assumed_zone = bool(written & assumed)
    for stream in clients:
        timeline.events += [x for r in stream.records for x in r.events if isinstance(x, PollTimeExceeded)]
    if not (timeline.nodes or timeline.events):
        raise UsageError(f"{path}: no log of a broker in it ({len(files.logs)} logs read, none names a broker)")
    _note_successors(streams, timeline)
    offsets, problems = _clock_offsets(timeline)
    if any(offsets.values()):
        _correct(timeline, offsets)
    files.problems += problems
    timeline.events.sort(key=lambda event: event.at_us)
    return timeline


def _counted(found: Iterator[Entry], name: str, progress: Callable[[str], None]) -> Iterator[Entry]:
    for number, entry in enumerate(found, start=1):
        if number % PROGRESS_ENTRIES == 0:
            progress(f"{name}: {number:,} entries read")
        yield entry


def _read_broker(node: int, records: list[Record], timeline: Timeline) -> None:
    """Add one broker to the timeline. `records` are in order of time."""
    log = timeline.nodes[node] = BrokerLog(node)
    step = -1
    lost_us: dict[int, int] = {}
    previous: Entry | None = None
    for record in records:
        entry, next_step = record.entry, record.step
        if previous is None or (next_step is not None and next_step <= step):
            if previous:
                log.lives[-1].last = previous
            log.lives.append(Life(entry, entry, started=next_step is not None))
            step = -1
        elif entry.at_us - previous.at_us >= MIN_SILENCE_US:
            log.silences.append(Silence(previous, entry))
        if next_step is not None:
            step = next_step
        elif record.named is not None:
            step = max(step, 0)  # the log may be cut: who names its broker has begun
        previous = entry
        if "KafkaConfig values:" in entry.message:
            log.settings, log.settings_source = dict(_SETTING.findall(entry.message)), entry.source
        for event in record.events:
            if isinstance(event, PeerLost):
                if event.at_us - lost_us.get(event.peer, -REPEAT_US) < REPEAT_US:
                    continue
                lost_us[event.peer] = event.at_us
            timeline.events.append(event)
    if previous:
        log.lives[-1].last = previous


def _note_successors(streams: list[Stream], timeline: Timeline) -> None:
    """Note the brokers that came back with another id: one stream names one id until its process starts again."""
    for stream in streams:
        lives = list(processes(stream.records))
        ids = [{r.named for r in life if r.named is not None} for life in lives]
        if any(len(found) > 1 for found in ids):
            continue
        for (before, found), (after, following) in pairwise(zip(lives, ids, strict=True)):
            earlier, later = next(iter(found), None), next(iter(following), None)
            if earlier is None or later is None or earlier == later:
                continue
            at_us = before[-1].entry.at_us
            starts = [x for x in timeline.nodes[earlier].lives if x.first.at_us > at_us]
            if not starts and at_us <= after[0].entry.at_us:
                timeline.nodes[earlier].successor = (later, after[0].entry.source)


def _librdkafka_events(log: LogFile, files: LogFolder) -> Iterator[Event]:
    """Yield the polls that came too late, from the log of a librdkafka client."""
    for number, line in enumerate(files.lines(log.path, log.name), start=1):
        if match := LIBRDKAFKA.search(line):
            source = Source(log.name, number, line[:300])
            at_us = round(float(match["at"]) * 1e6)
            yield PollTimeExceeded(at_us=at_us, node=NO_NODE, source=source, client=match["client"])


def _clock_offsets(timeline: Timeline) -> tuple[dict[int, int], list[str]]:
    """Return the offset of each node to a reference node in microseconds (positive: ahead), and notes for the user.

    Compares leader changes that several brokers logged. One difference alone proves nothing, because a paused broker
    logs everything late. If all differences between two brokers, at several moments, are equal, a clock is wrong or a
    log is in another time zone: there is an offset. If the differences are large but vary, there is only a note. Where
    times have no zone, a difference of whole quarters of an hour is one of time zones, even if it occurs only once.
    """
    changes = _shared_changes(timeline)
    seen = {node for change in changes.values() for node in change}
    # a node with a time zone in its log, if there is one, is right about the hour
    nodes = sorted(seen, key=lambda node: (timeline.nodes[node].assumed_zone, node))
    offsets: dict[int, int] = dict.fromkeys(nodes, 0)
    problems: list[str] = []
    for node in nodes[1:]:
        pairs = [(at[nodes[0]], at[node]) for at in changes.values() if {nodes[0], node} <= at.keys()]
        if timeline.nodes[node].assumed_zone and (zone_us := _zone_offset(pairs)):
            offsets[node] = zone_us
            problems.append(
                f"the log of broker {node} is in another time zone than the log of broker {nodes[0]}: its times are "
                f"corrected by {-zone_us / 3.6e9:+g} h, which makes {len(pairs)} leader changes agree"
            )
            continue
        # without a previous epoch, a broker may have learned of the leader when it started, long after the others
        later = [at for (_, _, previous), at in changes.items() if previous >= 0 and {nodes[0], node} <= at.keys()]
        offsets[node], problem = _clock_offset(timeline, nodes[0], node, [(at[nodes[0]], at[node]) for at in later])
        problems += [problem] if problem else []
    return offsets, problems


def _shared_changes(timeline: Timeline) -> dict[tuple[TopicPartition, int, int], dict[int, int]]:
    """Return the first time at which each node logged a leader, by partition, leader epoch and previous epoch."""
    times: dict[tuple[TopicPartition, int, int], dict[int, int]] = defaultdict(dict)
    for event in timeline.events:
        if not isinstance(event, LeaderStarted | FollowerStarted):
            continue
        change = times[event.partition, event.leader_epoch, event.previous_epoch]
        change[event.node] = min(event.at_us, change.get(event.node, event.at_us))
    return times


def _zone_offset(pairs: list[tuple[int, int]]) -> int:
    """Return the difference of two time zones in microseconds if changes that two nodes logged show it, else 0.

    All differences are that one, or most of them at several moments: a node that starts or wakes up logs some late.
    """
    near: dict[int, list[int]] = defaultdict(list)
    for here, there in pairs:
        zone_us = round((there - here) / QUARTER_US) * QUARTER_US
        if abs(there - here - zone_us) <= TOLERANCE_US:
            near[zone_us].append(here)
    zone_us, moments = max(near.items(), key=lambda found: len(found[1]), default=(0, []))
    mostly = 2 * len(moments) > len(pairs) and max(moments) - min(moments) >= APART_US and 0 not in near
    return zone_us if mostly or (moments and len(moments) == len(pairs)) else 0


def _clock_offset(timeline: Timeline, first: int, node: int, pairs: list[tuple[int, int]]) -> tuple[int, str]:
    """Return how far the clock of a node is ahead of the first node's clock, and a note; 0 if nothing is proven."""
    was_silent = timeline.after_silence  # a silent node may have logged a change late
    pairs = [(a, b) for a, b in pairs if not was_silent(*((node, b) if b > a else (first, a)), abs(b - a))]
    differences = [there - here for here, there in pairs]
    if not differences or min(map(abs, differences)) <= TOLERANCE_US:
        return 0, ""
    ahead = round(median(differences))
    is_steady = max(differences) - min(differences) <= TOLERANCE_US
    span_us = max(here for here, _ in pairs) - min(here for here, _ in pairs)
    seconds = f"{abs(ahead) / 1e6:,.1f} s"
    if is_steady and span_us >= APART_US:
        return ahead, (
            f"the clock of broker {node} is {seconds} {'ahead of' if ahead > 0 else 'behind'} the clock of broker "
            f"{first}, from {len(pairs)} leader changes that both logged: its times are corrected by that"
        )
    return 0, (
        f"the times of brokers {first} and {node} differ by {seconds} for the same leader change, but the "
        "difference varies or occurred only once: a clock is wrong or a broker was paused; nothing is corrected"
    )


def _correct(timeline: Timeline, offsets: dict[int, int]) -> None:
    """Subtract from all times of a node the offset of its clock."""

    def shifted(entry: Entry) -> Entry:
        return replace(entry, at_us=entry.at_us - offsets.get(entry.node, 0))

    timeline.events = [x.model_copy(update={"at_us": x.at_us - offsets.get(x.node, 0)}) for x in timeline.events]
    for log in timeline.nodes.values():
        log.lives = [Life(shifted(life.first), shifted(life.last), life.started) for life in log.lives]
        log.silences = [Silence(shifted(s.before), shifted(s.after)) for s in log.silences]
