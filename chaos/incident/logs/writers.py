"""Writers of log entries: the broker or controller behind each entry.

A file is not a broker. One file may hold several brokers, and the process behind one file may come back with another
broker id. So each entry that names its writer belongs to that broker; the others follow the process around them:

- a stream (one label of one file) that names one id belongs to that broker;
- a stream that names several, but one for each process from start to end, changes its broker with the process;
- else brokers are interleaved, and an entry without a name belongs to the broker that is named next to it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from chaos.incident.logs.entries import BROKER_FILE, Entry
from chaos.incident.logs.events import Event, JvmStep, SignalReceived, events_of

THINNED_US = 10**6
"""Entries without an event are kept once in this time, and on both sides of a gap of this length."""
RESTART_US = 5 * 10**6
"""Minimum time between two starts of one broker."""
START_US = 60 * 10**6
"""Maximum time from the start of a process to the first entry that names its broker."""
_NAMED = re.compile(
    r"^\[(?:KafkaServer|KafkaRaftServer|BrokerServer|ControllerServer|SharedServer|BrokerLifecycleManager|"
    r"BrokerMetadata\w+|MetadataLoader|MetadataPublisher|SnapshotGenerator|QuorumController|Controller|Broker|"
    r"GroupCoordinator|GroupMetadataManager|TransactionCoordinator|Transaction State Manager|KafkaApi|RaftManager|"
    r"ReplicaManager|ReplicaFetcher|ReplicaFetcherManager|ReplicaAlterLogDirsManager|Partition \S+|Admin Manager|"
    r"ReplicaStateMachine|PartitionStateMachine|RequestSendThread|BrokerToController\w*|NodeToController\w*)"
    r"(?: on [Bb]roker|:)?[ -]"
    r"(?:id=|nodeId=|broker=|brokerId=|controllerId=|replicaId=)?(\d+)"
    r"|^Registered broker (\d+) at path /brokers/ids/"
    r"|^\s*(?:broker\.id|node\.id) = (\d+)\s*$",
    re.MULTILINE,
)
"""Messages that name the node that writes them."""
_STARTS = re.compile(
    r"^\[(?:Kafka|KafkaRaft|Broker|Controller|Shared)Server\b.*(?:STARTING|[Ss]tart(?:ing|ed))|^Registered broker|"
    r"KafkaConfig values"
)
_STOPS = re.compile(r"shutting down|SHUTTING_DOWN|controlled shutdown", re.IGNORECASE)
_BROKER_LOGGER = re.compile(
    r"kafka\.|state\.change|org\.apache\.kafka\.(?:controller|raft|server|metadata|image|coordinator|storage)"
)
_NUMBER_IN_NAME = re.compile(r"(?:broker|kafka|server|controller|node)[-_.]?(\d+)(?!\.?\d)")


@dataclass
class Record:
    """An entry with its events. `named`: the node that its message names as the writer."""

    entry: Entry
    events: list[Event]
    named: int | None

    @property
    def step(self) -> int | None:
        """Step of a broker's start; None if the entry is no such step."""
        return next((event.step for event in self.events if isinstance(event, JvmStep)), None)

    def written_by(self, node: int) -> Record:
        """Return the record with a node as its writer."""
        events = [event.model_copy(update={"node": node}) for event in self.events]
        return Record(replace(self.entry, node=node), events, self.named)


@dataclass(frozen=True)
class Stream:
    """The records of one label in one file, in the order of the file."""

    file: str
    label: str
    records: list[Record]

    @property
    def is_of_a_broker(self) -> bool:
        """Whether a broker wrote it, not a client: by its classes, or by the name of its file."""
        if not self.label and BROKER_FILE.match(PurePosixPath(self.file).name):
            return True
        return any(r.named is not None or _BROKER_LOGGER.match(r.entry.logger) for r in self.records)


def streams_of(entries: Iterable[Entry]) -> list[Stream]:
    """Return the streams of one file. Most entries without an event are dropped, as `THINNED_US` says."""
    kept: dict[str, list[Record]] = defaultdict(list)
    waiting: dict[str, Record] = {}
    file = ""
    for entry in entries:
        file = entry.file
        match = _NAMED.search(entry.message)
        record = Record(entry, list(events_of(entry)), int(next(filter(None, match.groups()))) if match else None)
        records = kept[entry.label]
        last = records[-1] if records else None
        before = waiting.pop(entry.label, last)
        is_new = last is None or (record.named is not None and record.named != last.named)
        gap_us = entry.at_us - before.entry.at_us if before else 0
        if record.events or is_new or abs(gap_us) >= THINNED_US or entry.at_us - records[-1].entry.at_us >= THINNED_US:
            if before is not None and before is not last:
                records.append(_shortened(before))
            records.append(_shortened(record))
        else:
            waiting[entry.label] = record
    for label, record in waiting.items():
        kept[label].append(_shortened(record))
    return [Stream(file, label, records) for label, records in kept.items()]


def _shortened(record: Record) -> Record:
    """Return the record; one without an event keeps the first line of its message only, unless it has settings."""
    if record.events or "KafkaConfig values:" in record.entry.message:
        return record
    return Record(replace(record.entry, message=record.entry.source.text), [], record.named)


def assign_writers(streams: Sequence[Stream]) -> tuple[dict[int, list[Record]], list[Stream], list[str]]:
    """Return the records by node and time, the streams of clients, and notes for the user."""
    problems: list[str] = []
    nodes: dict[int, list[Record]] = defaultdict(list)
    clients = [s for s in streams if not s.is_of_a_broker]
    brokers = [s for s in streams if s.is_of_a_broker]
    for stream, names in zip(brokers, _names(brokers, problems), strict=True):
        for record, node in zip(stream.records, names, strict=True):
            nodes[node].append(record.written_by(node))
    return {node: list(_in_order(records)) for node, records in nodes.items()}, clients, problems


