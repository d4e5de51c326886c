"""Timeline of the cluster: the events of all logs on one clock, the process lives of each broker, and its settings."""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TypeVar
from zoneinfo import ZoneInfo

from chaos.errors import UsageError
from chaos.incident.logs.entries import Clock, Entry, Source, entries
from chaos.incident.logs.events import Event, FollowerStarted, JvmStep, LeaderStarted, PeerLost, PollTimeExceeded
from chaos.incident.logs.log_files import NOT_A_BROKER, LogFile, LogFolder, find_logs
from chaos.incident.logs.patterns import LIBRDKAFKA, events_of
from chaos.kafka.partition import TopicPartition

MIN_SILENCE_US = 2 * 10**6
"""Shortest gap between two entries of a broker that counts as a silence."""
REPEAT_US = 5 * 10**6
"""Reports of one lost connection within this time count once."""
PROGRESS_ENTRIES = 50_000
TOLERANCE_US = 2 * 10**6
"""Normal difference between brokers: the time that metadata takes to reach all of them."""
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
    """Content of the log of one node. `settings` are those of its last start."""

    node: int
    lives: list[Life] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    settings_source: Source | None = None


@dataclass
class Timeline:
    """Content of all logs, with the events by time. `assumed_zone`: some time in the log of a broker has no zone."""

    files: LogFolder
    nodes: dict[int, BrokerLog] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    assumed_zone: bool = False

    @property
    def began_us(self) -> int:
        """Time of the first entry."""
        return min(log.lives[0].first.at_us for log in self.nodes.values())

    @property
    def ended_us(self) -> int:
        """Time of the last entry."""
        return max(life.last.at_us for log in self.nodes.values() for life in log.lives)

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


def read_timeline(folder: Path, zone: ZoneInfo, progress: Callable[[str], None] = lambda message: None) -> Timeline:
    """Return the content of the logs below a folder. Times without a zone are of `zone`. Raises `UsageError`."""
    files = find_logs(folder)
    timeline = Timeline(files)
    for node in files.brokers:
        logs = [log for log in files.logs if log.node == node]
        size = sum(log.path.stat().st_size for log in logs)
        progress(f"reading {size:,} bytes of broker {node} in {len(logs)} file(s)")
        clocks = [Clock(zone) for _ in logs]
        streams = [_entries(log, files, clock) for log, clock in zip(logs, clocks, strict=True)]
        _read_broker(node, heapq.merge(*streams, key=lambda entry: entry.at_us), timeline, progress)
        timeline.assumed_zone |= any(clock.assumed_zone for clock in clocks)
    for log in files.logs:
        if log.node == NOT_A_BROKER:
            timeline.events += _client_events(log, files, zone)
    if not timeline.nodes:
        raise UsageError(f"{folder}: the logs in it have no entry at all")
    offsets, problems = _clock_offsets(timeline)
    if any(offsets.values()):
        _correct(timeline, offsets)
    files.problems += problems
    timeline.events.sort(key=lambda event: event.at_us)
    return timeline


def _entries(log: LogFile, files: LogFolder, clock: Clock) -> Iterator[Entry]:
    assert log.layout is not None
    return entries(files.lines(log.path, log.name), log.layout, clock, log.name, log.node)


def _read_broker(node: int, stream: Iterator[Entry], timeline: Timeline, progress: Callable[[str], None]) -> None:
    """Add one broker to the timeline. `stream` holds its entries by time."""
    log = BrokerLog(node)
    step = -1
    lost_us: dict[int, int] = {}
    previous: Entry | None = None
    for number, entry in enumerate(stream, start=1):
        if number % PROGRESS_ENTRIES == 0:
            progress(f"broker {node}: {number:,} entries read, in {entry.file}")
        events = list(events_of(entry))
        next_step = next((event.step for event in events if isinstance(event, JvmStep)), None)
        if previous is None or (next_step is not None and next_step <= step):
            if previous:
                log.lives[-1].last = previous
            log.lives.append(Life(entry, entry, started=next_step is not None))
            step = -1
        elif entry.at_us - previous.at_us >= MIN_SILENCE_US:
            log.silences.append(Silence(previous, entry))
        if next_step is not None:
            step = next_step
        previous = entry
        if "KafkaConfig values:" in entry.message:
            log.settings, log.settings_source = dict(_SETTING.findall(entry.message)), entry.source
        for event in events:
            if isinstance(event, PeerLost):
                if event.at_us - lost_us.get(event.peer, -REPEAT_US) < REPEAT_US:
                    continue
                lost_us[event.peer] = event.at_us
            timeline.events.append(event)
    if previous:
        log.lives[-1].last = previous
        timeline.nodes[node] = log


