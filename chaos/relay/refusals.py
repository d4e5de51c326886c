"""Answers with an error code: made by the proxy in place of a broker, or changed on their way to the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from chaos.kafka.messages import request as message
from chaos.kafka.schemas import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from chaos.relay.contents import TopicIds, layout
from chaos.relay.frames import LENGTH_BYTES, Head

_MESSAGES = {
    ApiKey.Produce: (ProduceRequest, ProduceResponse),
    ApiKey.Fetch: (FetchRequest, FetchResponse),
    ApiKey.ListOffsets: (ListOffsetsRequest, ListOffsetsResponse),
    ApiKey.OffsetForLeaderEpoch: (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    ApiKey.OffsetCommit: (OffsetCommitRequest, OffsetCommitResponse),
    ApiKey.OffsetFetch: (OffsetFetchRequest, OffsetFetchResponse),
    ApiKey.FindCoordinator: (FindCoordinatorRequest, FindCoordinatorResponse),
    ApiKey.JoinGroup: (JoinGroupRequest, JoinGroupResponse),
    ApiKey.SyncGroup: (SyncGroupRequest, SyncGroupResponse),
    ApiKey.Heartbeat: (HeartbeatRequest, HeartbeatResponse),
    ApiKey.InitProducerId: (InitProducerIdRequest, InitProducerIdResponse),
    ApiKey.AddPartitionsToTxn: (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    ApiKey.AddOffsetsToTxn: (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    ApiKey.EndTxn: (EndTxnRequest, EndTxnResponse),
    ApiKey.TxnOffsetCommit: (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
}
REQUESTS: dict[int, Any] = {int(key): request for key, (request, _) in _MESSAGES.items()}
"""The requests that can be answered with an error."""
ERROR_APIS: dict[int, Any] = {int(key): response for key, (_, response) in _MESSAGES.items()}
"""Their answers."""
_GROUPED_OFFSETS, _SEVERAL_COORDINATORS = 8, 4
"""The versions of OffsetFetch and FindCoordinator with an error code for each group."""

_CODED = {int(ApiKey.OffsetFetch): range(2, 99), int(ApiKey.AddPartitionsToTxn): range(4)}
"""The versions with an error code where the others have none, or are for brokers only."""

Matches = Callable[[str, int], bool]
"""Whether a rule is for a partition, by topic and number."""


def refusal(head: Head, request: Any, code: int) -> bytes:
    """Return the answer with this error code to a request. Raises `ValueError` if it has no such answer."""
    if head.api in _CODED and head.version not in _CODED[head.api]:
        raise ValueError(f"an answer to {ApiKey(head.api).name} version {head.version} has no error code")
    fields = _ANSWERS.get(head.api, _plain)(head, request, code)
    answer = message(ERROR_APIS[head.api][layout(head.api, head.version)], **fields)
    answer.with_header(correlation_id=head.correlation)
    return bytes(answer.encode(header=True, framed=True))


def _plain(_: Head, __: Any, code: int) -> dict[str, Any]:
    return {"error_code": code}


def _joined(_: Head, request: Any, code: int) -> dict[str, Any]:
    return {
        "error_code": code,
        "generation_id": -1,
        "protocol_name": "",
        "leader": "",
        "member_id": request.member_id or "",
        "members": [],
    }


def _synced(_: Head, __: Any, code: int) -> dict[str, Any]:
    return {"error_code": code, "assignment": b""}


def _producer(_: Head, __: Any, code: int) -> dict[str, Any]:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


def _coordinators(head: Head, request: Any, code: int) -> dict[str, Any]:
    nowhere = {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": None}
    if head.version < _SEVERAL_COORDINATORS:
        return nowhere
    return {"coordinators": [{"key": key, **nowhere} for key in request.coordinator_keys]}


def _offsets(head: Head, request: Any, code: int) -> dict[str, Any]:
    if head.version < _GROUPED_OFFSETS:
        return {"topics": [], "error_code": code}
    return {"groups": [{"group_id": g.group_id, "topics": [], "error_code": code} for g in request.groups]}


def _produced(_: Head, request: Any, code: int) -> dict[str, Any]:
    return {
        "responses": [
            {
                **_topic(topic),
                "partition_responses": [
                    {"index": p.index, "error_code": code, "base_offset": -1} for p in topic.partition_data
                ],
            }
            for topic in request.topic_data
        ]
    }


def _fetched(_: Head, request: Any, code: int) -> dict[str, Any]:
    nothing = {"error_code": code, "high_watermark": -1, "aborted_transactions": None, "records": b""}
    return {
        "error_code": 0,
        "session_id": request.session_id if request.session_id and request.session_epoch > 0 else 0,
        "responses": [
            {**_topic(topic), "partitions": [{"partition_index": p.partition, **nothing} for p in topic.partitions]}
            for topic in request.topics
        ],
    }


def _listed(_: Head, request: Any, code: int) -> dict[str, Any]:
    return _by_partition(request.topics, "partition_index", "partition_index", code)


def _epochs(_: Head, request: Any, code: int) -> dict[str, Any]:
    return _by_partition(request.topics, "partition", "partition", code)


def _added(_: Head, request: Any, code: int) -> dict[str, Any]:
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic.name,
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": code} for number in topic.partitions
                ],
            }
            for topic in request.v3_and_below_topics
        ]
    }


def _by_partition(topics: Any, asked: str, answered: str, code: int) -> dict[str, Any]:
    return {
        "topics": [
            {
                **_topic(topic),
                "partitions": [{answered: getattr(p, asked), "error_code": code} for p in topic.partitions],
            }
            for topic in topics
        ]
    }


def _topic(topic: Any) -> dict[str, Any]:
    """Return the fields that name a topic in an answer, as they are in the request."""
    return {
        field: getattr(topic, field)
        for field in ("name", "topic", "topic_id")
        if getattr(topic, field, None) is not None
    }


_ANSWERS: dict[int, Callable[[Head, Any, int], dict[str, Any]]] = {
    int(key): answer
    for key, answer in {
        ApiKey.Produce: _produced,
        ApiKey.Fetch: _fetched,
        ApiKey.ListOffsets: _listed,
        ApiKey.OffsetForLeaderEpoch: _epochs,
        ApiKey.OffsetCommit: _listed,
        ApiKey.TxnOffsetCommit: _listed,
        ApiKey.OffsetFetch: _offsets,
        ApiKey.FindCoordinator: _coordinators,
        ApiKey.JoinGroup: _joined,
        ApiKey.SyncGroup: _synced,
        ApiKey.InitProducerId: _producer,
        ApiKey.AddPartitionsToTxn: _added,
    }.items()
}


def changed(frame: bytes, api: int, version: int, code: int, matches: Matches, ids: TopicIds) -> bytes | None:
    """Return an answer of a broker with this error code for the partitions that match; None if nothing changes.

    An answer without partitions gets the code as a whole. Raises `ValueError` if the answer cannot be decoded.
    """
    try:
        answer = ERROR_APIS[api].decode(memoryview(frame)[LENGTH_BYTES:], version=layout(api, version), header=True)
        found = False
        for holder, field in list(_codes(answer, api, version, matches, ids)):
            if getattr(holder, field) != code:
                setattr(holder, field, code)
                _empty(holder)
                found = True
        return bytes(answer.encode(header=True, framed=True)) if found else None
    except Exception as e:  # noqa: BLE001 - the decoder raises errors of many types
        raise ValueError(f"an answer to {ApiKey(api).name} version {version} is not understood: {e!r}") from None


def _codes(answer: Any, api: int, version: int, matches: Matches, ids: TopicIds) -> Iterator[tuple[Any, str]]:
    """Yield the messages in an answer that hold an error code, each with the name of that field."""
    if api == ApiKey.OffsetFetch:
        yield from ((holder, "error_code") for holder in (answer.groups if version >= _GROUPED_OFFSETS else [answer]))
    elif api == ApiKey.FindCoordinator:
        several = version >= _SEVERAL_COORDINATORS
        yield from ((holder, "error_code") for holder in (answer.coordinators if several else [answer]))
    elif (topics := _answered(answer, api)) is not None:
        for topic in topics:
            name = getattr(topic, "name", None) or getattr(topic, "topic", None) or ids.get(topic.topic_id, "")
            for holder, number, field in _answered_partitions(topic):
                if matches(name, number):
                    yield holder, field
    else:
        yield answer, "error_code"


def _answered(answer: Any, api: int) -> Any:
    if api in (ApiKey.Produce, ApiKey.Fetch):
        return answer.responses
    if api == ApiKey.AddPartitionsToTxn:
        return answer.results_by_topic_v3_and_below
    return answer.topics if "topics" in answer.fields else None


def _answered_partitions(topic: Any) -> Iterator[tuple[Any, int, str]]:
    for partition in getattr(topic, "results_by_partition", None) or ():
        yield partition, partition.partition_index, "partition_error_code"
    for field in ("partition_responses", "partitions"):
        for partition in getattr(topic, field, None) or ():
            number = next(
                getattr(partition, n) for n in ("index", "partition_index", "partition") if n in partition.fields
            )
            yield partition, number, "error_code"


def _empty(partition: Any) -> None:
    """Remove what a broker gives only without an error: offsets, and records."""
    for field, value in (("base_offset", -1), ("records", b""), ("offset", -1), ("end_offset", -1)):
        if field in partition.fields:
            setattr(partition, field, value)
