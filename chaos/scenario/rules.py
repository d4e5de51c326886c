"""Rules that tie the parts of a scenario together.

Each function yields one message per problem, which begins with the key that is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chaos.scenario.client_rules import client_problems
from chaos.scenario.expect import Expect
from chaos.scenario.fault_rules import fault_problems
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.faults.topics import CreateTopic
from chaos.scenario.faults.wire import WireFault
from chaos.scenario.references import group_problems
from chaos.scenario.setup import Setup

JVM_BYTES = 160 * 2**20
"""Memory that a broker's JVM needs besides its heap: classes, code, threads, buffers."""

_NEW_CLUSTER_KEYS = {
    **dict.fromkeys(["kafka", "heap", "cpus", "memory", "disk"], "the brokers already run"),
    "config": "the brokers keep their own settings; set those of topics instead",
}
_ATTACHED_KEYS = ("bootstrap", "security", "allow_faults", "verbs")
_CONTAINER_KEYS = ("cpus", "memory", "disk")


def problems(
    setup: Setup, faults: Sequence[FaultSpec], expect: Expect, variants: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield every problem of a scenario. `variants` are the values that each variant sets, by path."""
    yield from _name_problems(setup, faults)
    yield from _cluster_problems(setup, faults)
    yield from _topic_problems(setup, faults)
    yield from client_problems(setup)
    yield from fault_problems(setup, faults)
    yield from _expect_problems(setup, expect)
    yield from _variant_problems(variants)


def _name_problems(setup: Setup, faults: Iterable[FaultSpec]) -> Iterator[str]:
    clients = [entry.name for entry in (*setup.producers, *setup.readers)]
    for key, names in (
        ("topics", [t.name for t in setup.topics]),
        ("producers, consumers and processors", clients),
        ("faults", [f.name for f in faults]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{key}: the name {name!r} is used {count} times, names must be unique"


def _cluster_problems(setup: Setup, faults: Iterable[FaultSpec]) -> Iterator[str]:
    """Yield keys that do not fit the driver. A key with its default value is ignored: `resolved.json` has all keys."""
    cluster = setup.cluster
    if setup.attached and cluster.bootstrap is None:
        yield "cluster.bootstrap: the attached driver needs the cluster's address, such as kafka-1:9092,kafka-2:9092"
    values, defaults = dict(cluster), dict(type(cluster)())
    for key in _NEW_CLUSTER_KEYS if setup.attached else _ATTACHED_KEYS:
        if values[key] != defaults[key]:
            why = _NEW_CLUSTER_KEYS.get(key, "it applies to existing clusters (driver: attached)")
            yield f"cluster.{key}: does not fit the {cluster.driver} driver: {why}"
    users = [f.kind for f in faults if isinstance(f, WireFault)] or ["cluster.proxy"] * cluster.proxy
    if users and cluster.security.tls:
        yield f"cluster.security: {users[0]} needs the wire proxy, which cannot read {cluster.security.protocol}"
    for key in _CONTAINER_KEYS if cluster.driver == "process" else ():
        if values[key] is not None:
            yield f"cluster.{key}: the process driver cannot limit brokers, the docker driver can"
    if cluster.memory is not None and cluster.memory < cluster.heap + JVM_BYTES:
        yield (
            f"cluster.memory: {cluster.memory} bytes are too few for a heap of {cluster.heap}; "
            f"a JVM needs about {JVM_BYTES // 2**20} MiB besides its heap"
        )


def _topic_problems(setup: Setup, faults: Iterable[FaultSpec]) -> Iterator[str]:
    brokers = setup.cluster.brokers
    created = {f.target.topic for f in faults if isinstance(f, CreateTopic)}
    for i, topic in enumerate(setup.topics):
        if topic.replication_factor > brokers and not setup.attached:
            yield f"topics[{i}].replication_factor: {topic.replication_factor} replicas do not fit on {brokers} brokers"
        min_isr = topic.config.get("min.insync.replicas", setup.cluster.config.get("min.insync.replicas", 1))
        if isinstance(min_isr, int) and min_isr > topic.replication_factor:
            yield (
                f"topics[{i}]: min.insync.replicas {min_isr} is above replication_factor {topic.replication_factor}, "
                "so no acks=all write could ever succeed"
            )
        if topic.later and topic.name not in created:
            yield f"topics[{i}].later: {topic.name} is never created: no fault is a topic.create of it"
    if all(topic.later for topic in setup.topics):
        yield "topics: at least one of them must exist from the start"


def _expect_problems(setup: Setup, expect: Expect) -> Iterator[str]:
    for group in expect.groups:
        yield from group_problems(setup, "expect.groups", group)
    names = {entry.name for entry in (*setup.producers, *setup.consumers, *setup.processors)}
    for name in expect.client_errors:
        if name not in names:
            yield f"expect.client_errors: no client has the name {name!r} ({', '.join(sorted(names))})"


def _variant_problems(variants: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if len(variants) == 1:
        yield "variants: there is only one; give two or more to compare, or move its values into the scenario"
    for name, values in variants.items():
        for path in values:
            if path.split(".")[0].split("[")[0] in ("variants", "seed", "expect"):
                yield (
                    f"variants.{name}.set: {path} cannot be set there; "
                    "all variants share the seed, and the contract has the key expect"
                )
