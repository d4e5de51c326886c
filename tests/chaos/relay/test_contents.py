"""Tests of the partitions that a request names, in every version that the proxy reads."""

from dataclasses import replace

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import SyncGroupRequest

from chaos.kafka.messages import request
from chaos.kafka.schemas import (
    ConsumerGroupHeartbeatRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
)
from chaos.relay.contents import Contents, member_of
from chaos.relay.frames import request_head
from tests.chaos.relay.messages import PARTITION, TOPIC_ID, VERSIONS, encoded, naming


def names(contents, message):
    frame = encoded(message)
    return contents.names(request_head(frame, 0), frame)


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: getattr(value, "name", value))
def test_a_request_names_its_partition_by_name_or_id(api, version):
    assert names(Contents({TOPIC_ID: "orders"}), naming(api, version)) == {PARTITION}


SYNC = {"group_id": "billing", "generation_id": 3, "member_id": "consumer-1", "assignments": []}
BEAT = {"group_id": "billing", "member_id": "consumer-1", "member_epoch": 4}


@pytest.mark.parametrize(
    ("kind", "fields", "found"),
    [
        *((SyncGroupRequest[version], SYNC, ("billing", "consumer-1")) for version in range(6)),
        (SyncGroupRequest[5], SYNC | {"group_instance_id": "one"}, None),  # static: a new process takes its place
        (ConsumerGroupHeartbeatRequest[0], BEAT, ("billing", "consumer-1")),
        (ConsumerGroupHeartbeatRequest[1], BEAT, ("billing", "consumer-1")),
        (ConsumerGroupHeartbeatRequest[1], BEAT | {"instance_id": "one"}, None),
        (ConsumerGroupHeartbeatRequest[0], BEAT | {"member_id": "", "member_epoch": 0}, None),  # it has no id yet
        (StreamsGroupHeartbeatRequest[0], BEAT, ("billing", "consumer-1")),
        (StreamsGroupHeartbeatRequest[0], BEAT | {"instance_id": "one"}, None),
        (ShareGroupHeartbeatRequest[1], BEAT, ("billing", "consumer-1")),
    ],
)
def test_the_dynamic_member_that_a_request_is_from(kind, fields, found):
    frame = encoded(request(kind, **fields))
    assert member_of(request_head(frame, 0), frame) == found


def test_a_member_in_a_request_of_a_later_version_is_unknown(capsys):
    frame = encoded(request(SyncGroupRequest[5], **SYNC))
    head = replace(request_head(frame, 0), version=99)
    assert member_of(head, frame) is None and "SyncGroup version 99 is not understood" in capsys.readouterr().err


def test_an_unknown_topic_id_names_nothing():
    assert names(Contents({}), naming(ApiKey.Produce, 13)) == frozenset()


def fetch(number, session, epoch, forgotten=()):
    gone = [{"topic": "orders", "partitions": list(forgotten)}] if forgotten else []
    return naming(ApiKey.Fetch, 12, number=number, session_id=session, session_epoch=epoch, forgotten_topics_data=gone)


def test_a_fetch_session_keeps_its_partitions_until_they_are_forgotten():
    contents = Contents({})
    assert names(contents, fetch(1, 0, 0)) == {("orders", 1)}
    assert names(contents, fetch(2, 9, 1)) == {("orders", 1), ("orders", 2)}
    assert names(contents, fetch(2, 9, 2, forgotten=[1])) == {("orders", 2)}
    assert names(contents, fetch(5, 0, -1)) == {("orders", 5)}, "a request without a session names all"


def test_the_partitions_of_a_session_that_began_elsewhere_are_unknown():
    assert names(Contents({}), fetch(2, 9, 1)) is None


def test_a_request_that_cannot_be_decoded_is_unknown_and_logged(capsys):
    frame = encoded(naming(ApiKey.Produce, 9))
    broken = frame[:-6]
    assert Contents({}).names(request_head(frame, 0), broken) is None
    assert "Produce version 9 is not understood" in capsys.readouterr().err
