"""What a tap says while it records: a line for each thing that happens, from the capture as it grows.

Nothing here decides: the audit reads the same frames again, all of them, with the final log. A frame that this reader
does not understand is left to it.

| line                                   | from                                                                        |
|----------------------------------------|-----------------------------------------------------------------------------|
| who connects, and is gone              | ApiVersions, and the last connection of a host with a client id             |
| groups, members, rebalances            | answers to JoinGroup and ConsumerGroupHeartbeat                             |
| errors in answers                      | all answers that are kept, without those that a client expects              |
| commits that go back, or come too late | OffsetCommit and TxnOffsetCommit with their answers                         |
| fenced producers                       | answers to Produce and to requests of transactions                          |
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import (
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdResponse,
    ProduceResponse,
)

from chaos.clients.traits import ERROR_CODES
from chaos.kafka.schemas import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from chaos.relay.capture import ACCEPTED, ANSWER, CLOSED, REQUEST, SESSION_BITS, UNKEPT
from chaos.relay.contents import TOPIC_APIS, Contents, TopicIds, decoded, layout
from chaos.relay.frames import LENGTH_BYTES, request_head
from chaos.relay.segments import Read
from chaos.tap.speakers import Connection

_REQUESTS: dict[int, Any] = {
    ApiKey.ApiVersions: ApiVersionsRequest,
    ApiKey.JoinGroup: JoinGroupRequest,
    ApiKey.SyncGroup: SyncGroupRequest,
    ApiKey.Heartbeat: HeartbeatRequest,
    ApiKey.LeaveGroup: LeaveGroupRequest,
    ApiKey.ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest,
    ApiKey.OffsetCommit: TOPIC_APIS[ApiKey.OffsetCommit],
    ApiKey.OffsetFetch: OffsetFetchRequest,
    ApiKey.TxnOffsetCommit: TxnOffsetCommitRequest,
    ApiKey.EndTxn: EndTxnRequest,
}
_ANSWERS: dict[int, Any] = {
    ApiKey.Produce: ProduceResponse,
    ApiKey.Fetch: FetchResponse,
    ApiKey.JoinGroup: JoinGroupResponse,
    ApiKey.SyncGroup: SyncGroupResponse,
    ApiKey.Heartbeat: HeartbeatResponse,
    ApiKey.LeaveGroup: LeaveGroupResponse,
    ApiKey.ConsumerGroupHeartbeat: ConsumerGroupHeartbeatResponse,
    ApiKey.OffsetCommit: OffsetCommitResponse,
    ApiKey.OffsetFetch: OffsetFetchResponse,
    ApiKey.TxnOffsetCommit: TxnOffsetCommitResponse,
    ApiKey.InitProducerId: InitProducerIdResponse,
    ApiKey.AddPartitionsToTxn: AddPartitionsToTxnResponse,
    ApiKey.AddOffsetsToTxn: AddOffsetsToTxnResponse,
    ApiKey.EndTxn: EndTxnResponse,
}
_OF_PARTITIONS = (ApiKey.Produce, ApiKey.Fetch)
MOST_FETCHED = 1 << 13
"""Bytes of a Fetch answer up to which its errors are looked for: one with an error has few records."""
EXPECTED = frozenset({0, 27, 70, 71, 79, 111})
"""Errors that are part of the protocol: a rebalance in progress, a fetch session or a member id that is asked for
again, and a member epoch that is behind for a moment."""
FIRST = frozenset({ApiKey.ApiVersions, ApiKey.Metadata, ApiKey.FindCoordinator})
"""What each client asks on its first connection, which it may close then."""
STRANGE: dict[int, str] = {76: "each share group", 88: "each group of the protocol of Kafka Streams"}
"""ShareGroupHeartbeat and StreamsGroupHeartbeat."""
GONE_MEMBER = frozenset({22, 25, 82, 110})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH."""
FENCED = frozenset({47, 90})
"""INVALID_PRODUCER_EPOCH, PRODUCER_FENCED."""
AGAIN_S = 60.0
"""Time for which a line that was said is only counted."""

Say = Callable[[str], None]


