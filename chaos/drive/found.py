"""What a fault reads of a scenario, for a cluster that no scenario describes: the cluster is asked for it."""

from __future__ import annotations

from typing import Any

from chaos.cluster.api import Cluster
from chaos.faults.base import FaultSpec
from chaos.kafka.admin import topic_settings
from chaos.kafka.client import Kafka
from chaos.kafka.metadata import Metadata
from chaos.kafka.settings import Config
from chaos.scenario.model import Scenario
from chaos.scenario.setting_rules import TOPIC
from chaos.setup import model as setup
from chaos.setup.clients import Subscribe
from chaos.setup.model import Topic


def as_found(cluster: Cluster, metadata: Metadata, spec: FaultSpec, kafka: Kafka) -> Scenario:
    """Return what a fault reads of a scenario: the topics that the cluster has, and what the target's group reads."""
    counts: dict[str, int] = {}
    for partition in metadata.partitions:
        counts[partition.topic] = counts.get(partition.topic, 0) + 1
    topics = [
        Topic.model_construct(
            name=name,
            partitions=count,
            replication_factor=min(len(s.replicas) for p, s in metadata.partitions.items() if p.topic == name),
            config=_own_settings(kafka, name) if name == spec.target.topic else {},
        )
        for name, count in counts.items()
        if not name.startswith("__")
    ]
    made = setup.Cluster.model_construct(
        driver=cluster.state.driver,
        brokers=len(cluster.broker_ids),
        controllers=len(cluster.controller_ids) or None,
        metadata="zookeeper" if cluster.state.zookeeper else "kraft",
    )
    parts: dict[str, Any] = {"producers": [], "consumers": [], "processors": []}
    if group := spec.target.group:
        committed = kafka.committed(group, [p for p in metadata.partitions if not p.topic.startswith("__")]) or {}
        read = sorted({p.topic for p in committed})
        parts["consumers"] = [Subscribe.model_construct(mode="subscribe", name="group", group=group, topics=read)]
    return Scenario.model_construct(title="found", cluster=made, topics=topics, faults=[spec], **parts)


def _own_settings(kafka: Kafka, topic: str) -> Config:
    """Return the settings of a topic itself, so that the same one can be created again."""
    names = [name for source in TOPIC for name in source.names()]
    return {n: s.value for n, s in topic_settings(kafka, topic, names).items() if s.level == "topic"}
