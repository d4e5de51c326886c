"""What there was: brokers, topics, groups, transactional ids, and who led and coordinated what at which time."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

from chaos.incident.logs import events as e
from chaos.incident.logs.events import Event, Source
from chaos.incident.logs.files import NOT_A_BROKER
from chaos.incident.logs.history import History

_UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


@dataclass
class Topic:
    """A topic. `sized` says whether its number of partitions was told; else it is the highest that was seen."""

    name: str
    partitions: int = 1
    replicas: int = 1
    sized: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    source: Source | None = None
    created_us: int | None = None


@dataclass
class Group:
    """A consumer group. `clients` are its members by client id, in the order in which they came."""

    name: str
    members: int = 1
    clients: list[str] = field(default_factory=list)
    present: set[str] = field(default_factory=set)
    """Members that are there, while the logs are gone through; of the protocol of KIP-848 only."""
    consumer_protocol: bool = False
    source: Source | None = None
    formed_us: int | None = None

    def number(self, member: str) -> int:
        """Which of the scenario's members stands for this one, counted from 1."""
        client = client_of(member)
        return (self.clients.index(client) if client in self.clients else 0) % self.members + 1


@dataclass
class Inventory:
    """Everything that the logs name."""

    brokers: list[int]
    version: str | None
    version_source: Source | None
    zookeeper: bool
    topics: dict[str, Topic]
    groups: dict[str, Group]
    transactional_ids: dict[str, Source]
    settings: dict[str, str]
    settings_source: Source | None
    leaders: dict[str, list[tuple[int, int]]]
    """By partition: since when who leads it."""
    coordinators: dict[str, list[tuple[int, int]]]
    controllers: list[tuple[int, int]]
    replicas: dict[str, tuple[int, ...]]

    def led_by(self, broker: int, at_us: int) -> list[str]:
        """The partitions of users' topics that a broker led just before that."""
        return sorted(p for p, since in self.leaders.items() if not internal(p) and _at(since, at_us) == broker)

    def leader(self, partition: str, at_us: int) -> int | None:
        """Who led a partition just before that; None if it is not known."""
        return _at(self.leaders.get(partition, []), at_us)

    def coordinated_by(self, broker: int, at_us: int) -> list[str]:
        """The groups that a broker coordinated just before that."""
        return sorted(g for g, since in self.coordinators.items() if _at(since, at_us) == broker)

    def controller(self, at_us: int) -> int | None:
        """The active controller just before that."""
        return _at(self.controllers, at_us)

    def followed_by(self, broker: int, at_us: int) -> list[str]:
        """The partitions of users' topics of which a broker held a replica without leading it."""
        led = set(self.led_by(broker, at_us))
        return sorted(p for p, who in self.replicas.items() if broker in who and p not in led and not internal(p))

    def settings_of_interest(self) -> dict[str, str]:
        """What the broker's settings say of how it copes with failures, where that is not Kafka's default."""
        return {k: v for k, v in self.settings.items() if k in DEFAULTS and v not in (DEFAULTS[k], "null")}


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
"""Broker settings that change what a failure does, with Kafka's defaults."""


def internal(name: str) -> bool:
    """Whether a topic or partition is Kafka's own."""
    return name.startswith("__")


def client_of(member: str) -> str:
    """The client id inside a member id; the member id itself where there is none."""
    return _UUID.sub("", member) or member


def take(history: History) -> Inventory:
    """Go through everything once."""
    versions = [x for x in history.events if isinstance(x, e.Version)]
    settled = next((n for n in history.nodes.values() if n.settings), None)
    settings = settled.settings if settled else {}
    zookeeper = any(isinstance(x, e.BrokersChanged) for x in history.events)
    if settings.get("zookeeper.connect", "null") not in ("null", "") and not settings.get("process.roles", "").strip(
        "[]"
    ):
        zookeeper = True
    found = Inventory(
        brokers=_brokers(history),
        version=versions[-1].version if versions else None,
        version_source=versions[-1].source if versions else None,
        zookeeper=zookeeper,
        topics={},
        groups={},
        transactional_ids={},
        settings=settings,
        settings_source=settled.settings_source if settled else None,
        leaders={},
        coordinators={},
        controllers=[(x.at_us, x.node) for x in history.events if isinstance(x, e.ControllerElected)],
        replicas={},
    )
    for event in history.events:
        _topic(found, event)
        _group(found, event)
        if isinstance(event, e.TransactionalIdTaken | e.TransactionTimedOut):
            found.transactional_ids.setdefault(event.transactional_id, event.source)
    found.leaders = _leaders(history.events)
    return found


