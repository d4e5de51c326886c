"""What brokers, controllers and ZooKeeper report about a migration from ZooKeeper to KRaft."""

from __future__ import annotations

import json
from typing import Any

from chaos.cluster.api import able
from chaos.cluster.migration import Migrate, Mode
from chaos.errors import AftershockError
from chaos.faults.base import World
from chaos.kafka.described_settings import broker_settings
from chaos.kafka.partition import TopicPartition

CONTROLLER, PROGRESS = "/controller", "/migration"
"""The znodes with the node that controls the cluster, and with the progress of the migration."""
_ROLES, _CONNECT, _ENABLED = "process.roles", "zookeeper.connect", "zookeeper.metadata.migration.enable"
_ASKED = (_ROLES, _CONNECT, _ENABLED)

Leader = tuple[int, int]
"""The leader of a partition, and its leader epoch."""


def modes(world: World) -> dict[int, Mode] | None:
    """Return the mode that each broker describes; None if one does not answer."""
    try:
        return {broker: _mode(broker, world) for broker in world.cluster.broker_ids}
    except AftershockError:
        return None


def _mode(broker: int, world: World) -> Mode:
    found = {name: setting.value for name, setting in broker_settings(world.kafka, broker, _ASKED).items()}
    if not found.get(_CONNECT) and found.get(_ROLES):
        return "kraft"
    return "migration" if found.get(_ENABLED) == "true" else "zookeeper"


def controlling(world: World) -> int | None:
    """Return the node that ZooKeeper names as the controller; None if it names none."""
    found = _znode(CONTROLLER, world)
    return int(found["brokerid"]) if found else None


def progress(world: World) -> dict[str, Any] | None:
    """Return the progress of the migration as ZooKeeper has it; None if no metadata is copied.

    Controllers that wait for the brokers write it, too, without an offset.
    """
    found = _znode(PROGRESS, world)
    return found if found and found["kraft_metadata_offset"] >= 0 else None


def leaders(world: World) -> dict[TopicPartition, Leader]:
    """Return the leader of each partition of the run's topics, as brokers answer; empty without an answer."""
    metadata, topics = world.kafka.metadata(), {t.name for t in world.scenario.topics}
    partitions = metadata.partitions if metadata else {}
    return {p: (s.leader, s.leader_epoch) for p, s in sorted(partitions.items()) if p.topic in topics}


def leader_in_zookeeper(partition: TopicPartition, world: World) -> Leader | None:
    """Return the leader that ZooKeeper has of a partition; None if it does not know the partition."""
    found = _znode(f"/brokers/topics/{partition.topic}/partitions/{partition.number}/state", world)
    return (int(found["leader"]), int(found["leader_epoch"])) if found else None


def _znode(path: str, world: World) -> dict[str, Any] | None:
    text = able(world.cluster, Migrate).znode(path)
    found: dict[str, Any] | None = json.loads(text) if text else None
    return found
