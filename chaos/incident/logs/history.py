"""All that the brokers said, on one clock: the events in order, the lives of each broker, and its settings."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from zoneinfo import ZoneInfo

from chaos.errors import UsageError
from chaos.incident.logs import clocks
from chaos.incident.logs.events import Event, JvmStep, PeerLost, PollTimeExceeded, Source
from chaos.incident.logs.files import NOT_A_BROKER, Found, LogFile, find, lines_of
from chaos.incident.logs.patterns import LIBRDKAFKA, events_of
from chaos.incident.logs.reading import Clock, Entry, entries

SILENCE_US = 2 * 10**6
"""Shorter gaps between two entries of a broker say nothing."""
TOLD_EVERY = 50_000
"""After so many entries of a broker the reader says how far it is."""
AGAIN_US = 5 * 10**6
"""A lost connection that is reported again within this time is not kept again."""
_SETTING = re.compile(r"^\s+([a-z][\w.]*) = (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Mark:
    """One instant in a log."""

    at_us: int
    source: Source


@dataclass
class Life:
    """One life of a broker's process, as far as its log goes: its first and its last entry.

    `started` is False where the log begins in the middle of it.
    """

    first: Mark
    last: Mark
    started: bool


@dataclass(frozen=True)
class Silence:
    """A broker wrote nothing between these two entries."""

    before: Mark
    after: Mark


@dataclass
class NodeLog:
    """What is known of one node from its own log. `settings` are those that it printed at its last start."""

    node: int
    lives: list[Life] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    settings_source: Source | None = None


@dataclass
class History:
    """Everything that was read. `problems` are to be told: files cut short, clocks that disagree."""

    nodes: dict[int, NodeLog]
    events: list[Event]
    files: list[str]
    skipped: list[str]
    problems: list[str]
    guessed_zone: bool

    @property
    def began_us(self) -> int:
        """The first entry of all."""
        return min(node.lives[0].first.at_us for node in self.nodes.values())

    def had_been_silent(self, node: int, at_us: int, for_us: int) -> bool:
        """Whether a node's log went on only just before that, after so long a silence."""
        return any(
            s.after.at_us <= at_us <= s.after.at_us + SILENCE_US and s.after.at_us - s.before.at_us >= for_us
            for s in self.nodes[node].silences
        )

    @property
    def ended_us(self) -> int:
        """The last entry of all."""
        return max(life.last.at_us for node in self.nodes.values() for life in node.lives)


def read(folder: Path, zone: ZoneInfo, progress: Callable[[str], None] = lambda words: None) -> History:
    """Read the logs below a folder. Local times are of `zone`. Raises `UsageError`."""
    found = find(folder)
    history = History({}, [], [log.name for log in found.logs], found.skipped, [], False)
    for node in found.brokers:
        logs = [log for log in found.logs if log.node == node]
        progress(
            f"reading {sum(log.path.stat().st_size for log in logs):,} bytes of broker {node} in {len(logs)} file(s)"
        )
        clock_of = {log.name: Clock(zone) for log in logs}
        streams = [_tagged(log, found, clock_of[log.name]) for log in logs]
        _follow(node, heapq.merge(*streams, key=lambda pair: pair[0].at_us), history, progress)
        history.guessed_zone |= any(clock.guessed_zone for clock in clock_of.values())
    for log in (log for log in found.logs if log.node == NOT_A_BROKER):
        history.events += _of_client(log, found, zone)
    if not history.nodes:
        raise UsageError(f"{folder}: the logs in it have no entry at all")
    shifts, words = clocks.disagreement(history.events, history.had_been_silent)
    _shift(history, shifts)
    history.problems += [*found.cut, *words]
    history.events.sort(key=lambda event: event.at_us)
    return history


def _tagged(log: LogFile, found: Found, clock: Clock) -> Iterator[tuple[Entry, str]]:
    assert log.layout is not None
    for entry in entries(lines_of(log.path, log.name, found), log.layout, clock):
        yield entry, log.name


def _follow(node: int, stream: Iterator[tuple[Entry, str]], history: History, progress: Callable[[str], None]) -> None:
    """Everything that one node says, in the order of its clock."""
    log = NodeLog(node)
    step = -1
    lost: dict[int, int] = {}
    before: tuple[Entry, str] | None = None
    for number, (entry, file) in enumerate(stream, start=1):
        if number % TOLD_EVERY == 0:
            progress(f"broker {node}: {number:,} entries read, in {file}")
        found = list(events_of(entry, node, file))
        began = next((event.step for event in found if isinstance(event, JvmStep)), None)
        if before is None or (began is not None and began <= step):
            if before:
                log.lives[-1].last = _mark(*before)
            log.lives.append(Life(mark := _mark(entry, file), mark, started=began is not None))
            step = -1
        elif entry.at_us - before[0].at_us >= SILENCE_US:
            log.silences.append(Silence(_mark(*before), _mark(entry, file)))
        if began is not None:
            step = began
        before = entry, file
        if "KafkaConfig values:" in entry.message:
            log.settings = dict(_SETTING.findall(entry.message))
            log.settings_source = _mark(entry, file).source
        for event in found:
            if isinstance(event, PeerLost):
                if event.at_us - lost.get(event.peer, -AGAIN_US) < AGAIN_US:
                    continue
                lost[event.peer] = event.at_us
            history.events.append(event)
    if before:
        log.lives[-1].last = _mark(*before)
        history.nodes[node] = log


def _mark(entry: Entry, file: str) -> Mark:
    return Mark(entry.at_us, Source(file, entry.line, entry.message.split("\n", 1)[0][:300]))


def _of_client(log: LogFile, found: Found, zone: ZoneInfo) -> list[Event]:
    """What the log of a client itself tells: that it did not poll in time."""
    lines = lines_of(log.path, log.name, found)
    if log.layout is None:
        told: list[Event] = []
        for number, line in enumerate(lines, start=1):
            if match := LIBRDKAFKA.search(line):
                at_us = round(float(match["at"]) * 1e6)
                told.append(
                    PollTimeExceeded(at_us, NOT_A_BROKER, Source(log.name, number, line[:300]), match["client"])
                )
        return told
    said = (events_of(entry, NOT_A_BROKER, log.name) for entry in entries(lines, log.layout, Clock(zone)))
    return [event for events in said for event in events if isinstance(event, PollTimeExceeded)]


def _shift(history: History, shifts: dict[int, int]) -> None:
    """Put the nodes whose clocks are off on the clock of the others."""
    if not any(shifts.values()):
        return
    history.events = [replace(e, at_us=e.at_us - shifts.get(e.node, 0)) for e in history.events]
    for node, log in history.nodes.items():
        by = shifts.get(node, 0)
        for life in log.lives:
            life.first, life.last = _earlier(life.first, by), _earlier(life.last, by)
        log.silences = [Silence(_earlier(s.before, by), _earlier(s.after, by)) for s in log.silences]


def _earlier(mark: Mark, by_us: int) -> Mark:
    return replace(mark, at_us=mark.at_us - by_us)
