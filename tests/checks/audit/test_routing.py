"""Unit: where partitioners promise records to lie."""

import zlib

import numpy as np
import pytest
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from checks.audit.facts.routes import Route, murmur2, promised, routes

PRODUCERS = """
title: t
topics: [{name: orders, partitions: 7}]
producers:
  - {name: java, topic: orders, keys: 9, partitioner: murmur2_random}
  - {name: library, topic: orders, keys: 9, config: {partitioner: consistent}}
  - {name: turns, topic: orders, partitioner: round_robin}
  - {name: own, topic: orders, keys: 9, partitioner: by_key_number}
  - {name: keyless, topic: orders, partitioner: murmur2_random}
  - {name: sticky, topic: orders, partitioner: sticky}
  - {name: plain, topic: orders, keys: 9}
"""


def scenario() -> Scenario:
    return parse(PRODUCERS, "x")


@pytest.mark.parametrize("key", [b"", b"a", b"ab", b"abc", b"abcd", b"k12345", "schlüssel".encode()])
def test_murmur2_is_the_one_of_kafkas_clients(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0x7FFFFFFF


def test_what_promises_a_partition_and_what_does_not() -> None:
    seven = {7: 0}
    assert routes(scenario(), {"orders": 7}) == {
        "java": Route("murmur2", seven),
        "library": Route("crc32", seven),
        "turns": Route("seq", seven),
        "own": Route("key number", seven),
    }


def test_the_same_producers_promise_a_partition_whatever_happens_to_the_topic() -> None:
    """What a check can examine follows from the scenario alone, also if partitions are added or nothing is read."""
    promising = routes(scenario()).keys()
    for partitions in ({}, {"orders": 7}, {"orders": 8}, {"orders": 3}):
        assert routes(scenario(), partitions).keys() == promising


def test_partitions_that_were_added_are_promised_from_then_on() -> None:
    more = "{name: more, kind: topic.add_partitions, target: {topic: orders}, to: 9, when: {acked: 1}}"
    grown = parse(f"{PRODUCERS}faults: [{more}]", "x")
    rows = [{"fault": "more", "at_us": at_us} for at_us in (50, 40, 60)]
    assert routes(grown, {"orders": 9}, rows)["turns"].counts == {7: 0, 9: 40}
    assert routes(grown, {"orders": 7}, [])["turns"].counts == {7: 0}  # it never came
    assert routes(grown, {"orders": 11}, rows)["turns"].counts == {7: 0, 9: 40, 11: 0}  # nobody knows when


def test_the_promised_partition_of_each_record() -> None:
    keys, key, seq = ["k3", "k10"], np.array([0, 1, 1]), np.array([4, 5, 13])
    assert promised("seq", 7, keys, key, seq).tolist() == [4, 5, 6]
    assert promised("key number", 7, keys, key, seq).tolist() == [3, 3, 3]
    crcs = [zlib.crc32(text.encode()) % 7 for text in keys]
    assert promised("crc32", 7, keys, key, seq).tolist() == [crcs[0], crcs[1], crcs[1]]
