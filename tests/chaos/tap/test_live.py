"""Tests of what a tap says while it records, on captures of a few frames."""

from __future__ import annotations

import json

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse, ProduceResponse

from chaos.kafka.messages import request
from chaos.kafka.schemas import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from chaos.relay.capture import ACCEPTED, ANSWER, CLOSED, REQUEST, UNKEPT
from chaos.relay.segments import Read
from chaos.tap.live import AGAIN_S, Reader
from tests.chaos.relay.messages import TOPIC_ID, encoded, naming

JOIN, COMMIT, BEAT = JoinGroupRequest[5], OffsetCommitRequest[7], HeartbeatRequest[3]


class Wire:
    """A capture of some connections, and what was said about it."""

    def __init__(self, pids=None, silent=False):
        self.lines, self._numbers, self._at = [], {}, 0
        say = None if silent else self.lines.append
        self.reader = Reader(say, lambda number, peer: (pids or {}).get(peer))

    def _read(self, kind, connection, number=0, api=-1, version=-1, kept=b"", flags=0):
        self._at += 1_000
        entry = Read(kind, flags, connection, number, self._at, self._at, api, version, 0, len(kept), (), kept)
        self.reader.read([entry])

    def accept(self, connection=1, peer="10.0.0.5:4000"):
        content = {"front": "tap", "broker": 1, "peer": peer}
        self._read(ACCEPTED, connection, kept=json.dumps(content).encode())
        return self

    def close(self, connection=1):
        self._read(CLOSED, connection, kept=b"{}")
        return self

    def ask(self, asked, answer=None, connection=1, client="billing-app", flags=0):
        number = self._numbers[connection] = self._numbers.get(connection, 0) + 1
        api, version = asked.API_KEY, asked.API_VERSION
        self._read(REQUEST, connection, number, api, version, encoded(asked, number, client), flags)
        if answer is not None:
            answer.with_header(correlation_id=number)
            self._read(ANSWER, connection, number, api, version, bytes(answer.encode(header=True, framed=True)), flags)
        return self

    def join(self, generation=5, members=2, member="m1", error=0, connection=1):
        asked = request(
            JOIN,
            **{"group_id": "billing", "session_timeout_ms": 1, "rebalance_timeout_ms": 1, "member_id": member},
            **{"group_instance_id": None, "protocol_type": "consumer", "protocols": []},
        )
        who = [{"member_id": f"m{n}", "group_instance_id": None, "metadata": b""} for n in range(members)]
        answer = request(
            JoinGroupResponse[5],
            **{"throttle_time_ms": 0, "error_code": error, "generation_id": generation, "protocol_name": "range"},
            **{"leader": "m1", "member_id": member, "members": who},
        )
        return self.ask(asked, answer, connection)

    def commit(self, offset, error=0, member="m1"):
        part = {"partition_index": 3, "committed_offset": offset, "committed_leader_epoch": -1}
        asked = request(
            COMMIT,
            **{"group_id": "billing", "generation_id_or_member_epoch": 5, "member_id": member},
            **{"group_instance_id": None},
            topics=[{"name": "orders", "partitions": [{**part, "committed_metadata": ""}]}],
        )
        parts = [{"partition_index": 3, "error_code": error}]
        answer = request(OffsetCommitResponse[7], throttle_time_ms=0, topics=[{"name": "orders", "partitions": parts}])
        return self.ask(asked, answer)


def versions(library="apache-kafka-java", release="4.3.1"):
    return request(ApiVersionsRequest[3], client_software_name=library, client_software_version=release)


def said(wire, *parts):
    """Return whether one line has all parts."""
    return any(all(part in line for part in parts) for line in wire.lines)


def test_who_connects_is_said_once_with_its_library_and_so_is_that_it_is_gone():
    wire = Wire().accept(1).ask(versions()).join().accept(2, "10.0.0.5:4001")
    wire.ask(versions(), connection=2).join(connection=2)
    assert [line for line in wire.lines if "connects" in line] == [
        "billing-app at 10.0.0.5 (apache-kafka-java 4.3.1) connects"
    ]
    assert wire.reader.clients == 1
    wire.close(1)
    assert not said(wire, "is gone")
    wire.close(2)
    assert said(wire, "billing-app at 10.0.0.5 (apache-kafka-java 4.3.1) is gone: its last connection closed")


def test_a_first_connection_for_brokers_only_is_no_client():
    wire = Wire().accept().ask(versions()).close()
    assert wire.lines == [] and wire.reader.clients == 0


def test_connections_that_only_ask_for_brokers_are_forgotten_when_they_close():
    wire = Wire().accept().ask(versions())
    assert len(wire.reader.connections) == 1
    assert wire.close().reader.connections == {}


def test_groups_of_protocols_that_are_not_read_are_known_to_be_there():
    wire = Wire().accept()
    wire.reader.read([Read(REQUEST, 0, 1, 1, 1, 1, 76, 1, 0, 20, (), encoded(versions(), 1))])
    assert wire.reader.strange == {"each share group"}


def test_processes_of_this_machine_are_told_apart():
    wire = Wire({"127.0.0.1:1": 70, "127.0.0.1:2": 71})
    for number, peer in ((1, "127.0.0.1:1"), (2, "127.0.0.1:2")):
        wire.accept(number, peer).join(member=f"m{number}", connection=number)
    assert wire.reader.clients == 2 and said(wire, "billing-app [70]") and said(wire, "billing-app [71]")


