"""Tests of answers with an error code: from the proxy, and from a broker if the proxy changes them."""

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchResponse, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, ProduceResponse

from chaos.kafka.messages import request
from chaos.relay.contents import decoded, layout
from chaos.relay.frames import LENGTH_BYTES, request_head, response_head
from chaos.relay.refusals import ERROR_APIS, REQUESTS, changed, refusal
from tests.chaos.relay.messages import PARTITION, TOPIC_ID, VERSIONS, encoded, named, naming

IDS = {TOPIC_ID: "orders"}
NOT_LEADER, TIMED_OUT = 6, 7


def refused(message, code=NOT_LEADER):
    """Return the head of a request, and the frame of the proxy's answer."""
    frame = encoded(message)
    head = request_head(frame, 0)
    return head, refusal(head, decoded(head, frame, REQUESTS[head.api]), code)


def read(head, answer):
    version = layout(head.api, head.version)
    return ERROR_APIS[head.api].decode(memoryview(answer)[LENGTH_BYTES:], version=version, header=True)


def codes(message):
    """Return all error codes in a message that are not 0."""
    found = []
    for name in message.fields:
        value = getattr(message, name)
        if name.endswith("error_code") and value:
            found.append(value)
        elif isinstance(value, list):
            found += [code for item in value if hasattr(item, "fields") for code in codes(item)]
    return found


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: getattr(value, "name", value))
def test_a_request_for_a_partition_is_answered_with_the_code(api, version):
    head, answer = refused(naming(api, version))
    assert response_head(answer, 0).correlation == 7 and response_head(answer, 0).bytes == len(answer)
    assert codes(read(head, answer)) == [NOT_LEADER]


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: getattr(value, "name", value))
def test_the_code_of_a_partition_in_an_answer_is_changed(api, version):
    head, answer = refused(naming(api, version))
    other = changed(answer, head.api, version, TIMED_OUT, lambda *partition: partition == PARTITION, IDS)
    assert codes(read(head, other)) == [TIMED_OUT]
    assert changed(answer, head.api, version, NOT_LEADER, lambda *_: True, IDS) is None, "it has that code already"
    if api != ApiKey.OffsetFetch:  # it has the code for the whole group
        assert changed(answer, head.api, version, TIMED_OUT, lambda *_: False, IDS) is None, "another partition"


@pytest.mark.parametrize(
    "message",
    [
        request(HeartbeatRequest[4], group_id="g", generation_id=1, member_id="m"),
        request(FindCoordinatorRequest[2], key="g", key_type=0),
        request(FindCoordinatorRequest[4], key_type=0, coordinator_keys=["g"]),
        request(EndTxnRequest[3], transactional_id="t", producer_id=1, producer_epoch=0, committed=True),
        request(
            InitProducerIdRequest[4], transactional_id="t", transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1
        ),
        request(
            JoinGroupRequest[5],
            **{"group_id": "g", "session_timeout_ms": 1, "rebalance_timeout_ms": 1, "member_id": "m"},
            **{"group_instance_id": None, "protocol_type": "consumer", "protocols": []},
        ),
    ],
    ids=lambda message: f"{message.name}-{message.version}",
)
def test_a_request_without_partitions_is_answered_with_the_code_as_a_whole(message):
    head, answer = refused(message)
    assert codes(read(head, answer)) == [NOT_LEADER]
    other = changed(answer, head.api, head.version, TIMED_OUT, lambda *_: True, {})
    assert codes(read(head, other)) == [TIMED_OUT]


def answer_to(api, version, **partition):
    field = "partition_responses" if api == ApiKey.Produce else "partitions"
    topic = {**named(api, version), field: [partition]}
    if api == ApiKey.Produce:
        return encoded(request(ProduceResponse[version], responses=[topic]))
    return encoded(request(FetchResponse[version], responses=[topic], error_code=0, session_id=5))


def test_an_answer_with_an_error_has_no_offset():
    frame = answer_to(ApiKey.Produce, 9, index=3, error_code=0, base_offset=41)
    answer = ProduceResponse.decode(
        memoryview(changed(frame, 0, 9, TIMED_OUT, lambda *_: True, IDS))[LENGTH_BYTES:], version=9, header=True
    )
    (partition,) = answer.responses[0].partition_responses
    assert (partition.error_code, partition.base_offset) == (TIMED_OUT, -1)


def test_an_answer_with_an_error_has_no_records():
    full = {"high_watermark": 9, "aborted_transactions": [], "records": b"records"}
    frame = answer_to(ApiKey.Fetch, 12, partition_index=3, error_code=0, **full)
    answer = FetchResponse.decode(
        memoryview(changed(frame, 1, 12, NOT_LEADER, lambda *_: True, IDS))[LENGTH_BYTES:], version=12, header=True
    )
    (partition,) = answer.responses[0].partitions
    assert (answer.session_id, partition.error_code, bytes(partition.records)) == (5, NOT_LEADER, b"")


@pytest.mark.parametrize(("api", "version"), [(ApiKey.OffsetFetch, 1), (ApiKey.AddPartitionsToTxn, 4)])
def test_a_request_without_such_an_answer_is_not_answered(api, version):
    frame = encoded(request(HeartbeatRequest[4], group_id="g", generation_id=1, member_id="m"))
    head = request_head(frame, 0)
    other = type(head)(head.bytes, head.correlation, int(api), version, head.client)
    with pytest.raises(ValueError, match="has no error code"):
        refusal(other, None, NOT_LEADER)


def test_an_answer_that_cannot_be_decoded_is_an_error():
    frame = encoded(request(HeartbeatResponse[4], error_code=0))
    with pytest.raises(ValueError, match="not understood"):
        changed(frame[:6], ApiKey.Heartbeat, 4, TIMED_OUT, lambda *_: True, {})
