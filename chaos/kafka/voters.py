"""The members of a dynamic KRaft quorum, and the requests that change them (KIP-853, Kafka 3.9).

A voter is a node with a directory: a controller that gets another disk is another voter. An observer reads the metadata
log without a vote; every broker is one. Brokers forward all these requests to the active controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from chaos.kafka.admin import AdminRequest, any_broker
from chaos.kafka.client import Kafka, describe_request, described
from chaos.kafka.messages import request
from chaos.kafka.schemas import AddRaftVoterRequest, RemoveRaftVoterRequest

_DESCRIBE = describe_request(2)
_TIMEOUT_MS = 10_000
_DUPLICATE_VOTER, _VOTER_NOT_FOUND = 126, 127


@dataclass(frozen=True)
class Replica:
    """One node that reads the metadata log: its directory, and the end of its log as the active controller knows it."""

    directory: UUID
    end: int


@dataclass(frozen=True)
class Members:
    """The active controller, its epoch, and the voters and observers by node ID."""

    leader: int
    epoch: int
    voters: Mapping[int, Replica]
    observers: Mapping[int, Replica]


def members(kafka: Kafka) -> Members | None:
    """Return the members of the quorum; None if no broker reaches an active controller."""
    answer = kafka.ask_any(_DESCRIBE)
    quorum = described(answer)
    if quorum is None:
        return None
    found = answer.topics[0].partitions[0]
    return Members(quorum.leader, quorum.epoch, _replicas(found.current_voters), _replicas(found.observers))


def _replicas(states: Iterable[Any]) -> dict[int, Replica]:
    """Return replicas by node ID. A node that lost its disk is listed twice for a while: the later one counts."""
    ordered = sorted(states, key=lambda state: state.last_fetch_timestamp)
    return {int(s.replica_id): Replica(s.replica_directory_id, int(s.log_end_offset)) for s in ordered}


def add(kafka: Kafka, node: int, directory: UUID, listener: str, address: str) -> None:
    """Make an observer a voter. One that is a voter already counts as added. Raises `ClusterError`."""
    host, _, port = address.rpartition(":")
    message = request(
        AddRaftVoterRequest[0],
        cluster_id=None,
        timeout_ms=_TIMEOUT_MS,
        voter_id=node,
        voter_directory_id=directory,
        listeners=[{"name": listener, "host": host, "port": int(port)}],
    )
    AdminRequest(f"add the voter {node}", message, any_broker, frozenset({_DUPLICATE_VOTER})).apply(kafka)


def remove(kafka: Kafka, node: int, directory: UUID) -> None:
    """Make a voter an observer. One that is no voter counts as removed. Raises `ClusterError`."""
    message = request(RemoveRaftVoterRequest[0], cluster_id=None, voter_id=node, voter_directory_id=directory)
    AdminRequest(f"remove the voter {node}", message, any_broker, frozenset({_VOTER_NOT_FOUND})).apply(kafka)