def test_a_group_its_members_and_its_rebalances():
    wire = Wire().accept().join(5, 2)
    assert wire.lines[1:] == [
        "group billing is at generation 5",
        "group billing has 2 members in generation 5, assigned by range",
    ]
    wire.join(5, 2).reader.repeat(int(2 * AGAIN_S * 1e6))
    assert len(wire.lines) == 3
    wire.join(6, 3)
    assert wire.lines[3:] == [
        "group billing rebalances: generation 6",
        "group billing has 3 members in generation 6, assigned by range",
    ]


def test_a_rebalance_of_the_new_protocol_is_an_assignment_of_another_epoch():
    wire, nothing = Wire().accept(), ConsumerGroupHeartbeatResponse.fields["assignment"]._data_class
    for epoch, assignment in ((4, nothing(topic_partitions=[])), (4, None), (5, nothing(topic_partitions=[]))):
        asked = request(
            ConsumerGroupHeartbeatRequest[0],
            **{"group_id": "billing", "member_id": "m1", "member_epoch": 3, "instance_id": None, "rack_id": None},
            **{"rebalance_timeout_ms": 1, "subscribed_topic_names": ["orders"], "server_assignor": None},
            topic_partitions=None,
        )
        answer = request(
            ConsumerGroupHeartbeatResponse[0],
            **{"throttle_time_ms": 0, "error_code": 0, "error_message": None, "member_id": "m1"},
            **{"member_epoch": epoch, "heartbeat_interval_ms": 5, "assignment": assignment},
        )
        wire.ask(asked, answer)
    generations = [line for line in wire.lines if "generation" in line]
    assert generations == ["group billing is at generation 4", "group billing rebalances: generation 5"]
    assert wire.reader.groups["billing"] == {"orders"}


def refused():
    """Return the answer of a broker that has too few replicas in sync."""
    return request(
        ProduceResponse[9],
        responses=[
            {
                "name": "orders",
                "partition_responses": [
                    {
                        **{"index": 3, "error_code": 19, "base_offset": -1, "log_append_time_ms": -1},
                        **{"log_start_offset": -1, "record_errors": [], "error_message": None},
                    }
                ],
            }
        ],
        throttle_time_ms=0,
    )


def test_an_error_in_an_answer_is_said_with_its_partition_and_its_client():
    wire = Wire().accept().ask(naming(ApiKey.Produce, 9), refused(), client="shop")
    assert said(wire, "shop at 10.0.0.5 got NOT_ENOUGH_REPLICAS from Produce for orders/3")
    assert wire.reader.topics == {"orders"}


def test_errors_that_clients_expect_are_not_said():
    wire = Wire().accept().join(error=79)
    beat = request(BEAT, group_id="billing", generation_id=5, member_id="m1", group_instance_id=None)
    wire.ask(beat, request(HeartbeatResponse[3], throttle_time_ms=0, error_code=27))
    assert not said(wire, "got")


def test_who_spoke_and_about_what_is_found_without_a_word_too():
    found = []
    for silent in (False, True):
        wire = Wire(silent=silent).accept().ask(versions()).join().commit(1200).commit(900).commit(950, error=22)
        read = wire.ask(naming(ApiKey.Produce, 9), refused(), client="shop").reader
        found.append((read.connections, read.topics, read.groups, read.requests))
        assert bool(wire.lines) != silent
    assert found[0] == found[1] and found[0][2] == {"billing": {"orders"}}


def test_a_commit_that_goes_back_is_said_and_one_that_was_refused_does_not_count():
    wire = Wire().accept().join().commit(1200).commit(1500, error=22)
    assert not said(wire, "back from")
    wire.commit(900)
    assert said(wire, "group billing committed orders/3 back from 1,200 to 900", "billing-app")


def test_a_commit_of_a_member_that_is_out_of_the_generation():
    wire = Wire().accept().join().commit(1500, error=22)
    assert said(
        wire, "billing-app at 10.0.0.5 committed for orders/3 and is no longer in the generation of group billing"
    )


@pytest.mark.parametrize(("error", "name"), [(90, "PRODUCER_FENCED"), (47, "INVALID_PRODUCER_EPOCH")])
def test_a_fenced_producer(error, name):
    asked = request(
        InitProducerIdRequest[3], transactional_id="t", transaction_timeout_ms=1, producer_id=5, producer_epoch=1
    )
    answer = request(InitProducerIdResponse[3], throttle_time_ms=0, error_code=error, producer_id=-1, producer_epoch=-1)
    wire = Wire().accept().ask(asked, answer, client="shop")
    assert said(wire, f"a producer of shop at 10.0.0.5 is fenced: {name} from InitProducerId")


def test_the_same_line_again_is_counted_and_said_after_a_time():
    wire = Wire().accept().join().commit(1500, error=22)
    before = len(wire.lines)
    wire.commit(1500, error=22).commit(1500, error=22)
    assert len(wire.lines) == before
    wire.reader.repeat(int(AGAIN_S * 1e6) - 1)
    assert len(wire.lines) == before
    wire.reader.repeat(int(2 * AGAIN_S * 1e6))
    assert len(wire.lines) == before + 1 and "(2 times more in" in wire.lines[-1]


def test_topics_of_a_request_by_id_get_their_names_from_the_cluster():
    wire = Wire().accept()
    wire.reader.learn({TOPIC_ID: "orders"})
    wire.ask(naming(ApiKey.Produce, 13), client="shop")
    assert wire.reader.topics == {"orders"}


def test_frames_of_a_connection_that_was_not_seen_or_cannot_be_read_are_left_to_the_audit():
    wire = Wire().accept()
    wire.ask(versions(), connection=9)
    asked = versions()
    wire.ask(asked, flags=UNKEPT)
    entry = Read(REQUEST, 0, 1, 5, 1, 1, ApiKey.JoinGroup, 99, 0, 20, (), encoded(versions(), 5)[:20])
    wire.reader.read([entry])
    assert not said(wire, "group")
