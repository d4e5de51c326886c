"""The first look at an application: what it reads and writes, and in which group, seen on the wire in a few seconds.

One broker and one instance. The topics for which the instance asks are made, a few inputs are sent, and what it writes
is read. Nothing is broken and nothing is judged: the answer is a proposal for a scenario. An application that needs
several brokers, or was there before a topic for which it asks, is looked at again.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from confluent_kafka import Message, Producer
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import MetadataRequest

from chaos.apps.supervisor import Applications
from chaos.apps.trial import LOOK_PARTITIONS, Asked, look_of, topics_in, write_scenario
from chaos.drive import stages
from chaos.drive.written import ROUNDS, either_of, numbers_differ, of_inputs, per_sample, place_of, within
from chaos.effects.watch import Watch
from chaos.errors import AftershockError, ClientError, UsageError, WaitTimeout
from chaos.kafka import admin
from chaos.kafka.cleanup import list_groups
from chaos.kafka.client import Kafka
from chaos.kafka.reading import records_of
from chaos.kafka.schemas import ConsumerGroupHeartbeatRequest
from chaos.ledger.ids import Id, id_of
from chaos.ledger.record import run_token
from chaos.processes.process import ProcessId
from chaos.relay.capture import FOLDER, REQUEST
from chaos.relay.contents import Contents, TopicIds, by_id, decoded
from chaos.relay.control import Proxy
from chaos.relay.segments import Read, Tail
from chaos.run.directory import Run
from chaos.run.events import Event, EventLog
from chaos.scenario.resolve import read
from chaos.values.model import Value
from chaos.values.payloads import Payloads
from chaos.wait import wait_until

INPUTS = 20
"""Inputs of the first round at least; one from each sample, up to `MOST_SAMPLES`."""
MOST_SAMPLES = 100
"""Samples up to which the look counts what an input of each one leads to."""
BROKERS = 3
"""Brokers of the second look at an application that ended at one broker, as of the run."""
START_S = 60.0
"""Time for an application to read from a topic. A JVM on a busy machine takes half of it."""
WRITE_S = 20.0
"""Time for an application to write something after the first input, or after what it wrote last."""
MOST_WRITE_S = 120.0
"""Time after which the look no longer waits for a slow application."""
QUIET_S = 1.5
"""Time without anything new after which reading or writing is complete."""
UNREAD_S = 10.0
"""Time without anything new after which an application that asked for a topic does not begin to read from it."""
COMMITTED_S = 6.0
"""Time without anything new after which writing is complete once its group has committed all inputs, and time for it to
commit one. A client that commits by itself does so every 5 s, and may do so before the work on an input is done.
"""
MOST_RESTARTS = 3
"""An application that ends because a topic is missing finds it at the first or second restart."""


@dataclass(frozen=True)
class Seen:
    """What an application does.

    reads: the topics of its inputs. writes: by topic that has records with the ids of inputs, or by several with commas
    between them if an input has its records in any of them, the place of the id. per: how many records an input of each
    sample has there; one of each if left out. others: topics to which it writes other things, each with the reason why
    it is no effect. apart: topics with records for inputs of the other topics only. group: its consumer group. grouped:
    whether it has any, also if it is one of several. commits: whether it committed offsets outside a transaction; None
    if it got no inputs.
    """

    reads: tuple[str, ...]
    group: str | None
    writes: Mapping[str, str] = field(default_factory=dict)
    per: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    apart: Sequence[str] = ()
    grouped: bool = True
    commits: bool | None = None


def look(
    asked: Asked, runs_dir: Path, kafka: str | None, driver: str | None, listener: Callable[[Event], None]
) -> Seen:
    """Run one instance on one broker, and return what it reads and writes.

    asked: with the topics that the user named, which are believed. Raises `UsageError` if nothing is seen, with what to
    name; the run directory is kept then.
    """
    way = _Way()
    while True:
        try:
            return _look(asked, way, runs_dir, kafka, driver, listener)
        except _AnotherWay as e:
            way = e.way


@dataclass(frozen=True)
class _Way:
    """How a look begins. topics: that exist before the application starts, with what the user names."""

    brokers: int = 1
    topics: frozenset[str] = frozenset()


class _AnotherWay(Exception):
    """A look that shows less than the application does, and how the next one shows it."""

    def __init__(self, way: _Way) -> None:
        self.way = way


def _look(
    asked: Asked, way: _Way, runs_dir: Path, kafka: str | None, driver: str | None, listener: Callable[[Event], None]
) -> Seen:
    with tempfile.TemporaryDirectory(prefix="aftershock-") as folder:
        path = Path(folder) / f"look-{asked.app}.yaml"
        write_scenario(look_of(asked, way.brokers, way.topics), path)
        try:
            run = stages.prepare(stages.ScenarioRequest(str(path), kafka=kafka, driver=driver), runs_dir=runs_dir)
        except AftershockError as e:  # the user never sees this file
            plain = re.sub(rf"{re.escape(str(path))}(:\d+)?", "the application or its samples", str(e))
            raise UsageError(plain) from None
    events = EventLog(run, listener)
    useful = False
    try:
        stages.deploy(run, events, ProcessId.current())
        return _Look(run, asked, way, events).look()
    except AftershockError:
        useful = True
        raise
    finally:
        stages.destroy(run, events)
        if not useful:
            shutil.rmtree(run.path, ignore_errors=True)


class _Wire:
    """What the capture of a run has shown so far: topics by what the application does with them."""

    def __init__(self, run: Run) -> None:
        self._tail, self._ids = Tail(run.path / FOLDER), TopicIds()
        self._contents: dict[int, Contents] = {}
        self.all_topics = False
        """Whether it asked for all topics, as consumers with a pattern do."""
        self.named: set[str] = set()
        """Topics in requests for metadata, and in subscriptions with KIP-848."""
        self.fetched: set[str] = set()
        self.produced: set[str] = set()
        self.commits: set[ApiKey] = set()
        """The kinds of requests by which it committed offsets: in a transaction, and outside one."""
        self.changed = time.monotonic()
        """When something new was seen last."""

    def read(self, ids: Mapping[str, str]) -> None:
        """Read what is new. ids: the ids of the topics by name, as Kafka prints them."""
        self._ids.update(by_id(ids))
        before = len(self.named) + len(self.fetched) + len(self.produced)
        for entry in self._tail.new():
            if entry.kind == REQUEST:
                self._add(entry)
        if len(self.named) + len(self.fetched) + len(self.produced) > before:
            self.changed = time.monotonic()

    def _add(self, entry: Read) -> None:
        if entry.api == ApiKey.Metadata:
            try:
                request = decoded(entry.head, entry.data, MetadataRequest)
            except ValueError:
                return  # a later release of Kafka
            self.all_topics |= request.topics is None
            self.named.update(topic.name for topic in request.topics or () if topic.name)
        elif entry.api == ApiKey.ConsumerGroupHeartbeat:
            with suppress(ValueError):  # with KIP-848, librdkafka asks for no metadata of a missing topic
                request = decoded(entry.head, entry.data, ConsumerGroupHeartbeatRequest)
                self.all_topics |= bool(getattr(request, "subscribed_topic_regex", None))
                self.named.update(request.subscribed_topic_names or ())
        elif entry.api in (ApiKey.OffsetCommit, ApiKey.TxnOffsetCommit):
            self.commits.add(ApiKey(entry.api))
        elif entry.api in (ApiKey.Produce, ApiKey.Fetch):
            contents = self._contents.setdefault(entry.connection, Contents(self._ids))
            topics = {topic for topic, _ in contents.names(entry.head, entry.data) or ()}
            (self.produced if entry.api == ApiKey.Produce else self.fetched).update(topics)


class _Look:
    """One look. The brokers run, and the relay captures."""

    def __init__(self, run: Run, asked: Asked, way: _Way, events: EventLog) -> None:
        self._run, self._asked, self._way, self._events = run, asked, way, events
        self._cluster = stages.attach(run)
        self._kafka = Kafka(self._cluster.bootstrap, access=self._cluster.state.access())
        self._wire = _Wire(run)
        self._settings = {"bootstrap.servers": self._cluster.bootstrap}

    def look(self) -> Seen:
        """Start the application and look. Raises `UsageError`."""
        with ExitStack() as stack:
            stack.callback(self._kafka.close)
            proxy = stack.enter_context(Proxy(self._run))
            access = self._cluster.state.access()
            receivers = stack.enter_context(Watch(self._run, read(self._run), self._events)).urls
            apps = stack.enter_context(
                Applications(
                    self._run, read(self._run), proxy.front, access, self._events, self._kafka, set, receivers,
                    during=self._step, used=proxy.used,
                )
            )  # fmt: skip
            name = self._asked.app
            self._events.note(f"looking at what {name} reads: waiting until it fetches from a topic")
            self._start(apps)
            reads, groups = self._reads(apps)
            self._check_topics(groups)
            group = groups[0] if len(groups) == 1 else None
            self._events.note(f"{name} reads {', '.join(reads)}{f' as group {group}' if group else ''}")
            if self._asked.effects and not self._asked.writes:
                apps.stop_all()
                return Seen(reads, group, self._asked.places, grouped=bool(groups))
            try:
                seen = self._effects(apps, reads, groups)
            except UsageError as e:
                if not self._asked.writes:
                    raise
                self._events.note(f"{e}; what --writes names is believed")  # the run shows whether it is so
                seen = Seen(reads, None)
            self._inputs(self._wire.fetched | self._assigned(list_groups(self._kafka, bool) or groups), reads)
            commits = bool(groups) and self._commits()
            apps.stop_all()
            return replace(seen, group=group, grouped=bool(groups), commits=commits)

    def _commits(self) -> bool:
        """Wait until the application has committed offsets, and return whether that was outside a transaction."""

        def seen() -> bool:
            self._step()
            return bool(self._wire.commits)

        with suppress(WaitTimeout):
            wait_until(seen, COMMITTED_S, "", every_s=0.2)
        return ApiKey.OffsetCommit in self._wire.commits

    def _effects(self, apps: Applications, reads: tuple[str, ...], groups: Sequence[str]) -> Seen:
        """Send inputs, and say what the application writes for them. Raises `UsageError` if that has no rule."""
        payloads = Payloads(Value.model_validate(self._asked.value), 0)
        few = payloads.number <= MOST_SAMPLES
        ids, others = self._send(reads, payloads, max(INPUTS, payloads.number) if few else INPUTS)
        everything = self._writes(apps, reads, groups, len(ids))
        written = of_inputs(everything, ids, others)
        if few and numbers_differ(written, ids):
            more, more_others = self._send(reads, payloads, ROUNDS * payloads.number, len(ids))
            ids, others = ids + more, others + more_others
            everything = self._writes(apps, reads, groups, len(ids))
            written = of_inputs(everything, ids, others)
        seen = self._judged(reads, written, ids, payloads.number)
        return replace(seen, apart=sorted(everything.keys() - written.keys()))

    def _start(self, apps: Applications) -> None:
        """Start the application. It may end when a topic does not exist yet; then it is started again."""
        try:
            apps.start()
        except ClientError as e:
            self._step()
            if not self._wire.named:
                raise self._ended(e) from e

    def _ended(self, error: AftershockError) -> Exception:
        """Return what follows from the end of the application: a look with as many brokers as the run has, if any."""
        if self._way.brokers >= BROKERS:
            return error
        self._events.note(f"looking again with {BROKERS} brokers, because {self._asked.app} may need several")
        return _AnotherWay(replace(self._way, brokers=BROKERS))

    def _check_topics(self, groups: Sequence[str]) -> None:
        """Look again if the application asked for a topic before that was there, and neither reads nor writes it.

        A consumer may learn of such a topic after 5 minutes only. Until then, it does a part of its work: no retries.
        """
        used = self._wire.fetched | self._wire.produced | self._assigned(groups)
        before = {*self._asked.reads, *chain.from_iterable(map(topics_in, self._asked.writes)), *self._way.topics}
        if late := {topic for topic in self._wire.named - used - before if not _is_internal(topic)}:
            names = ", ".join(sorted(late))
            self._events.note(f"looking again: {self._asked.app} asked for {names}, too, before that was there")
            raise _AnotherWay(replace(self._way, topics=self._way.topics | late))

    def _step(self) -> None:
        """Read what is new on the wire, and make the topics for which the application asks."""
        metadata = self._kafka.metadata()
        known = {partition.topic for partition in metadata.partitions} if metadata else set()
        self._wire.read(metadata.topic_ids if metadata else {})
        for topic in self._wire.named - known if metadata else ():
            admin.create_topic(self._kafka, topic, LOOK_PARTITIONS, 1, {})

    def _reads(self, apps: Applications) -> tuple[tuple[str, ...], list[str]]:
        """Return the topics that the application reads, and the groups."""
        found: set[str] = set()
        groups: list[str] = []

        def complete() -> bool:
            nonlocal found, groups
            apps.check()
            self._step()
            if not found and apps.instance(f"{self._asked.app}/1").restarts > MOST_RESTARTS:
                again = "ended again and again before it read from a topic"
                raise self._ended(self._unseen(apps, again, "--reads TOPIC"))
            groups = list_groups(self._kafka, bool) or []
            before, found = found, self._wire.fetched | self._assigned(groups)
            if not found <= before:  # a member that begins at the latest offset has yet to look it up
                self._wire.changed = time.monotonic()
            quiet = time.monotonic() - self._wire.changed
            if not found and quiet > UNREAD_S:
                self._check_topics(groups)
            return bool(found) and quiet > QUIET_S

        try:
            wait_until(complete, START_S, "")
        except WaitTimeout:
            named = ", ".join(sorted(self._wire.named))
            asked_for = f"it asked for {named} and fetched from none" if named else "it asked for no topic"
            asked_for += ", and for all topics, so it may subscribe by a pattern" if self._wire.all_topics else ""
            raise self._unseen(apps, f"read no topic within {START_S:g} s: {asked_for}", "--reads TOPIC") from None
        return self._inputs(found), groups

    def _inputs(self, found: AbstractSet[str], known: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the topics of its inputs. Raises `UsageError` if it has several, and the user names none.

        found: all that it has read until now. known: those before it wrote, as it may write to its input, too.
        """
        others = (topic for topic in found - self._wire.produced if not _is_internal(topic))
        reads = self._asked.reads or sorted({*known, *others})
        if len(reads) != 1 and not self._asked.reads:
            raise UsageError(
                f"{self._asked.app} reads {', '.join(reads) or 'only what it writes'}; name the topic of the samples "
                "with --reads TOPIC"
            )
        return tuple(reads)

    def _assigned(self, groups: Sequence[str]) -> set[str]:
        states = [state for group in groups if (state := self._kafka.group(group))]
        return {p.topic for state in states for member in state.members for p in member.partitions}

    def _send(self, reads: Sequence[str], payloads: Payloads, number: int, first: int = 0) -> tuple[list[Id], list[Id]]:
        """Send inputs to each of the topics, and return the ids of those in the first topic, and in the others.

        Each topic gets other ids, as in the scenario. first: the number of inputs before them.
        """
        self._events.note(f"sending {number} inputs to {', '.join(reads)}, and waiting for what it writes")
        kind, token = payloads.id_type, run_token(self._run.run_id)
        assert kind is not None  # a value with an id has a type of ids
        ids = [
            [id_of(kind, token, f"look/{i}", seq, i * 10**12 + seq) for seq in range(first, first + number)]
            for i, _ in enumerate(reads, 1)
        ]
        producer = Producer({**self._settings, "linger.ms": 0})
        for seq, of_topics in enumerate(zip(*ids, strict=True), first):
            for topic, one in zip(reads, of_topics, strict=True):
                payload = payloads.make(seq, one, int(time.time() * 1000))
                producer.produce(topic, payload.value, payload.key, headers=payload.headers)
        if producer.flush(WRITE_S):
            raise ClientError(f"the inputs were not acknowledged within {WRITE_S:g} s")
        return ids[0], [one for of_topic in ids[1:] for one in of_topic]

    def _writes(
        self, apps: Applications, reads: Sequence[str], groups: Sequence[str], inputs: int
    ) -> dict[str, list[Message]]:
        """Wait until the application has written, and nothing more comes; return the records by topic.

        inputs: how many were sent in all.
        """
        found: dict[str, list[Message]] = {}
        changed = time.monotonic()

        def sizes(written: Mapping[str, list[Message]]) -> dict[str, int]:
            return {topic: len(records) for topic, records in written.items()}

        def complete() -> bool:
            nonlocal found, changed
            apps.check()
            self._step()
            before = sizes(found)
            found = {topic: records_of(self._settings, topic, WRITE_S) for topic in self._written(reads)}
            if sizes(found) != before:
                changed = time.monotonic()
            quiet = time.monotonic() - changed
            if any(n >= inputs for n in sizes(found).values()):
                return quiet > QUIET_S
            return quiet > WRITE_S or (
                bool(found) and quiet > COMMITTED_S and all_committed(self._kafka, reads, groups)
            )

        try:
            wait_until(complete, MOST_WRITE_S, "", every_s=0.5)
        except WaitTimeout:
            seen = ", ".join(f"{topic}: {n} of {inputs}" for topic, n in sizes(found).items())
            words = f"is slow: after {MOST_WRITE_S:g} s it still writes ({seen})"
            raise self._unseen(apps, words, "--writes TOPIC, with a lower --rate than 200/s") from None
        if not found:
            bare = [part for part in ("key", "headers") if part not in self._asked.more]
            without = f" without {' and '.join(bare)}" if bare else ""
            words = f"wrote to no topic within {WRITE_S:g} s after {inputs} inputs{without}"
            if len(reads) > 1:
                words += (
                    f" in each of {', '.join(reads)}; each topic got other ids at {self._asked.id}, so an application "
                    "that joins them by it finds no pair: --id names another field"
                )
            option = "--writes TOPIC, or what it does elsewhere with --effect"
            given = {"key": "key=$.customer", "headers": "headers.NAME=TEXT"}
            options = [f"--value {given[part]}" for part in bare]
            raise self._unseen(apps, words, option + (f"; inputs get them by {' and '.join(options)}" if bare else ""))
        return found

    def _written(self, reads: Sequence[str]) -> set[str]:
        return {topic for topic in self._wire.produced - {*reads} if not _is_internal(topic)}

    def _judged(
        self, reads: tuple[str, ...], written: Mapping[str, list[Message]], ids: Sequence[Id], samples: int
    ) -> Seen:
        """Say which of the written topics have records for inputs, where the id is there, and how many an input has."""
        writes: dict[str, str] = {}
        per: dict[str, tuple[int, ...]] = {}
        others: dict[str, str] = {}
        for topic, records in sorted(self._together(written, ids, samples).items()):
            place, numbers = place_of(records, ids), per_sample(records, ids, samples)
            if place and numbers:
                writes[topic] = place
                per |= {topic: numbers} if {*numbers} != {1} else {}
            elif place:
                why = "another number each time for the same sample"
                if samples > MOST_SAMPLES:
                    why = f"more than the {MOST_SAMPLES} samples up to which they are counted one by one"
                others[topic] = f"{len(records)} records for {len(ids)} inputs, {why}"
            elif within(records, ids):
                others[topic] = "its records have the id of an input, but not as a field of JSON, the key or a header"
            else:
                others[topic] = "no place in its records has the id of an input"
        if not writes:
            listed = "; ".join(f"{topic}: {why}" for topic, why in others.items())
            listed = listed or f"all that it writes is for inputs of {', '.join(reads[1:])}; name that one first"
            raise UsageError(
                f"{self._asked.app} writes to no topic that has records for each input ({listed}); name what it does "
                "elsewhere with --effect, or write the scenario with --reads TOPIC --writes TOPIC, and change its "
                "`effects`: `format` says how records are read, and `aggregate` compares sums of several inputs"
            )
        return Seen(reads, None, writes, per, others)

    def _together(
        self, written: Mapping[str, list[Message]], ids: Sequence[Id], samples: int
    ) -> dict[str, list[Message]]:
        """Return the records by topic, and together for several topics that are one effect: by --writes, or as seen."""
        found = dict(written)

        def join(name: str, topics: Sequence[str]) -> None:
            found[name] = [record for topic in topics for record in found.pop(topic, ())]

        for text in self._asked.writes:
            if len(topics := topics_in(text)) > 1 and not found.keys().isdisjoint(topics):
                join(text, topics)
        uneven = {t: of for t, of in found.items() if place_of(of, ids) and not per_sample(of, ids, samples)}
        for either in either_of(uneven, ids, samples):
            join(",".join(either), either)
        return found

    def _unseen(self, apps: Applications, what: str, option: str) -> AftershockError:
        (instance,) = apps.of(self._asked.app)
        if past := apps.strangers():
            option = ""  # they say what to do, and to name a topic does not help
        said = [f"it said last: {words}"] if (words := instance.last_words()) else []
        said += [f"see {instance.log}, and name it with {option}" if option else f"see {instance.log}"]
        if instance.restarts:
            said = [f"it was started {instance.restarts + 1} times, because {instance.describe_exit()}"]
            said += [f"name it with {option}"] if option else []
        return UsageError("; ".join([f"{self._asked.app} {what}", *past, *said]))


def all_committed(kafka: Kafka, reads: Sequence[str], groups: Sequence[str]) -> bool:
    """Return whether one of the groups has committed the ends of all topics that are read."""
    metadata = kafka.metadata()
    ends = kafka.end_offsets(p for p in metadata.partitions if p.topic in reads) if metadata else {}
    ends = {partition: end for partition, end in ends.items() if end}
    committed = [kafka.done(group, ends) or {} for group in groups]
    return bool(ends) and any(all(of.get(p, -1) >= end for p, end in ends.items()) for of in committed)


def _is_internal(topic: str) -> bool:
    """Return whether a topic is one of Kafka, or one in which Kafka Streams keeps its state."""
    return topic.startswith("__") or topic.endswith(("-changelog", "-repartition"))


def proposed(asked: Asked, seen: Seen) -> Asked:
    """Return what is asked with what was seen."""
    writes = asked.writes or tuple(seen.writes)
    return replace(
        asked, reads=asked.reads or seen.reads, writes=writes, places=seen.writes, per=seen.per,
        group=asked.group or seen.group, grouped=bool(asked.group) or seen.grouped, commits=seen.commits,
    )  # fmt: skip
