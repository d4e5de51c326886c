"""What the faults of a scenario do: to brokers, to a topic, and to one client."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import get_args

from chaos.faults.base import Effect, FaultSpec
from chaos.faults.clients import ClientFaultSpec, TaskManagerKillSpec
from chaos.faults.clocks import ClockFaultSpec
from chaos.faults.consumers import ConsumerLeaveSpec
from chaos.faults.groups import ResetOffsetsSpec, ResetShareOffsetsSpec
from chaos.faults.replicas import ReassignSpec
from chaos.faults.wire import FrameFaultSpec, MemberApi, OffsetApi, RecordApi, ShareApi, TransactionApi, WireFaultSpec
from chaos.guarantees.table import FAULT_FACTS, PREFIX
from chaos.guarantees.values import Facts, Setting
from chaos.kafka.partition import TopicPartition
from chaos.scenario.model import Scenario
from chaos.setup.clients import Entry

_WRITES = {None, "Produce", "Metadata", "ApiVersions"}
_OF_READERS = (RecordApi, OffsetApi, MemberApi, ShareApi)
_READS: set[str | None] = {None, *(api for apis in _OF_READERS for api in get_args(apis))} - {"Produce"}
_TRANSACTIONS = set(get_args(TransactionApi))
_PARTITIONS = ("leader_of", "followers_of", "follower_of", "isr_of", "partition")
_OF_BROKERS: tuple[Effect, ...] = ("outage", "crash", "wipes", "elections", "unclean", "reassigns")


def fact(name: str, faults: Iterable[FaultSpec]) -> Facts:
    """Return whether there are faults with an effect, as one fact; its origin names them."""
    if name not in FAULT_FACTS:
        raise ValueError(f"no rule knows the effect {name}; add it to FAULT_FACTS")
    found = list(faults)
    origin = ", ".join(f"{f.name} ({f.kind})" for f in found)
    return {f"{PREFIX}{name}": Setting(name, "true" if found else "false", origin, bool(found))}


def having(faults: Iterable[FaultSpec], *effects: Effect) -> list[FaultSpec]:
    """Return the faults that have one of these effects."""
    return [fault for fault in faults if not fault.breaks.isdisjoint(effects)]


def of_data(scenario: Scenario) -> list[FaultSpec]:
    """Return the faults without faults of dedicated controllers and of clients' clocks: data goes on without them."""
    dedicated = bool(scenario.cluster.controllers)
    clients = clocks_of_clients(scenario.faults)
    return [f for f in scenario.faults if f not in clients and not (dedicated and f.target.picks_controllers)]


def clocks_of_clients(faults: Iterable[FaultSpec]) -> list[FaultSpec]:
    """Return the faults that change the clock of a client."""
    return [fault for fault in faults if isinstance(fault, ClockFaultSpec) and fault.client]


def topic_of(fault: FaultSpec) -> str | None:
    """Return the topic that a fault targets, also by a partition; None if it targets something else."""
    _, value = fault.target.selector
    if fault.target.topic is not None:
        return str(fault.target.topic)
    is_partition = isinstance(value, str) and fault.target.selector[0] in _PARTITIONS
    return TopicPartition.parse(value).topic if is_partition else None


def topic_faults(scenario: Scenario, topic: str, replicas: int, flushes: bool) -> Facts:
    """Return the facts about faults of brokers, and of one topic.

    replicas: of the topic. flushes: whether each record is on disk before it is acknowledged, so that a power loss
    removes none. hits: how many replicas of one partition the faults may take out of the ISR or down, in total.
    """
    faults = of_data(scenario)
    own = [f for f in faults if topic_of(f) == topic]
    facts: Facts = {}
    for name in _OF_BROKERS:
        facts |= fact(name, having(faults, name))
    power = [] if flushes else having(own, "power")
    outages = having(faults, "outage")
    facts |= fact("any", faults)
    facts |= fact("elections", [f for f in having(faults, "outage", "elections") if _concerns(f, topic)])
    facts |= fact("reassigns", having(own, "reassigns"))
    facts |= fact("unclean", having(own, "unclean"))
    facts |= fact("disk", [*having(faults, "wipes"), *power])
    facts |= fact("everywhere", [f for f in power if f.target.isr_of is not None])
    for name in ("recreates", "deletes", "adds"):
        facts |= fact(name, having(own, name))
    racks = len(scenario.cluster.racks) if not having(faults, "reassigns") else 1
    hits = sum(_hits(f, replicas, racks) for f in outages)
    names = facts[f"{PREFIX}outage"].origin
    return facts | {f"{PREFIX}hits": Setting("hits", str(hits), names, bool(hits))}


