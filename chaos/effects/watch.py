"""The watch over effects during the drive.

It looks at databases, files and logs at intervals, because only that shows when an effect appeared there; it has the
receivers that applications call; and after the drain, it waits until no effect changes any more.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException, Message

from chaos.databases import by_spark
from chaos.effects.payload import Extractor, Record, decoder
from chaos.effects.receiver import Receiver, Sight
from chaos.effects.sources import (
    LOOK_S,
    MOST_COUNTED,
    FilePart,
    Query,
    Repeated,
    SourceError,
    files_of,
    keep_rows,
    kept_file,
    read_file,
    url_of,
)
from chaos.kafka.reading import take_records
from chaos.kafka.security import Endpoint, librdkafka_settings
from chaos.run.directory import Run
from chaos.run.events import UNSETTLED, EventLog, now_us
from chaos.scenario.effect_rules import input_topic
from chaos.scenario.resolve import Resolved
from chaos.setup.apps import External
from chaos.setup.effects import Effect

SIGHTS = "effect_sights"
LOOKING = "looking at effects before the first input"
TICK_S = 0.2
SETTLED_S, PATIENCE_S = 5.0, 50.0
"""Time without a change after which effects are complete, and that time while some are missing: longer than the session
time-out of a group (45 s in Kafka's clients), after which another instance takes the partitions of one that was killed.
"""
COUNT_S = 10.0
"""Longest time to read a topic with several effects in a record."""
LONGEST_LOOK_S = 10.0
"""Time of a look from which on the watch stops looking, because it would disturb the application."""
PAUSE = 4
"""Pause between looks, as a multiple of the time that one takes."""


class Watch:
    """The watch of one run, inside its context.

    urls: the addresses of the receivers, by the name of the effect.
    """

    def __init__(self, run: Run, resolved: Resolved, events: EventLog, kept: Collection[str] = ()) -> None:
        """kept: the effects in databases that end with the run, so that `keep` has to store them."""
        self._kept = [effect for effect in resolved.scenario.effects if effect.name in kept]
        self._run, self._events, self._stack = run, events, ExitStack()
        self._scenario, self._effects = resolved.scenario, resolved.scenario.effects
        self._before: dict[str, int] = {}
        self._warned: set[str] = set()
        self._counts: dict[str, tuple[int, int]] = {}
        self._stopping = threading.Event()
        folder = run.ledger / SIGHTS
        if self._effects:
            folder.mkdir(exist_ok=True)
        self._files = {e.name: _Lines(folder / f"{e.name}.jsonl") for e in self._effects if e.topic is None}
        hidden = self._scenario.hides_payloads
        looked = [e for e in self._effects if e.polled and not (e.sql and by_spark(url_of(e)))]
        self._looks = [_Look(effect, run.logs, self._files[effect.name], hidden) for effect in looked]
        rng = resolved.rng("effects")
        reach = next((app.external for app in self._scenario.apps if isinstance(app.external, External)), None)
        self._receivers = {
            e.name: Receiver(e, partial(self._received, e.name), rng, reach, hidden)
            for e in self._effects
            if e.http is not None
        }
        self.urls = {name: receiver.url for name, receiver in self._receivers.items()}
        self._threads = [
            threading.Thread(target=self._repeat, args=(look,), daemon=True, name=f"effect {look.effect.name}")
            for look in self._looks
        ]

    def __enter__(self) -> Watch:
        for name, receiver in self._receivers.items():
            self._stack.enter_context(receiver)
            self._events.note(f"effect {name} is received at {receiver.url}", aside=True)
        with self._events.stage("effects", LOOKING) if self._looks else nullcontext():
            for look in self._looks:
                self._note(look)  # what is there before the first input is no effect of it
                self._before[look.effect.name] = self._files[look.effect.name].rows
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        for thread, look in zip(self._threads, self._looks, strict=True):
            thread.join(LOOK_S + LONGEST_LOOK_S)
            if not look.ended and not thread.is_alive():
                self._note(look)
        self._stack.close()
        for name, receiver in self._receivers.items():
            if receiver.refused:
                self._events.note(f"effect {name}: {receiver.refused:,} of {receiver.calls:,} calls were refused")
            if receiver.left:
                left = f"of {receiver.left:,} of {receiver.calls:,} calls, the caller left before the answer"
                self._events.note(f"effect {name}: {left}; each was accepted, and so is an effect")
        for file in self._files.values():
            file.close()

    def settle(
        self,
        ends: Callable[[Effect], tuple[int, bool]],
        inputs: Callable[[str], int],
        limit_s: float,
        during: Callable[[str], None],
        starting: Callable[[], object],
        count: Callable[[Effect], int],
    ) -> None:
        """Wait until no effect has changed for its time to settle. An event names those that have after the limit.

        The time begins when all applications are back: a source that is killed writes nothing while it starts, however
        long that takes on a slow machine.

        A topic with an open transaction changes until that ends: nobody who reads committed records sees what is behind
        its first record, and a killed application leaves it to its transaction.timeout.ms.

        ends: returns the sum of the end offsets of an effect's topic, and whether a transaction in it is open. inputs:
        returns the acknowledged inputs in a topic. during: called before each look with what the last one found to be
        incomplete; it may raise to end the wait.
        starting: returns what is true as long as an instance of an application is not back yet. count: reads the topic
        of an effect with several in a record, and returns how many there are.
        """
        topics = {e.name: e for e in self._effects if e.topic is not None}
        began, latest = time.monotonic(), {name: (ends(e)[0], time.monotonic()) for name, e in topics.items()}
        deadline, back = began + limit_s, float("-inf")
        waits = ""
        while True:
            during(waits)
            if is_starting := bool(starting()):
                back = time.monotonic()
            open_in = []
            for name, of_topic in topics.items():
                end, is_open = ends(of_topic)
                open_in += [name] if is_open else []
                if is_open or end != latest[name][0]:
                    latest[name] = end, time.monotonic()
            changing, unchanged, words = [], {}, []
            for effect in self._effects:
                number, quiet_s = self._quiet(effect, latest.get(effect.name), began)
                quiet_s = min(quiet_s, time.monotonic() - back)
                topic = input_topic(self._scenario, effect)
                due = 0 if effect.aggregate else effect.per.due(inputs(topic))
                if effect.in_lists and effect.topic and number < due and quiet_s >= SETTLED_S:
                    number = self._counted(effect, number, count)
                needed_s = effect.settle if effect.settle is not None else PATIENCE_S if number < due else SETTLED_S
                if is_starting or effect.name in open_in or quiet_s < needed_s:
                    changing.append(effect.name)
                    unchanged[effect.name] = [round(max(0.0, quiet_s), 1), needed_s]
                    words.append(_waits_for(effect.name, number, due, effect.name in open_in))
            if not changing:
                return
            waits = words[0] + (f" and {len(words) - 1} more" if len(words) > 1 else "")
            if time.monotonic() > deadline:
                limit = f"{limit_s:g} s (limits.drain)"
                self._events.emit(UNSETTLED, effects=changing, open=open_in, unchanged=unchanged, limit=limit)
                self._events.note(f"effects may still change after {limit}: {', '.join(changing)}")
                return
            self._stopping.wait(TICK_S)

    def _counted(self, effect: Effect, end: int, count: Callable[[Effect], int]) -> int:
        """Return how many effects a topic has that ends there, read once for each end."""
        if self._counts.get(effect.name, (-1, 0))[0] != end:
            self._counts[effect.name] = end, count(effect)
        return self._counts[effect.name][1]

    def keep(self) -> None:
        """Store the rows of effects in databases that end with the run, for the reading at its end."""
        for effect in self._kept:
            try:
                keep_rows(Query(effect, self._scenario.hides_payloads), kept_file(self._run.ledger, effect.name))
            except SourceError as e:
                self._events.note(f"{e}, and its database ends with the run")

    def _quiet(self, effect: Effect, topic: tuple[int, float] | None, began: float) -> tuple[int, float]:
        """Return about how many effects there are, and for how many seconds they have not changed.

        A look that failed shows nothing. topic: the records of its topic, and when there were fewer.
        """
        now = time.monotonic()
        if topic is not None:
            return topic[0], now - topic[1]
        file = self._files[effect.name]
        look = next((look for look in self._looks if look.effect == effect), None)
        if effect.http is None and (look is None or look.ended):  # nobody looks; a drain may have waited for readers
            drained = any(input_topic(self._scenario, effect) in app.reads for app in self._scenario.apps)
            return MOST_COUNTED if drained else 0, now - began
        return file.rows - self._before.get(effect.name, 0), (look.looked_s if look else now) - file.changed_s

    def _repeat(self, look: _Look) -> None:
        while not self._stopping.is_set() and not look.ended:
            began = time.monotonic()
            self._note(look)
            took = time.monotonic() - began
            self._stopping.wait(max(look.effect.every, PAUSE * took))

    def _note(self, look: _Look) -> None:
        if words := look.take():
            self._events.note(words, aside=True)
        if look.unreadable:
            self._warn(look.effect.name, look.unreadable)

    def _received(self, name: str, sight: Sight) -> None:
        self._files[name].write_one(sight)
        if "problem" in sight:
            self._warn(name, f"{sight['where']}: {sight['problem']}")

    def _warn(self, name: str, words: str) -> None:
        """Note once that something in the source of an effect is none: the user learns of a wrong `id` at once."""
        if name not in self._warned:
            self._warned.add(name)
            self._events.note(f"effect {name} is unreadable in {words}", aside=True)


def count_in_topics(effect: Effect, at: Endpoint) -> int:
    """Return how many effects are in the committed records of its topics, as far as brokers answer in time."""
    extract, decode = Extractor(effect), decoder(effect.format)
    settings = {"bootstrap.servers": at.bootstrap, "log_level": 0, **librdkafka_settings(at.platform)}
    found = 0

    def take(message: Message) -> None:
        nonlocal found
        record = extract(lambda: Record(decode(message.value()), message.key(), message.headers()))
        found += sum(one.id is not None for one in record)

    with suppress(KafkaException):  # no broker answers: what is not counted is awaited
        for topic in effect.topics:
            take_records(settings, topic, COUNT_S, take)
    return found


def _waits_for(name: str, number: int, due: int, is_open: bool) -> str:
    """Return why an effect is not complete yet. number: about how many there are; due: how many there have to be."""
    if is_open:
        return f"effect {name} has an open transaction"
    return f"effect {name} has about {number:,} of {due:,}" if number < due else f"effect {name} may still change"


class _Look:
    """The looks at one source.

    looked_s: when the last one that succeeded began. ended: whether there are no more. unreadable: the first row
    without an id, with what it lacks; the reading at the end reports all.
    """

    def __init__(self, effect: Effect, logs: Path, file: _Lines, hidden: bool) -> None:
        self.effect, self.looked_s, self.ended, self._hidden = effect, 0.0, False, hidden
        self._logs, self._file, self._extract, self.unreadable = logs, file, Extractor(effect, hidden), ""
        self._after_us: int | None = None
        self._failed = False
        self._seen: dict[str, int] = {}  # of a query: rows by id; of files: the offset or the size by path

    def take(self) -> str:
        """Look once, and return a note, mostly empty."""
        began_s, began_us = time.monotonic(), now_us()
        found: list[tuple[str, str]] = []
        try:
            for sight in self._of_query() if self.effect.sql else self._of_files():
                found.append(sight)
        except SourceError as e:
            self._write(found)  # they are known now, so the next look does not find them
            if e.absent:
                self._after_us, self.looked_s = began_us, began_s
                return ""
            first, self._failed = not self._failed, True
            return f"{e}; the run looks again" if first else ""
        self._write(found)
        again, self._failed, self._after_us, self.looked_s = self._failed, False, began_us, began_s
        if time.monotonic() - began_s > LONGEST_LOOK_S or len(self._seen) > MOST_COUNTED:
            self.ended = True
            name = self.effect.name
            return f"effect {name} is too large to look at during the drive: the times of later ones are unknown"
        return f"effect {self.effect.name} can be read again" if again else ""

    def _write(self, found: Sequence[tuple[str, str]]) -> None:
        at_us = now_us()
        self._file.write([{"mark": mark, "id": id_, "at_us": at_us, "after_us": self._after_us} for mark, id_ in found])

    def _of_query(self) -> Iterator[tuple[str, str]]:
        """Yield mark and id of each row that was not there before."""
        marks = Repeated()
        for item in Query(self.effect, self._hidden).items(LOOK_S):
            for found in self._extract(item.read):
                if found.id is None:
                    self.unreadable = self.unreadable or f"{item.where}{found.item}: {found.problem}"
                    continue
                mark = marks.mark(found.id)
                if marks.counts[found.id] > self._seen.get(found.id, 0):
                    self._seen[found.id] = marks.counts[found.id]
                    yield mark, found.id

    def _of_files(self) -> Iterator[tuple[str, str]]:
        for part in files_of(self.effect, self._logs):
            yield from self._of_file(part)

    def _of_file(self, part: FilePart) -> Iterator[tuple[str, str]]:
        known = self._seen.get(part.path, 0)
        if part.size == known:
            return
        number, whole, reached, problem = 0, 0, known, ""
        rows = f"{part.path} rows"
        for item, offset in read_file(part, known if part.appended and known <= part.size else None):
            number += 1
            reached = offset
            self.unreadable = self.unreadable or problem  # of a row before this one
            for found in self._extract(item.read):
                if found.id is None:
                    problem = f"{item.where}{found.item}: {found.problem}"
                    continue
                whole = number  # a last row that is only begun has no id, and is looked at again
                if part.appended or number > self._seen.get(rows, 0):
                    yield item.mark + found.item, found.id
        if not part.appended:
            reached, self._seen[rows] = part.size, max(whole, self._seen.get(rows, 0))
        self._seen[part.path] = reached


class _Lines:
    """A file of sights: one JSON object in each line, several in one write(2). changed_s: when one was written last."""

    def __init__(self, path: Path) -> None:
        self.changed_s, self.rows, self._lock = time.monotonic(), 0, threading.Lock()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, rows: Sequence[Sight]) -> None:
        """Append rows."""
        lines = [f"{json.dumps(row)}\n" for row in rows]
        data = memoryview("".join(lines).encode())
        with self._lock:
            self.rows += sum("left_after_us" not in row for row in rows)
            if data:
                self.changed_s = time.monotonic()
            while data:
                data = data[os.write(self._fd, data) :]

    def write_one(self, row: Sight) -> None:
        """Append a row."""
        self.write([row])

    def close(self) -> None:
        """Close the file. There is no buffer to flush."""
        os.close(self._fd)


def read_sights(path: Path) -> Iterator[Sight]:
    """Yield the complete lines of a file of the watch."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
