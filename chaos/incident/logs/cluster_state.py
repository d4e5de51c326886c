"""State of the cluster over time: brokers, topics, groups, transactional ids, leaders, coordinators and controllers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from chaos.incident.logs import events as e
from chaos.incident.logs.broker_timeline import BrokerLog, Timeline
from chaos.incident.logs.entries import NO_NODE, Source
from chaos.incident.logs.events import Event
from chaos.kafka.partition import TopicPartition

DEFAULTS = {
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "500",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "zookeeper.session.timeout.ms": "18000",
    "controlled.shutdown.enable": "true",
    "auto.leader.rebalance.enable": "true",
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.max.size": "2147483647",
    "log.flush.interval.messages": "9223372036854775807",
    "log.message.timestamp.type": "CreateTime",
    "transaction.max.timeout.ms": "900000",
    "transactional.id.expiration.ms": "604800000",
}
"""Broker settings that change the effect of a failure, with Kafka's defaults."""
_UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")

Holders = list[tuple[int, int]]
"""Holders of a role by time: pairs of microseconds since the epoch and the node that holds it from then on."""


@dataclass
class Topic:
    """A topic. `is_sized`: the logs name its number of partitions; else `partitions` is the smallest possible."""

    name: str
    partitions: int = 1
    replicas: int = 1
    is_sized: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    source: Source | None = None
    created_us: int | None = None


@dataclass
class Group:
    """A consumer group. `clients` are the client ids of its members, in the order in which they appear."""

    name: str
    members: int = 1
    clients: list[str] = field(default_factory=list)
    present: set[str] = field(default_factory=set)
    """Members at the current event, for the protocol of KIP-848 only."""
    consumer_protocol: bool = False
    source: Source | None = None
    formed_us: int | None = None

    def member_number(self, client: str) -> int:
        """Return the number, from 1, of the scenario's member in the role of this client."""
        return (self.clients.index(client) if client in self.clients else 0) % self.members + 1


@dataclass
class ClusterState:
    """Everything that the logs name. `leaders` are by partition, `coordinators` by group, `replicas` by partition."""

    brokers: list[int]
    version: e.Version | None
    zookeeper: bool
    settings: dict[str, str]
    settings_source: Source | None
    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    transactional_ids: dict[str, Source] = field(default_factory=dict)
    leaders: dict[TopicPartition, Holders] = field(default_factory=dict)
    coordinators: dict[str, Holders] = field(default_factory=lambda: defaultdict(list))
    controllers: Holders = field(default_factory=list)
    replicas: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)

    def led_by(self, broker: int, at_us: int) -> list[TopicPartition]:
        """Return the user partitions that a broker led just before that time, or held as the only replica."""
        known = {p for p, leaders in self.leaders.items() if _at(leaders, at_us) is not None}
        led = {p for p in known if _at(self.leaders[p], at_us) == broker}
        only = {p for p, nodes in self.replicas.items() if nodes == (broker,) and p not in known}
        return sorted(p for p in led | only if not internal(p.topic))

    def followed_by(self, broker: int, at_us: int) -> list[TopicPartition]:
        """Return the user partitions that a broker replicated without leading them."""
        led = set(self.led_by(broker, at_us))
        return sorted(
            p for p, nodes in self.replicas.items() if broker in nodes and p not in led and not internal(p.topic)
        )

    def coordinated_by(self, broker: int, at_us: int) -> list[str]:
        """Return the groups that a broker coordinated just before that time."""
        return sorted(group for group, nodes in self.coordinators.items() if _at(nodes, at_us) == broker)

    def controller(self, at_us: int) -> int | None:
        """Return the active controller just before that time; None if it is unknown."""
        return _at(self.controllers, at_us)

    def changed_settings(self) -> dict[str, str]:
        """Return the broker settings of `DEFAULTS` that are not at their default."""
        return {k: v for k, v in self.settings.items() if k in DEFAULTS and v not in (DEFAULTS[k], "null")}


def internal(topic: str) -> bool:
    """Return whether a topic is internal to Kafka."""
    return topic.startswith("__")


def client_of(member: str) -> str:
    """Return the client id inside a member id; the member id itself if there is none."""
    return _UUID.sub("", member) or member


def read_state(timeline: Timeline) -> ClusterState:
    """Return the state that the events of a timeline describe."""
    versions = timeline.select(e.Version)
    log = next((log for log in timeline.nodes.values() if log.settings), BrokerLog(NO_NODE))
    in_zookeeper = log.settings.get("zookeeper.connect", "null") not in ("null", "") and not _roles(log)
    state = ClusterState(
        brokers=_brokers(timeline),
        version=versions[-1] if versions else None,
        zookeeper=in_zookeeper or bool(timeline.select(e.BrokersChanged, e.ZooKeeperUsed)),
        settings=log.settings,
        settings_source=log.settings_source,
        leaders=_leaders(timeline.events),
        controllers=[(x.at_us, x.node) for x in timeline.select(e.ControllerElected)],
    )
    for event in timeline.events:
        match event:
            case e.TopicCreated() if not internal(event.topic):
                topic = state.topics.setdefault(event.topic, Topic(event.topic))
                topic.source, topic.created_us = event.source, event.at_us
                if event.partitions > 0:
                    topic.partitions, topic.is_sized = max(event.partitions, topic.partitions), True
                topic.replicas = max(topic.replicas, event.replicas)
            case e.PartitionEvent(partition=partition) | e.UncleanElection(partition=TopicPartition() as partition):
                if not internal(partition.topic):
                    _add_partition(state, partition, event)
            case e.GroupEvent():
                _add_to_group(state, event)
            case e.TransactionalIdTaken() | e.TransactionTimedOut():
                state.transactional_ids.setdefault(event.transactional_id, event.source)
    return state


