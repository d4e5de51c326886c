"""The KRaft quorum: its leader, which is the active controller, and how far each voter has read the metadata log.

A broker passes the question on to the controller that it takes for the active one. A controller answers for itself, and
only if it believes to be active.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest

from chaos.kafka import messages
from chaos.kafka.connection import BrokerConnection
from chaos.run.events import now_us


def describe_request(version: int) -> Any:
    """Return the request that describes the quorum. Version 2, of Kafka 3.9, has the directories of the replicas."""
    partitions = [{"partition_index": 0}]
    return messages.request(
        DescribeQuorumRequest[version], topics=[{"topic_name": "__cluster_metadata", "partitions": partitions}]
    )


DESCRIBE_QUORUM = describe_request(0)


@dataclass(frozen=True)
class Quorum:
    """The active controller, its epoch, and the end of the metadata log of each voter as the active one knows it."""

    leader: int
    epoch: int
    ends: Mapping[int, int]


def described(answer: Any) -> Quorum | None:
    """Return the quorum in an answer; None without an answer, or if it is an error."""
    if answer is None or answer.error_code or not answer.topics:
        return None
    quorum = answer.topics[0].partitions[0]
    if quorum.error_code or quorum.leader_id < 0:
        return None
    ends = {int(voter.replica_id): int(voter.log_end_offset) for voter in quorum.current_voters}
    return Quorum(int(quorum.leader_id), int(quorum.leader_epoch), ends)


@dataclass(frozen=True)
class Belief:
    """The answer of one controller about itself. epoch: in which it believes to be active; None if it does not."""

    epoch: int | None
    asked_us: int


def ask_controller(node: int, link: BrokerConnection, timeout_s: float) -> Belief | None:
    """Return what a controller believes; None if it does not answer."""
    asked_us = now_us()
    try:
        quorum = described(link.ask(DESCRIBE_QUORUM, timeout_s))
    except OSError:
        return None
    return Belief(quorum.epoch if quorum and quorum.leader == node else None, asked_us)