def _client_events(log: LogFile, files: LogFolder, zone: ZoneInfo) -> Iterator[Event]:
    """Yield the polls that came too late, from the log of a client."""
    if log.layout is not None:
        for entry in _entries(log, files, Clock(zone)):
            yield from (event for event in events_of(entry) if isinstance(event, PollTimeExceeded))
        return
    for number, line in enumerate(files.lines(log.path, log.name), start=1):
        if match := LIBRDKAFKA.search(line):
            source = Source(log.name, number, line[:300])
            at_us = round(float(match["at"]) * 1e6)
            yield PollTimeExceeded(at_us=at_us, node=NOT_A_BROKER, source=source, client=match["client"])


def _clock_offsets(timeline: Timeline) -> tuple[dict[int, int], list[str]]:
    """Return the offset of each node to the lowest node in microseconds (positive: ahead), and notes for the user.

    Compares leader changes that several brokers logged. One difference alone proves nothing, because a paused broker
    logs everything late. If all differences between two brokers, at several moments, are equal, a clock is wrong or a
    log is in another time zone: there is an offset. If the differences are large but vary, there is only a note.
    """
    times: dict[tuple[TopicPartition, int, int], dict[int, int]] = defaultdict(dict)
    for event in timeline.events:
        # without a previous epoch, a broker may have learned of the leader when it started, long after the others
        if not isinstance(event, LeaderStarted | FollowerStarted) or event.previous_epoch < 0:
            continue
        change = times[event.partition, event.leader_epoch, event.previous_epoch]
        change[event.node] = min(event.at_us, change.get(event.node, event.at_us))
    nodes = sorted({node for change in times.values() for node in change})
    offsets: dict[int, int] = dict.fromkeys(nodes, 0)
    problems: list[str] = []
    was_silent = timeline.after_silence  # a silent node may have logged a change late
    for node in nodes[1:]:
        pairs = [(change[nodes[0]], change[node]) for change in times.values() if {nodes[0], node} <= change.keys()]
        pairs = [(a, b) for a, b in pairs if not was_silent(*((node, b) if b > a else (nodes[0], a)), abs(b - a))]
        differences = [there - here for here, there in pairs]
        if not differences or min(map(abs, differences)) <= TOLERANCE_US:
            continue
        ahead = round(median(differences))
        is_steady = max(differences) - min(differences) <= TOLERANCE_US
        span_us = max(here for here, _ in pairs) - min(here for here, _ in pairs)
        seconds = f"{abs(ahead) / 1e6:,.1f} s"
        if is_steady and span_us >= APART_US:
            offsets[node] = ahead
            problems.append(
                f"the clock of broker {node} is {seconds} {'ahead of' if ahead > 0 else 'behind'} that of broker "
                f"{nodes[0]}, from {len(pairs)} leader changes that both logged: its times are corrected by that"
            )
        else:
            problems.append(
                f"the times of brokers {nodes[0]} and {node} differ by {seconds} for the same leader change, but the "
                "difference varies or occurred only once: a clock is wrong or a broker was paused; nothing is corrected"
            )
    return offsets, problems


def _correct(timeline: Timeline, offsets: dict[int, int]) -> None:
    """Subtract from all times of a node the offset of its clock."""

    def shifted(entry: Entry) -> Entry:
        return replace(entry, at_us=entry.at_us - offsets.get(entry.node, 0))

    timeline.events = [x.model_copy(update={"at_us": x.at_us - offsets.get(x.node, 0)}) for x in timeline.events]
    for log in timeline.nodes.values():
        log.lives = [Life(shifted(life.first), shifted(life.last), life.started) for life in log.lives]
        log.silences = [Silence(shifted(s.before), shifted(s.after)) for s in log.silences]