def _in_order(records: list[Record]) -> Iterator[Record]:
    """Yield the records by time, each once: a broker writes most entries to kafkaServer.out and to server.log."""
    files: dict[tuple[str, str], str] = {}
    at_us = None
    for record in sorted(records, key=lambda record: record.entry.at_us):
        if record.entry.at_us != at_us:
            at_us = record.entry.at_us
            files.clear()
        if files.setdefault((record.entry.logger, record.entry.message), record.entry.file) == record.entry.file:
            yield record


def _names(streams: Sequence[Stream], problems: list[str]) -> list[list[int]]:
    """Return the node of each record of each stream."""
    found = [_named_inside(stream.records) for stream in streams]
    free: dict[tuple[str, str], int] = {}
    for stream, names in zip(streams, found, strict=True):
        if names:
            continue
        siblings = [(s, n) for s, n in zip(streams, found, strict=True) if n and _folder(s) == _folder(stream)]
        node = _of_siblings(stream, siblings)
        if node is None:
            node = _in_name(stream.label) if stream.label else _in_name(stream.file)
        if node is None:
            where = (_folder(stream), stream.label)
            if where not in free:
                free[where] = _free_number(found, free)
                problems.append(
                    f"{stream.file} does not name its broker; it is read as the log of broker {free[where]}"
                )
            node = free[where]
        names += [node] * len(stream.records)
    return found


def _named_inside(records: list[Record]) -> list[int]:
    """Return the node of each record by what the records say; empty if none names one."""
    if not any(r.named is not None for r in records):
        return []
    names: list[int | None] = []
    for life in processes(records):
        ids = {r.named for r in life if r.named is not None}
        if len(ids) > 1:
            return _interleaved(records)
        names += [next(iter(ids), None)] * len(life)
    return _filled(names)


def processes(records: list[Record]) -> Iterator[list[Record]]:
    """Yield the records of one process after the other; a repeated step is the start of another process."""
    life: list[Record] = []
    step = -1
    for record in records:
        if record.step is not None:
            if record.step <= step and life:
                yield life
                life = []
            step = record.step
        elif record.named is not None:
            step = max(step, 0)  # the log may be cut: who names its broker has begun
        life.append(record)
    yield life


def _filled(names: list[int | None]) -> list[int]:
    """Return the names with each gap filled by the next one, at the end by the last one."""
    filled: list[int] = []
    following: int | None = next(n for n in reversed(names) if n is not None)
    for name in reversed(names):
        following = name if name is not None else following
        assert following is not None
        filled.append(following)
    return filled[::-1]


def _interleaved(records: list[Record]) -> list[int]:
    """Return the node of each record in a file to which several brokers write at once.

    Brokers that start together write the same steps: each step belongs to a broker that has not taken it.
    """
    named = [(i, r.named) for i, r in enumerate(records) if r.named is not None]
    nodes: list[int] = []
    taken: dict[int, tuple[int, int]] = {}
    """The last step of each broker, and its time."""
    position = 0
    for i, record in enumerate(records):
        while position < len(named) and named[position][0] < i:
            position += 1
        if record.named is not None:
            nodes.append(record.named)
            continue
        wanted = _STARTS if record.step is not None else _STOPS if _is_signal(record) else None
        node = None
        for j, candidate in named[position:] if wanted else ():
            if abs(records[j].entry.at_us - record.entry.at_us) > START_US:
                break
            step, at_us = taken.get(candidate, (-1, -RESTART_US))
            again = record.entry.at_us - at_us >= RESTART_US
            if (
                (record.step is None or record.step > step or again)
                and wanted
                and wanted.search(records[j].entry.message)
            ):
                node = candidate
                break
        if node is not None and record.step is not None:
            taken[node] = (record.step, record.entry.at_us)
        if node is None:
            around = [named[k] for k in (position - 1, position) if 0 <= k < len(named)]
            _, node = min(around, key=lambda item: abs(records[item[0]].entry.at_us - record.entry.at_us))
        assert node is not None
        nodes.append(node)
    return nodes


def _is_signal(record: Record) -> bool:
    return any(isinstance(event, SignalReceived) for event in record.events)


def _folder(stream: Stream) -> str:
    return str(PurePosixPath(stream.file).parent)


def _of_siblings(stream: Stream, siblings: list[tuple[Stream, list[int]]]) -> int | None:
    """Return the only node of streams with the same label and stem, such as rotated files, else of the folder."""
    stem = PurePosixPath(stream.file).name.split(".")[0]
    same = {
        node
        for s, nodes in siblings
        if s.label == stream.label and PurePosixPath(s.file).name.split(".")[0] == stem
        for node in nodes
    }
    if len(same) == 1:
        return same.pop()
    alike = {node for s, nodes in siblings if s.label == stream.label for node in nodes}
    return alike.pop() if len(alike) == 1 else None


def _in_name(name: str) -> int | None:
    """Return the number in a path or label such as kafka-2/server.log; None if there is none."""
    found = _NUMBER_IN_NAME.findall(name)
    return int(found[-1]) if found else None


def _free_number(found: list[list[int]], free: dict[tuple[str, str], int]) -> int:
    """Return the number after the highest one that is in use."""
    return max([0, *(node for names in found for node in names), *free.values()]) + 1