class Said:
    """The lines that were said. The same one again is counted, and said with its count after `AGAIN_S`."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._last_us: dict[str, int] = {}
        self._more: Counter[str] = Counter()
        self._words: dict[str, str] = {}

    def say(self, key: str, words: str, at_us: int) -> None:
        """Say a line about something, unless it was said a short time ago."""
        if key in self._last_us:
            self._more[key] += 1
            self._words[key] = words
        else:
            self._last_us[key] = at_us
            self._say(words)

    def repeat(self, at_us: int, all_of_them: bool = False) -> None:
        """Say the lines that came again, with their counts; all: also those that were said a short time ago."""
        for key, last_us in list(self._last_us.items()):
            if not all_of_them and at_us - last_us < AGAIN_S * 1e6:
                continue
            if count := self._more.pop(key, 0):
                times = f"{count:,} times" if count > 1 else "once"
                self._say(f"{self._words[key]} ({times} more in {(at_us - last_us) / 1e6:.0f} s)")
                self._last_us[key] = at_us
            else:
                del self._last_us[key]


@dataclass
class _Open:
    """What is known of a connection while it is read. asked: requests whose answer is awaited, by their number."""

    connection: Connection
    contents: Contents
    peer: str
    asked: dict[int, Any] = field(default_factory=dict)


@dataclass
class _Group:
    generation: int = -1
    members: int = 0
    protocol: str = ""


class Reader:
    """Reads a capture in its order. say: takes a line; None if only who spoke is asked for, as lines were said before.
    pid_of: the process of this machine at the other end of a connection, by its number and address, if it is known."""

    def __init__(self, say: Say | None, pid_of: Callable[[int, str], int | None] = lambda number, peer: None) -> None:
        self._silent = say is None
        self._say: Say = say or (lambda words: None)
        self._said, self._pid_of = Said(self._say), pid_of
        self._ids: TopicIds = {}
        self._open: dict[int, _Open] = {}
        self.connections: dict[int, Connection] = {}
        self.topics: set[str] = set()
        """The topics that something was written to or fetched from."""
        self.groups: dict[str, set[str]] = defaultdict(set)
        """The topics of each group that has members here."""
        self.strange: set[str] = set()
        """Kinds of groups that have members here, and whose protocol is not read."""
        self._known: dict[str, _Group] = {}
        self._committed: dict[tuple[str, str, int], int] = {}
        self._here: Counter[tuple[str, int, str]] = Counter()
        """Open connections by what those of one process have in common."""
        self.requests, self.session = 0, 0
        """The requests so far, and the number of the sitting of the last one."""
        self._before_us = 0

    @property
    def clients(self) -> int:
        """The number of processes that are connected, as far as they can be told apart."""
        return sum(count > 0 for count in self._here.values())

    def learn(self, ids: Mapping[Any, str]) -> None:
        """Take the names of topics by their ids."""
        self._ids.update(ids)

    def read(self, entries: Iterable[Read]) -> None:
        """Read what is new."""
        for entry in entries:
            if entry.kind == ACCEPTED:
                self._accept(entry)
            elif entry.connection not in self._open:
                continue  # what a killed relay did not write
            elif entry.kind == CLOSED:
                self._close(entry)
            elif entry.kind == REQUEST:
                self.requests += 1
                self._request(self._open[entry.connection], entry)
            elif entry.kind == ANSWER:
                self._answer(self._open[entry.connection], entry)
            self._before_us = max(self._before_us, entry.seen_us)

    def repeat(self, at_us: int, all_of_them: bool = False) -> None:
        """Say what came again; see `Said.repeat`."""
        self._said.repeat(at_us, all_of_them)

    def end(self, at_us: int) -> None:
        """Close the connections that are open: the relay is gone."""
        for one in self._open.values():
            one.connection.closed_us = min(one.connection.closed_us, at_us)
        self._open.clear()
        self._here.clear()

    def _accept(self, entry: Read) -> None:
        if (session := entry.connection >> SESSION_BITS) > self.session:
            self.end(self._before_us)  # the relay of the sitting before was killed, with its connections
            self.session, self._said = session, Said(self._say)
        peer = str(json.loads(entry.kept)["peer"])
        connection = Connection(entry.connection, peer.rpartition(":")[0], entry.seen_us)
        connection.pid = self._pid_of(entry.connection, peer)
        self.connections[entry.connection] = connection
        self._open[entry.connection] = _Open(connection, Contents(self._ids), peer)

    def _close(self, entry: Read) -> None:
        connection = self._open.pop(entry.connection).connection
        connection.closed_us = entry.seen_us
        if not connection.works:
            del self.connections[entry.connection]  # as the check of a supervisor makes, day and night
        else:
            self._here[connection.key] -= 1
            if self._here[connection.key] <= 0:
                words = f"{_named(connection)} is gone: its last connection closed"
                self._said.say(f"gone {connection.key}", words, entry.seen_us)

    def _work(self, one: _Open, at_us: int) -> None:
        """Note that a connection is used for more than the first questions."""
        connection = one.connection
        connection.works = True
        if connection.pid is None:
            connection.pid = self._pid_of(connection.number, one.peer)
        self._here[connection.key] += 1
        if self._here[connection.key] == 1:
            self._said.say(f"here {connection.key}", f"{_named(connection)} connects", at_us)

    def _request(self, one: _Open, entry: Read) -> None:
        connection = one.connection
        if entry.flags & UNKEPT:
            return
        if not connection.client and (head := request_head(entry.kept, 0)):
            connection.client = head.client
        if (kind_of_group := STRANGE.get(entry.api)) is not None:
            self.strange.add(kind_of_group)
        if not connection.works and entry.api not in FIRST:
            self._work(one, entry.seen_us)
        if entry.api in _OF_PARTITIONS:
            self.topics.update(topic for topic, _ in one.contents.names(entry.head, entry.data) or ())
            return
        if (kind := _REQUESTS.get(entry.api)) is None or (asked := _decoded(entry, kind)) is None:
            return
        if entry.api == ApiKey.ApiVersions:
            library = str(getattr(asked, "client_software_name", "") or "")
            connection.library = f"{library} {getattr(asked, 'client_software_version', '') or ''}".strip()
            return
        one.asked[entry.number] = asked
        for group, member in _speaks(entry.api, asked):
            connection.spoke(group, member, entry.seen_us)
            self.groups[group].update(_subscribed(asked))
        if entry.api == ApiKey.TxnOffsetCommit:
            connection.in_transactions.add((asked.group_id, str(getattr(asked, "member_id", "") or "")))
        if entry.api in (ApiKey.TxnOffsetCommit, ApiKey.EndTxn):
            connection.producers.add(asked.producer_id)
        for group, topic in self._groups_of(entry, asked):
            self.groups[group].add(topic)

    def _groups_of(self, entry: Read, asked: Any) -> Iterator[tuple[str, str]]:
        """Yield group and topic of requests for committed offsets, or that commit some."""
        if entry.api in (ApiKey.OffsetCommit, ApiKey.TxnOffsetCommit):
            yield from ((asked.group_id, topic) for topic, _, _ in self._offsets(asked))
        elif entry.api == ApiKey.OffsetFetch:
            groups = asked.groups if entry.version >= 8 else [asked]
            for of in groups:
                yield from ((of.group_id, name) for t in of.topics or () if (name := self._name(t)))

    def _answer(self, one: _Open, entry: Read) -> None:
        asked = one.asked.pop(entry.number, None)
        large = entry.api == ApiKey.Fetch and entry.size > MOST_FETCHED
        said_only = entry.api in _OF_PARTITIONS and self._silent
        if entry.flags & UNKEPT or large or said_only or (kind := _ANSWERS.get(entry.api)) is None:
            return
        if (answer := _decoded(entry, kind)) is None:
            return
        if not self._silent:
            self._errors(one.connection, entry, asked, answer)
        if entry.api == ApiKey.JoinGroup and asked is not None and answer.error_code == 0:
            one.connection.spoke(asked.group_id, answer.member_id, entry.seen_us)
            self._formed(asked.group_id, answer.generation_id, len(answer.members), answer.protocol_name, entry.seen_us)
        elif entry.api == ApiKey.ConsumerGroupHeartbeat and asked is not None and answer.error_code == 0:
            if answer.assignment is not None:
                self._formed(asked.group_id, answer.member_epoch, 0, "consumer", entry.seen_us)
        elif entry.api == ApiKey.InitProducerId and answer.error_code == 0:
            one.connection.producers.add(answer.producer_id)
        elif entry.api in (ApiKey.OffsetCommit, ApiKey.TxnOffsetCommit) and asked is not None:
            self._commit(one.connection, entry, asked, answer)

    def _formed(self, group: str, generation: int, members: int, protocol: str | None, at_us: int) -> None:
        """Say that a group has another generation, or who is in it: only its leader hears the number of members."""
        known = self._known.setdefault(group, _Group())
        if generation > known.generation:
            begun, known.generation = known.generation >= 0, generation
            what = f"rebalances: generation {generation}" if begun else f"is at generation {generation}"
            self._said.say(f"generation {group} {generation}", f"group {group} {what}", at_us)
        if members and (members, protocol) != (known.members, known.protocol):
            known.members, known.protocol = members, protocol or ""
            by = f", assigned by {protocol}" if protocol else ""
            words = f"group {group} has {members} member{'s' * (members > 1)} in generation {generation}{by}"
            self._said.say(f"members {group} {generation}", words, at_us)

    def _commit(self, connection: Connection, entry: Read, asked: Any, answer: Any) -> None:
        refused = {
            (self._name(t), p.partition_index) for t in answer.topics or () for p in t.partitions if p.error_code
        }
        for topic, partition, offset in self._offsets(asked):
            key = (asked.group_id, topic, partition)
            if (topic, partition) in refused:
                continue
            before = self._committed.get(key, -1)
            if offset < before:
                words = (
                    f"group {asked.group_id} committed {topic}/{partition} back from {before:,} to {offset:,} "
                    f"({_named(connection)})"
                )
                self._said.say(f"back {key}", words, entry.seen_us)
            self._committed[key] = offset

    def _offsets(self, asked: Any) -> Iterator[tuple[str, int, int]]:
        for topic in asked.topics or ():
            for partition in topic.partitions or ():
                yield self._name(topic) or "?", partition.partition_index, partition.committed_offset

    def _name(self, entry: Any) -> str:
        name = getattr(entry, "name", None) or getattr(entry, "topic", None)
        by_id: Any = getattr(entry, "topic_id", None)
        return str(name or self._ids.get(by_id, "") or "")

    def _errors(self, connection: Connection, entry: Read, asked: Any, answer: Any) -> None:
        for code, where in self._found(answer, ""):
            if code in EXPECTED:
                continue
            api, error = ApiKey(entry.api).name, ERROR_CODES.get(code, f"error {code}")
            group = str(getattr(asked, "group_id", "") or "")
            at = f" for {where}" if where else f" in group {group}" if group else ""
            words = f"{_named(connection)} got {error} from {api}{at}"
            if api in ("OffsetCommit", "TxnOffsetCommit") and code in GONE_MEMBER:
                words = (
                    f"{_named(connection)} committed{at} and is no longer in the generation of group {group} ({error})"
                )
            elif code in FENCED:
                words = f"a producer of {_named(connection)} is fenced: {error} from {api}{at}"
            self._said.say(f"{connection.host} {connection.client} {api} {code} {where}", words, entry.seen_us)

    def _found(self, answer: Any, topic: str) -> Iterator[tuple[int, str]]:
        """Yield the error codes of an answer, each with the partition that it is about, if it is about one."""
        code = getattr(answer, "error_code", None)
        if code:
            index = next((getattr(answer, n) for n in _INDEXES if getattr(answer, n, None) is not None), None)
            yield int(code), f"{topic}/{index}" if topic and index is not None else topic
        for part in _PARTS:
            for item in getattr(answer, part, None) or ():
                if not isinstance(item, int | str | bytes):
                    yield from self._found(item, self._name(item) or topic)


_INDEXES = ("index", "partition_index", "partition")
_PARTS = (
    *("responses", "topics", "partitions", "partition_responses", "groups", "members", "results_by_transaction"),
    *("topic_results", "results_by_topic_v3_and_below", "results_by_partition"),
)
"""The fields of answers that hold parts with error codes."""


def _decoded(entry: Read, kind: Any) -> Any:
    """Return a complete request or answer; None if it is of a later release of Kafka, or cannot be read."""
    try:
        if entry.kind == REQUEST:
            return decoded(entry.head, entry.data, kind)
        version = layout(entry.api, entry.version)
        return kind.decode(memoryview(entry.data)[LENGTH_BYTES:], version=version, header=True)
    except Exception:  # noqa: BLE001 - the decoder raises errors of many types, and the audit reads all frames anyway
        return None


def _speaks(api: int, asked: Any) -> Iterator[tuple[str, str]]:
    """Yield group and member of a request of a member; a member has no id before its first answer."""
    if api in (ApiKey.JoinGroup, ApiKey.SyncGroup, ApiKey.Heartbeat, ApiKey.ConsumerGroupHeartbeat):
        if member := str(asked.member_id or ""):
            yield asked.group_id, member
    elif api == ApiKey.OffsetCommit and str(asked.member_id or ""):
        yield asked.group_id, str(asked.member_id)


def _subscribed(asked: Any) -> Iterable[str]:
    return getattr(asked, "subscribed_topic_names", None) or ()


def _named(connection: Connection) -> str:
    """Return a client for people: its client id, its process here or its host, and the library that it announced."""
    name = connection.client or "a client without an id"
    library = f" ({connection.library})" if connection.library else ""
    process = f" [{connection.pid}]" if connection.pid else f" at {connection.host}"
    return f"{name}{process}{library}"
