"""Requests of clients in every version that the proxy reads, as bytes."""

from __future__ import annotations

from uuid import UUID

from kafka.protocol.api_key import ApiKey

from chaos.kafka.messages import request
from chaos.relay.contents import TOPIC_APIS, last_version, layout

TOPIC_ID = UUID("3c4a77f6-1ff1-4f30-9b3a-0a8ba0a4a1c5")
PARTITION = ("orders", 3)

_FIRST = {ApiKey.Produce: 3, ApiKey.Fetch: 4, ApiKey.ListOffsets: 1, ApiKey.OffsetForLeaderEpoch: 2}
_FIRST |= {ApiKey.OffsetCommit: 2, ApiKey.OffsetFetch: 2}
_LAST = {ApiKey.AddPartitionsToTxn: 3}
_BY_ID = {ApiKey.Produce: 13, ApiKey.Fetch: 13, ApiKey.OffsetCommit: 10, ApiKey.OffsetFetch: 10}
_BY_ID |= {ApiKey.TxnOffsetCommit: 6}
VERSIONS = [
    (ApiKey(api), version)
    for api, kind in TOPIC_APIS.items()
    for version in range(_FIRST.get(ApiKey(api), 0), _LAST.get(ApiKey(api), last_version(api, kind)) + 1)
]


def encoded(message, correlation=7, client="shop/1"):
    """Return a message as a frame."""
    message.with_header(correlation_id=correlation, client_id=client)
    return bytes(message.encode(header=True, framed=True))


def named(api, version, topic="orders"):
    """Return the fields that name a topic in a request."""
    if version >= _BY_ID.get(api, 99):
        return {"topic_id": TOPIC_ID}
    return {"topic" if api in (ApiKey.Fetch, ApiKey.OffsetForLeaderEpoch) else "name": topic}


def naming(api, version, topic="orders", number=3, **fields):
    """Return a request for one partition, with further fields."""
    kind, name = TOPIC_APIS[api][layout(api, version)], named(api, version, topic)
    if api == ApiKey.Produce:
        data = [{**name, "partition_data": [{"index": number, "records": b"records"}]}]
        return request(kind, **{"acks": -1, "timeout_ms": 1, "topic_data": data, **fields})
    if api == ApiKey.Fetch:
        at = {"partition": number, "fetch_offset": 1, "partition_max_bytes": 1}
        later = {"forgotten_topics_data": []} if version >= 7 else {}
        return request(
            kind, **{"max_wait_ms": 1, "min_bytes": 1, "topics": [{**name, "partitions": [at]}], **later, **fields}
        )
    if api == ApiKey.OffsetFetch:
        topics = [{**name, "partition_indexes": [number]}]
        groups = {"groups": [{"group_id": "g", "topics": topics}]}
        return request(kind, **(groups if version >= 8 else {"group_id": "g", "topics": topics}))
    if api == ApiKey.AddPartitionsToTxn:
        prefix, producer = "v3_and_below_", {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
        topics = [{**name, "partitions": [number]}]
        return request(kind, **{prefix + key: value for key, value in {**producer, "topics": topics}.items()})
    commit = {"committed_offset": 1, "committed_metadata": ""}
    details = {
        ApiKey.ListOffsets: ({"replica_id": -1}, {"partition_index": number, "timestamp": -1}),
        ApiKey.OffsetForLeaderEpoch: ({}, {"partition": number, "leader_epoch": 1}),
        ApiKey.OffsetCommit: ({"group_id": "g", "member_id": "m"}, {"partition_index": number, **commit}),
        ApiKey.TxnOffsetCommit: (
            {"transactional_id": "t", "group_id": "g", "producer_id": 1, "producer_epoch": 0},
            {"partition_index": number, **commit},
        ),
    }
    own, partition = details[api]
    return request(kind, **own, topics=[{**name, "partitions": [partition]}])
