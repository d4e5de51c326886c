"""Tests of the addresses in answers, and of the versions that the proxy offers."""

from types import SimpleNamespace

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.producer import ProduceResponse

from chaos.kafka.messages import request
from chaos.kafka.schemas import ShareAcknowledgeResponse, ShareFetchResponse
from chaos.relay.frames import LENGTH_BYTES
from chaos.relay.rewrite import Addresses, holds_addresses, rewritten
from tests.chaos.relay.messages import TOPIC_ID, encoded

NOT_LEADER = 6
ADDRESSES = Addresses({1: ("127.0.0.1", 40001), 2: ("127.0.0.1", 40002)}, frozenset({b"broker-2.example"}))
THERE = [{"node_id": 2, "host": "broker-2.example", "port": 9092, "rack": "b"}]
STRANGER = [{"node_id": 7, "host": "broker-2.example", "port": 9092, "rack": None}]
FETCHED = {"partition_index": 0, "high_watermark": -1, "aborted_transactions": None}
SHARED = {
    **{"partition_index": 0, "error_message": None, "acknowledge_error_code": 0, "acknowledge_error_message": None},
    **{"current_leader": SimpleNamespace(leader_id=2, leader_epoch=9, unknown_fields=None), "acquired_records": []},
}
RECORDS = bytes(range(256)) * 1000
"""As long as to reach far beyond the addresses at the end."""


def fetched(version, nodes, code=NOT_LEADER):
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "orders"}
    parts = [{**FETCHED, "error_code": 0, "records": RECORDS}, {**FETCHED, "error_code": code, "records": b""}]
    fields = {"node_endpoints": nodes} if version >= 16 else {}
    return FetchResponse, request(
        FetchResponse[version], responses=[{**topic, "partitions": parts}], error_code=0, session_id=5, **fields
    )


def produced(version, nodes):
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"name": "orders"}
    parts = [{"index": 0, "error_code": NOT_LEADER, "base_offset": -1}]
    message = request(
        ProduceResponse[version], responses=[{**topic, "partition_responses": parts}], node_endpoints=nodes
    )
    return ProduceResponse, message


def shared(version, nodes):
    topics = [{"topic_id": TOPIC_ID, "partitions": [{**SHARED, "error_code": NOT_LEADER, "records": RECORDS}]}]
    fields = {"acquisition_lock_timeout_ms": 30_000} if version >= 1 else {}
    return ShareFetchResponse, request(
        ShareFetchResponse[version], responses=topics, error_code=0, error_message=None, node_endpoints=nodes, **fields
    )


def acknowledged(version, nodes):
    known = ("partition_index", "error_message", "current_leader")
    partition = {"error_code": NOT_LEADER, **{name: SHARED[name] for name in known}}
    fields = {"acquisition_lock_timeout_ms": 30_000} if version >= 2 else {}
    return ShareAcknowledgeResponse, request(
        ShareAcknowledgeResponse[version],
        responses=[{"topic_id": TOPIC_ID, "partitions": [partition]}],
        error_code=0,
        error_message=None,
        node_endpoints=nodes,
        **fields,
    )


WITH_ENDPOINTS = [
    *((fetched, version) for version in (16, 17, 18)),
    *((produced, version) for version in (10, 11, 12, 13)),
    *((answer, version) for answer in (shared, acknowledged) for version in (1, 2)),
]


def read(kind, frame, version):
    return kind.decode(memoryview(frame)[LENGTH_BYTES:], version=version, header=True)


@pytest.mark.parametrize(("make", "version"), WITH_ENDPOINTS, ids=lambda v: getattr(v, "__name__", v))
def test_the_new_leader_gets_the_address_of_the_proxy_and_nothing_else_changes(make, version):
    kind, message = make(version, THERE)
    frame, api = encoded(message), kind.API_KEY
    assert holds_addresses(api, version)
    other = rewritten(frame, api, version, ADDRESSES)
    answer = read(kind, other, version)
    (node,) = answer.node_endpoints
    assert (node.node_id, node.host, node.port, node.rack) == (2, "127.0.0.1", 40002, "b")
    node.host, node.port = "broker-2.example", 9092
    answer.with_header(correlation_id=7)
    assert bytes(answer.encode(header=True, framed=True)) == frame


@pytest.mark.parametrize(("make", "version"), WITH_ENDPOINTS, ids=lambda v: getattr(v, "__name__", v))
def test_an_answer_without_an_address_of_a_known_broker_passes_as_it_is(make, version):
    for nodes in ([], STRANGER):
        kind, message = make(version, nodes)
        frame = encoded(message)
        assert rewritten(frame, kind.API_KEY, version, ADDRESSES) is frame


def test_a_fetch_answer_of_a_version_without_addresses_is_not_held():
    assert not holds_addresses(ApiKey.Fetch, 15)


def offered(**entries):
    keys = [{"api_key": ApiKey[name], "min_version": 0, "max_version": last} for name, last in entries.items()]
    return encoded(request(ApiVersionsResponse[4], error_code=0, api_keys=keys, finalized_features_epoch=3))


@pytest.mark.parametrize("version", [4, 5])
def test_every_version_of_the_newest_kafka_is_offered(version):
    """The versions of Kafka 4.4.0. A client of that release asks with ApiVersions 5, which has the layout of 4."""
    newest = {
        **{"Produce": 13, "Fetch": 18, "ListOffsets": 11, "Metadata": 13, "OffsetCommit": 10, "OffsetFetch": 10},
        **{"FindCoordinator": 6, "ApiVersions": 5, "AddPartitionsToTxn": 5, "TxnOffsetCommit": 6},
        **{"DescribeCluster": 2, "ShareGroupHeartbeat": 1, "ShareFetch": 2, "ShareAcknowledge": 2},
        **{"ConsumerGroupHeartbeat": 1, "JoinGroup": 9, "StreamsGroupHeartbeat": 1},
    }
    answer = read(ApiVersionsResponse, rewritten(offered(**newest), ApiKey.ApiVersions, version, ADDRESSES), 4)
    assert {ApiKey(entry.api_key).name: entry.max_version for entry in answer.api_keys} == newest


def test_a_version_that_cannot_be_decoded_is_not_offered():
    answer = read(ApiVersionsResponse, rewritten(offered(Fetch=99), ApiKey.ApiVersions, 4, ADDRESSES), 4)
    assert [entry.max_version for entry in answer.api_keys] == [18]
