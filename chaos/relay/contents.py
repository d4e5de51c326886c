"""Contents of requests: the partitions that a request names, by topic name or topic id."""

from __future__ import annotations

import sys
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SyncGroupRequest,
)
from kafka.protocol.producer import AddPartitionsToTxnRequest, ProduceRequest

from chaos.kafka.schemas import (
    ConsumerGroupHeartbeatRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
    TxnOffsetCommitRequest,
)
from chaos.relay.frames import LENGTH_BYTES, Head

Names = frozenset[tuple[str, int]]
"""Topics and partition numbers."""
TopicIds = dict[UUID, str]
"""The names of topics by their ids, as far as answers to Metadata have contained them."""


def by_id(ids: Mapping[str, str]) -> TopicIds:
    """Return the names of topics by their ids. ids: by name, as Kafka prints them (base64 without padding)."""
    return {UUID(bytes=urlsafe_b64decode(f"{topic_id}==")): name for name, topic_id in ids.items()}


TOPIC_APIS: dict[int, Any] = {
    int(key): request
    for key, request in {
        ApiKey.Produce: ProduceRequest,
        ApiKey.Fetch: FetchRequest,
        ApiKey.ListOffsets: ListOffsetsRequest,
        ApiKey.OffsetForLeaderEpoch: OffsetForLeaderEpochRequest,
        ApiKey.OffsetCommit: OffsetCommitRequest,
        ApiKey.OffsetFetch: OffsetFetchRequest,
        ApiKey.AddPartitionsToTxn: AddPartitionsToTxnRequest,
        ApiKey.TxnOffsetCommit: TxnOffsetCommitRequest,
    }.items()
}
"""The requests that name partitions, and that the proxy reads for them."""
MEMBER_APIS: dict[int, Any] = {
    int(ApiKey.SyncGroup): SyncGroupRequest,
    int(ApiKey.ConsumerGroupHeartbeat): ConsumerGroupHeartbeatRequest,
    int(ApiKey.StreamsGroupHeartbeat): StreamsGroupHeartbeatRequest,
    int(ApiKey.ShareGroupHeartbeat): ShareGroupHeartbeatRequest,
}
"""Requests with the id of a dynamic member, which each member sends when it joins its group, and now and then."""
_SAME_LAYOUT = {int(ApiKey.ListOffsets): (10, 11), int(ApiKey.ApiVersions): (4, 5)}
"""The last version of kafka-python, and the last one of Kafka 4.4 with the same layout."""
_NEW_SESSION = (0, -1)
"""Session epochs of a Fetch request that names all its partitions (KIP-227). Others name those that change."""


def last_version(api: int, kind: Any) -> int:
    """Return the last version of a request, or of an answer to it, that can be decoded."""
    return int(_SAME_LAYOUT[api][1] if api in _SAME_LAYOUT else kind.max_version)


def layout(api: int, version: int) -> int:
    """Return the version of kafka-python that has the layout of this version."""
    known, same = _SAME_LAYOUT.get(api, (version, version))
    return known if known < version <= same else version


def decoded(head: Head, frame: bytes, kind: Any) -> Any:
    """Return a complete request as a message of kafka-python. Raises `ValueError` if it cannot be decoded."""
    try:
        return kind.decode(memoryview(frame)[LENGTH_BYTES:], version=layout(head.api, head.version), header=True)
    except Exception as e:  # noqa: BLE001 - the decoder raises errors of many types
        raise ValueError(f"a request {ApiKey(head.api).name} version {head.version} is not understood: {e!r}") from None


def member_of(head: Head, frame: bytes) -> tuple[str, str] | None:
    """Return group and member id in a complete request of a member; None for a static member, and if it has no id."""
    try:
        request = decoded(head, frame, MEMBER_APIS[head.api])
    except ValueError as e:
        sys.stderr.write(f"{e}\n")
        return None
    static = getattr(request, "group_instance_id", None) or getattr(request, "instance_id", None)
    return (request.group_id, request.member_id) if request.member_id and not static else None


class Contents:
    """The partitions that the requests of one connection name.

    A Fetch request of a session names only what changes in it, so the partitions of the session are kept. A client
    that connects again begins another session.
    """

    def __init__(self, ids: TopicIds) -> None:
        self._ids = ids
        self._session: set[tuple[str, int]] | None = None

    def names(self, head: Head, frame: bytes) -> Names | None:
        """Return the partitions of a complete request; None if they are unknown, which the log of the proxy says."""
        try:
            request = decoded(head, frame, TOPIC_APIS[head.api])
        except ValueError as e:
            sys.stderr.write(f"{e}\n")
            return None
        if head.api != ApiKey.Fetch:
            return frozenset(self._in(_topics(head, request)))
        named = set(self._in(request.topics or ()))
        if head.version < 7 or request.session_epoch in _NEW_SESSION:
            self._session = named
        elif self._session is not None:
            self._session |= named
            self._session -= set(self._in(request.forgotten_topics_data or ()))
        return None if self._session is None else frozenset(self._session)

    def _in(self, topics: Iterable[Any]) -> Iterator[tuple[str, int]]:
        for entry in topics:
            name = getattr(entry, "name", None) or getattr(entry, "topic", None) or self._ids.get(_id(entry))
            for partition in _partitions(entry):
                if name is not None:
                    yield name, partition


def _topics(head: Head, request: Any) -> Iterable[Any]:
    if head.api == ApiKey.Produce:
        return request.topic_data or ()
    if head.api == ApiKey.AddPartitionsToTxn:
        if head.version < 4:
            return request.v3_and_below_topics or ()
        return [topic for transaction in request.transactions for topic in transaction.topics]
    if head.api == ApiKey.OffsetFetch and head.version >= 8:
        return [topic for group in request.groups for topic in group.topics or ()]
    return request.topics or ()


def _id(entry: Any) -> Any:
    return getattr(entry, "topic_id", None)


def _partitions(entry: Any) -> Iterator[int]:
    """Yield the partition numbers of a topic in a request. Their fields have several names."""
    for field in ("partition_data", "partitions", "partition_indexes"):
        for item in getattr(entry, field, None) or ():
            if isinstance(item, int):
                yield item
            else:
                yield next(getattr(item, n) for n in ("index", "partition_index", "partition") if hasattr(item, n))
