"""Answers of the coordinators of share groups, as plain data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from chaos.kafka.client import SharePosition, has_share_groups, share_coordinator, share_positions
from chaos.kafka.partition import TopicPartition
from chaos.kafka.schemas import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeResponse,
)

ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


class Kafka:
    """A cluster whose coordinator, broker 2, gives one answer."""

    def __init__(self, answer: Any, coordinator: int | None = 2) -> None:
        self.answer, self.known, self.asked = answer, coordinator, []

    def coordinator(self, group: str) -> int | None:
        return self.known

    def metadata(self) -> Any:
        return SimpleNamespace(topic_ids={"orders": "abc"})

    def supports(self, api: int, version: int) -> bool:
        return (api, version) == (90, 1) and self.known is not None

    def ask(self, broker: int, request: Any) -> Any:
        self.asked.append((broker, request))
        return self.answer

    def ask_any(self, request: Any) -> Any:
        return self.ask(0, request)


def positions(**partition: Any) -> Any:
    part = {"partition_index": 0, "start_offset": 5, "lag": 3, "error_code": 0} | partition
    topic = SimpleNamespace(topic_name="orders", partitions=[SimpleNamespace(**part)])
    return SimpleNamespace(groups=[SimpleNamespace(error_code=0, topics=[topic])])


def test_positions_have_start_and_lag_as_far_as_the_broker_knows_them() -> None:
    assert share_positions(Kafka(positions()), "g", ORDERS) == {ORDERS[0]: SharePosition(5, 3)}
    assert share_positions(Kafka(positions(start_offset=-1, lag=-1)), "g", ORDERS) == {
        ORDERS[0]: SharePosition(None, None)
    }
    assert share_positions(Kafka(positions(error_code=3)), "g", ORDERS) == {}
    assert share_positions(Kafka(None), "g", ORDERS) is None
    assert share_positions(Kafka(positions(), coordinator=None), "g", ORDERS) is None


def test_the_request_names_each_partition_once() -> None:
    kafka = Kafka(positions())
    share_positions(kafka, "g", ORDERS)
    ((broker, request),) = kafka.asked
    assert broker == 2 and request.API_KEY == DescribeShareGroupOffsetsRequest.API_KEY == 90
    assert request.groups[0].topics[0].partitions == [0, 1]
    assert DescribeShareGroupOffsetsResponse.API_KEY == 90 and ShareGroupDescribeResponse.API_KEY == 77


def test_brokers_with_the_feature_at_0_refuse_share_groups_although_they_list_the_requests() -> None:
    assert has_share_groups(Kafka(positions()), "g")
    assert has_share_groups(Kafka(SimpleNamespace(groups=[SimpleNamespace(error_code=69)])), "g")
    assert not has_share_groups(Kafka(SimpleNamespace(groups=[SimpleNamespace(error_code=35)])), "g")
    assert not has_share_groups(Kafka(positions(), coordinator=None), "g")


def test_the_share_coordinator_is_asked_for_by_group_topic_id_and_partition() -> None:
    kafka = Kafka(SimpleNamespace(coordinators=[SimpleNamespace(error_code=0, node_id=3)]))
    assert share_coordinator(kafka, "g", ORDERS[1]) == 3
    ((_, request),) = kafka.asked
    assert (request.key_type, request.coordinator_keys) == (2, ["g:abc:1"])
    refused = Kafka(SimpleNamespace(coordinators=[SimpleNamespace(error_code=15, node_id=-1)]))
    assert share_coordinator(refused, "g", ORDERS[1]) is None
