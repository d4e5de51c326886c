"""Unit: where partitioners promise records to lie."""

import zlib

import numpy as np
import pytest
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from checks.audit.facts.routes import murmur2, promised, routes

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
    assert routes(scenario(), {"orders": 7}) == {
        "java": ("murmur2", 7),
        "library": ("crc32", 7),
        "turns": ("seq", 7),
        "own": ("key number", 7),
    }
    assert routes(scenario(), {"orders": 8}) == {}  # partitions were added


def test_the_promised_partition_of_each_record() -> None:
    keys, key, seq = ["k3", "k10"], np.array([0, 1, 1]), np.array([4, 5, 13])
    assert promised("seq", 7, keys, key, seq).tolist() == [4, 5, 6]
    assert promised("key number", 7, keys, key, seq).tolist() == [3, 3, 3]
    crcs = [zlib.crc32(text.encode()) % 7 for text in keys]
    assert promised("crc32", 7, keys, key, seq).tolist() == [crcs[0], crcs[1], crcs[1]]
