"""Racks: the placement of replicas, and the count of fetches by broker."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.drive.drive import fetches, placement_problems
from chaos.kafka.metadata import Metadata, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario

SCENARIO = """
title: t
cluster: {brokers: 4, racks: [a, b]}
topics: [{name: orders, replication_factor: 2}]
producers: [{name: shop, topic: orders, records: 100}]
consumers:
  - {mode: subscribe, name: near, group: near, members: 2, rack: a, topics: [orders]}
  - {mode: subscribe, name: plain, group: plain, topics: [orders]}
"""


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return parse(SCENARIO, "t")


@pytest.mark.parametrize(
    ("replicas", "problems"),
    [
        ((1, 2), []),
        ((1, 3), ["the replicas of orders/0 are on brokers [1, 3], in racks a, a"]),
        ((1, 2, 3), []),  # three replicas in two racks
        ((3,), []),
    ],
)
def test_replicas_are_spread_over_the_racks(scenario: Scenario, replicas: tuple[int, ...], problems: list[str]) -> None:
    other = TopicPartition("__other", 0)
    states = {p: PartitionState(1, 0, replicas, replicas) for p in (TopicPartition("orders", 0), other)}
    assert list(placement_problems(scenario, Metadata({}, states), ["orders"])) == problems


def test_fetches_are_counted_by_entry_and_broker(scenario: Scenario) -> None:
    status: dict[str, Any] = {
        "ports": [
            {"broker": 1, "fetches": {"near/1": 5, "near/2": 2, "plain/1": 7}},
            {"broker": 2, "fetches": {"near/2": 1, "shop/1": 3}},
        ]
    }
    assert fetches(scenario, status) == {"near": {"1": 7, "2": 1}}