def _brokers(history: History) -> list[int]:
    """Whoever leads, follows, is fenced, or has a log; a node that is only a controller is none."""
    elected = {x.node for x in history.events if isinstance(x, e.ControllerElected)}
    roles = {node: log.settings.get("process.roles", "").strip("[]") for node, log in history.nodes.items()}
    named = {node for node in history.nodes if roles[node] != "controller" and node not in elected}
    for x in history.events:
        match x:
            case e.LeaderStarted() | e.FollowerStarted():
                named |= {x.node}
            case e.PartitionPlaced():
                named |= set(x.replicas)
            case e.BrokerFenced() | e.BrokerUnfenced():
                named |= {x.broker}
            case e.BrokersChanged():
                named |= {*x.added, *x.deleted, *x.bounced, *x.live}
            case e.IsrShrunk():
                named |= {*x.before}
    only_controllers = {node for node, role in roles.items() if role == "controller"}
    return sorted(n for n in named - only_controllers if n >= 0) or sorted(history.nodes)


def _topic(found: Inventory, event: Event) -> None:
    partition = getattr(event, "partition", "")
    name = event.topic if isinstance(event, e.TopicCreated) else partition.rpartition("/")[0]
    if not name or internal(name):
        return
    topic = found.topics.setdefault(name, Topic(name, source=event.source))
    if isinstance(event, e.TopicCreated):
        topic.source, topic.created_us = event.source, event.at_us
        if event.partitions > 0:
            topic.partitions, topic.sized = max(event.partitions, topic.partitions), True
        topic.replicas = max(topic.replicas, event.replicas)
        return
    topic.partitions = max(topic.partitions, int(partition.rpartition("/")[2]) + 1)
    if isinstance(event, e.PartitionPlaced):
        topic.replicas = max(topic.replicas, len(event.replicas))
        found.replicas[partition] = event.replicas
        topic.sized = True  # each partition of it is told at once
    elif isinstance(event, e.LeaderStarted | e.LeaderChosen | e.IsrUpdated | e.IsrShrunk):
        topic.replicas = max(topic.replicas, len(event.isr))
        if len(event.isr) > len(found.replicas.get(partition, ())):
            found.replicas[partition] = event.isr
    elif isinstance(event, e.LogCreated) and event.properties:
        pairs = (pair.partition("=") for pair in event.properties.split(", "))
        topic.properties |= {key.strip(): value for key, _, value in pairs if value}


def _group(found: Inventory, event: Event) -> None:
    name = getattr(event, "group", None)
    if name is None or event.node == NOT_A_BROKER:
        return
    group = found.groups.setdefault(name, Group(name, source=event.source))
    found.coordinators.setdefault(name, []).append((event.at_us, event.node))
    member = getattr(event, "member", None)
    if member and client_of(member) not in group.clients:
        group.clients.append(client_of(member))
    if isinstance(event, e.RebalanceDone):
        group.members = max(group.members, event.members)
        group.formed_us = group.formed_us or event.at_us
        group.source = event.source
    elif member and "[GroupId " in event.source.text:  # the protocol of KIP-848 names groups so
        group.consumer_protocol = True
        (group.present.add if isinstance(event, e.MemberJoined) else group.present.discard)(member)
        group.members = max(group.members, len(group.present))
        group.formed_us = group.formed_us or event.at_us


def _leaders(events: list[Event]) -> dict[str, list[tuple[int, int]]]:
    """By partition, since when who leads it: each change of leader counts once, when it was first seen."""
    first: dict[tuple[str, int], tuple[int, int]] = {}
    before: dict[str, tuple[int, int]] = {}
    for x in events:
        if isinstance(x, e.PartitionPlaced) and x.leader >= 0:
            first.setdefault((x.partition, 0), (x.at_us, x.leader))
        elif isinstance(x, e.LeaderStarted):
            first.setdefault((x.partition, x.leader_epoch), (x.at_us, x.node))
            if x.previous_leader >= 0 and x.previous_epoch >= 0:
                before.setdefault(x.partition, (0, x.previous_leader))
        elif isinstance(x, e.FollowerStarted | e.LeaderChosen) and x.leader >= 0:
            first.setdefault((x.partition, x.leader_epoch), (x.at_us, x.leader))
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for partition, at in before.items():
        found[partition].append(at)
    for (partition, _), at in sorted(first.items(), key=lambda item: item[1][0]):
        found[partition].append(at)
    return dict(found)


def _at(since: list[tuple[int, int]], at_us: int) -> int | None:
    place = bisect_right(since, (at_us, -1)) - 1
    return since[place][1] if place >= 0 else None