def _concerns(fault: FaultSpec, topic: str) -> bool:
    """Return whether a fault may change leaders of a topic: elections and reassignments change one topic only."""
    return "outage" in fault.breaks or topic_of(fault) == topic


def _hits(fault: FaultSpec, replicas: int, racks: int) -> int:
    """Return how many replicas of a partition one fault may take down, or out of the ISR, at a time.

    racks: the number of racks over which the replicas are spread.
    """
    selector, _ = fault.target.selector
    if fault.target.controllers is not None:  # of brokers that are controllers too
        return replicas
    if "one_by_one" in fault.breaks:
        return 1
    several = {"followers_of": max(replicas - 1, 1), "isr_of": replicas, "all_brokers": replicas}
    return several.get(selector, math.ceil(replicas / max(1, racks)) if selector == "rack" else 1)


def replicas_after(scenario: Scenario, topic: str, replicas: int) -> int:
    """Return the smallest number of replicas that a partition of a topic has in the run."""
    reassigned = [f.to for f in scenario.faults if isinstance(f, ReassignSpec) and topic_of(f) == topic and f.to]
    return min([replicas, *map(len, reassigned)])


def on_wire(scenario: Scenario, names: Iterable[str], writes: bool, reads: bool, transactions: bool) -> list[FaultSpec]:
    """Return the faults of the wire that concern a client: by its client ids, and by the requests that it sends."""
    ids = list(names)
    apis = (_WRITES if writes else set()) | (_READS if reads else set()) | (_TRANSACTIONS if transactions else set())
    return [
        f
        for f in scenario.faults
        if isinstance(f, WireFaultSpec)
        and f.breaks  # frames of an application are none of a client's
        and (
            not isinstance(f, FrameFaultSpec)
            or (f.api in apis and any(fnmatchcase(client, f.client) for client in ids))
        )
    ]


def client_faults(scenario: Scenario, entries: Iterable[Entry], group: str | None = None) -> list[FaultSpec]:
    """Return the faults of the processes of some entries, or of members of a group."""
    names = {entry.name for entry in entries}
    return [f for f in scenario.faults if _targets(f, names, group)]


def _targets(fault: FaultSpec, names: set[str], group: str | None) -> bool:
    if isinstance(fault, TaskManagerKillSpec):
        return str(fault.target.selector[1]).partition("/")[0] in names
    if isinstance(fault, ClockFaultSpec):
        return fault.client in names
    if not isinstance(fault, ClientFaultSpec):
        return False
    if fault.target.random_member_of is not None:
        return fault.target.random_member_of == group
    return fault.client_name() in names


def group_facts(scenario: Scenario, group: str | None) -> Facts:
    """Return the facts about faults of the committed offsets of a group."""
    own = [f for f in scenario.faults if group is not None and f.target.group == group]
    resets = [f for f in own if isinstance(f, ResetOffsetsSpec | ResetShareOffsetsSpec)]
    facts = fact("resets", resets) | fact("sets_back", [f for f in resets if f.to != "latest"])
    facts |= fact("sets_forward", [f for f in resets if f.to != "earliest"])
    return facts | fact("forgets", having(own, "forgets"))


def deserts(scenario: Scenario, entries: Iterable[Entry]) -> Iterator[FaultSpec]:
    """Yield the faults after which no member of some entries is left; none if one stays."""
    members = {f"{e.name}/{n}" for e in entries for n in range(1, getattr(e, "members", 1) + 1)}
    leaving = [f for f in scenario.faults if isinstance(f, ConsumerLeaveSpec) and f.for_good]
    left = {str(f.target.member) for f in leaving if f.target.member is not None}
    unknown = [f for f in leaving if f.target.member is None]
    if members and len(members - left) <= len(unknown):
        yield from leaving