def _roles(log: BrokerLog) -> str:
    return log.settings.get("process.roles", "").strip("[]")


def _brokers(timeline: Timeline) -> list[int]:
    """Return the nodes that lead, follow, are fenced or have a log, without nodes that are only controllers."""
    elected = {x.node for x in timeline.select(e.ControllerElected)}
    nodes = {node for node, log in timeline.nodes.items() if _roles(log) != "controller" and node not in elected}
    for x in timeline.events:
        match x:
            case e.LeaderStarted() | e.FollowerStarted():
                nodes |= {x.node}
            case e.PartitionPlaced():
                nodes |= {*x.replicas}
            case e.BrokerFenced() | e.BrokerUnfenced():
                nodes |= {x.broker}
            case e.BrokersChanged():
                nodes |= {*x.added, *x.deleted, *x.bounced, *x.live}
            case e.IsrShrunk():
                nodes |= {*x.before}
    nodes -= {node for node, log in timeline.nodes.items() if _roles(log) == "controller"}
    return sorted(node for node in nodes if node >= 0) or sorted(timeline.nodes)


def _add_partition(state: ClusterState, partition: TopicPartition, event: Event) -> None:
    topic = state.topics.setdefault(partition.topic, Topic(partition.topic, source=event.source))
    topic.partitions = max(topic.partitions, partition.number + 1)
    match event:
        case e.PartitionPlaced():
            topic.replicas = max(topic.replicas, len(event.replicas))
            topic.is_sized = True  # the controller logs all partitions of a new topic at once
            state.replicas[partition] = event.replicas
        case e.LeaderStarted() | e.LeaderChosen() | e.IsrUpdated() | e.IsrShrunk():
            topic.replicas = max(topic.replicas, len(event.isr))
            if len(event.isr) > len(state.replicas.get(partition, ())):
                state.replicas[partition] = event.isr
        case e.ReplicaLoaded():
            holders = {*state.replicas.get(partition, ()), event.node}
            topic.replicas = max(topic.replicas, len(holders))
            state.replicas[partition] = tuple(sorted(holders))
        case e.LogCreated():
            pairs = (pair.partition("=") for pair in event.properties.split(", "))
            topic.properties |= {key.strip(): value for key, _, value in pairs if value}


def _add_to_group(state: ClusterState, event: e.GroupEvent) -> None:
    if event.node == NO_NODE:
        return
    group = state.groups.setdefault(event.group, Group(event.group, source=event.source))
    state.coordinators[event.group].append((event.at_us, event.node))
    if isinstance(event, e.RebalanceDone):
        group.members = max(group.members, event.members)
        group.formed_us = event.at_us if group.formed_us is None else group.formed_us
        group.source = event.source
    elif isinstance(event, e.MemberEvent):
        if (client := client_of(event.member)) not in group.clients:
            group.clients.append(client)
        if "[GroupId " in event.source.text:  # only the protocol of KIP-848 writes groups like this
            group.consumer_protocol = True
            (group.present.add if isinstance(event, e.MemberJoined) else group.present.discard)(event.member)
            group.members = max(group.members, len(group.present))
            group.formed_us = event.at_us if group.formed_us is None else group.formed_us


def _leaders(events: Iterable[Event]) -> dict[TopicPartition, Holders]:
    """Return the leaders of each partition; each leader epoch counts once, at its first event."""
    first: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
    leaders: dict[TopicPartition, Holders] = defaultdict(list)
    for x in events:
        match x:
            case e.PartitionPlaced(leader=leader) if leader >= 0:
                first.setdefault((x.partition, 0), (x.at_us, leader))
            case e.LeaderStarted():
                first.setdefault((x.partition, x.leader_epoch), (x.at_us, x.node))
                if x.previous_leader >= 0 and x.previous_epoch >= 0 and x.partition not in leaders:
                    leaders[x.partition].append((0, x.previous_leader))
            case e.FollowerStarted(leader=leader) | e.LeaderChosen(leader=leader) if leader >= 0:
                first.setdefault((x.partition, x.leader_epoch), (x.at_us, leader))
    for (partition, _), holder in sorted(first.items(), key=lambda item: item[1][0]):
        leaders[partition].append(holder)
    return dict(leaders)


def _at(holders: Holders, at_us: int) -> int | None:
    index = bisect_right(holders, (at_us, -1)) - 1
    return holders[index][1] if index >= 0 else None
