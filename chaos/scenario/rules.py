"""Rules that tie the parts of a scenario together. Each problem names the key and what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from chaos.cluster.verbs import CAPABILITY_NEEDS
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import CLIENT_TARGETS, ONE_BROKER, WireFault, hits_brokers
from chaos.scenario.producer_rules import producer_problems
from chaos.scenario.triggers import Acked, Target, Trigger, parse_after, split_member

if TYPE_CHECKING:
    from chaos.scenario.consumers import Subscribe
    from chaos.scenario.model import Scenario

JVM_BYTES = 160 * 2**20
"""What a broker's JVM needs beside its heap: classes, code, threads, buffers."""


def problems(s: Scenario) -> list[str]:
    """Everything that does not fit together; empty for a sound scenario."""
    parts = (_names, _cluster, _topics, _clients, producer_problems, _faults, _expect, _variants)
    return [problem for part in parts for problem in part(s)]


def _variants(s: Scenario) -> Iterator[str]:
    if len(s.variants) == 1:
        yield "variants: one alone can be compared with nothing; give two or more, or put it into the scenario"
    for name, variant in s.variants.items():
        for path in variant.set:
            if path.split(".")[0].split("[")[0] in ("variants", "seed", "expect"):
                yield f"variants.{name}.set: {path} cannot be set there; all sides share the seed, and expect has a key"


def _names(s: Scenario) -> Iterator[str]:
    clients = [p.name for p in s.producers] + [c.name for c in s.readers]
    for what, names in (
        ("topics", [t.name for t in s.topics]),
        ("producers, consumers and processors", clients),
        ("faults", [f.name for f in s.faults]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{what}: the name {name!r} is used {count} times, names must be unique"


_OF_NEW_CLUSTERS = {
    **dict.fromkeys(["kafka", "heap", "cpus", "memory", "disk"], "the brokers run already"),
    "config": "the brokers' settings are theirs; set those of topics instead",
}
_OF_ATTACHED = ("bootstrap", "security", "allow_faults", "verbs")
_OF_CONTAINERS = ("cpus", "memory", "disk")


def _cluster(s: Scenario) -> Iterator[str]:
    """What does not fit the driver. A key with its default value says nothing: it may come from `resolved.json`."""
    c = s.cluster
    attached = c.driver == "attached"
    if attached and c.bootstrap is None:
        yield "cluster.bootstrap: the attached driver needs the cluster's address, such as kafka-1:9092,kafka-2:9092"
    for key in _OF_NEW_CLUSTERS if attached else _OF_ATTACHED:
        if getattr(c, key) != type(c).model_fields[key].default:
            why = _OF_NEW_CLUSTERS.get(key, "it is of clusters that exist (driver: attached)")
            yield f"cluster.{key}: does not fit the {c.driver} driver: {why}"
    if s.proxied and c.security.tls:
        why = next((f.kind for f in s.faults if isinstance(f, WireFault)), "cluster.proxy")
        yield f"cluster.security: {why} needs the wire proxy, which cannot read {c.security.protocol} on its way"
    for key in _OF_CONTAINERS if c.driver == "process" else ():
        if getattr(c, key) is not None:
            yield f"cluster.{key}: the process driver cannot limit brokers, the docker driver can"
    if c.memory is not None and c.memory < c.heap + JVM_BYTES:
        yield (
            f"cluster.memory: {c.memory} bytes are too few for a heap of {c.heap}; "
            f"a JVM needs some {JVM_BYTES // 2**20} MiB beside it"
        )


def _topics(s: Scenario) -> Iterator[str]:
    brokers = s.cluster.brokers
    for i, t in enumerate(s.topics):
        if t.replication_factor > brokers and s.cluster.driver != "attached":
            yield f"topics[{i}].replication_factor: {t.replication_factor} replicas do not fit on {brokers} brokers"
        min_isr = t.config.get("min.insync.replicas", s.cluster.config.get("min.insync.replicas", 1))
        if isinstance(min_isr, int) and min_isr > t.replication_factor:
            yield (
                f"topics[{i}]: min.insync.replicas {min_isr} is above replication_factor {t.replication_factor}, "
                "so no acks=all write could ever succeed"
            )


def _clients(s: Scenario) -> Iterator[str]:
    known = {t.name for t in s.topics}
    for i, p in enumerate(s.producers):
        if p.topic not in known:
            yield f"producers[{i}].topic: {p.topic!r} is not one of the topics ({', '.join(sorted(known))})"
        yield from _reserved(f"producers[{i}].config", p.config, set())
        if p.outlast_faults and p.rate is None:
            yield f"producers[{i}].outlast_faults: needs a rate, for a load at full speed has no end"
    for i, c in enumerate(s.consumers):
        if c.mode == "subscribe":
            yield from _member(s, f"consumers[{i}]", c)
        for topic in c.topics:
            if topic not in known:
                yield f"consumers[{i}].topics: {topic!r} is not one of the topics ({', '.join(sorted(known))})"
        reserved = {"group.id", "enable.auto.commit", "enable.auto.offset.store"}
        yield from _reserved(f"consumers[{i}].config", c.config, reserved)
        if c.mode == "assign":
            needs_group = c.start == "group" or c.commit.when != "never"
            if needs_group and c.group is None:
                yield f"consumers[{i}].group: start: group and commits need a group id"
            if not isinstance(c.start, str) and c.start.offsets is not None:
                for partition in c.start.offsets:
                    yield from _partition(s, f"consumers[{i}].start.offsets", partition)


NOT_WITH_KIP_848 = (
    *("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type"),
)
"""librdkafka refuses these where group.protocol is consumer: they are the broker's then."""


def _member(s: Scenario, where: str, c: Subscribe) -> Iterator[str]:
    if c.pattern is not None and not c.topics_among(t.name for t in s.topics):
        yield f"{where}.pattern: {c.pattern!r} matches none of the topics, and a group needs something to begin with"
    if c.config.get("group.protocol") != "consumer":
        return
    if s.cluster.driver != "attached" and int(s.cluster.kafka.split(".")[0]) < 4:
        yield f"{where}.config: group.protocol=consumer (KIP-848) needs Kafka 4.0, not {s.cluster.kafka}"
    for key in NOT_WITH_KIP_848:
        if key in c.config:
            yield (
                f"{where}.config: {key} does not go with group.protocol=consumer: the broker decides "
                "(group.consumer.session.timeout.ms, group.remote.assignor, ... )"
            )


def _reserved(where: str, config: dict[str, bool | int | float | str], reserved: set[str]) -> Iterator[str]:
    for key in sorted(config):
        if key.startswith(("security.", "sasl.", "ssl.", "enable.ssl.")):
            yield f"{where}: {key} is set by Aftershock itself; use cluster.security instead"
        elif key in reserved or key in ("bootstrap.servers", "metadata.broker.list", "client.id"):
            yield f"{where}: {key} is set by Aftershock itself; use the scenario's own keys instead"


def _partition(s: Scenario, where: str, text: str) -> Iterator[str]:
    partition = TopicPartition.parse(text)
    topic = next((t for t in s.topics if t.name == partition.topic), None)
    if topic is None:
        yield f"{where}: there is no topic {partition.topic!r}"
    elif partition.number >= topic.partitions:
        yield f"{where}: {topic.name} has partitions 0 to {topic.partitions - 1}, not {partition.number}"


def _faults(s: Scenario) -> Iterator[str]:
    from chaos.cluster.drivers import capabilities

    attached = s.cluster.driver == "attached"
    verbs = s.cluster.verbs.given() if attached else None
    has = capabilities(s.cluster.driver, verbs)
    for i, fault in enumerate(s.faults):
        if attached and hits_brokers(fault) and not s.cluster.allow_faults:
            yield (
                f"faults[{i}]: {fault.kind} breaks brokers of a cluster that exists, which takes "
                "allow_faults: true in cluster, and --i-own-this-cluster on the command line"
            )
        elif lacking := fault.needs - has:
            yield f"faults[{i}]: {fault.kind} needs {_words_of_lack(lacking, s.cluster.driver, verbs)}"
        elif "isolate" in fault.needs and s.cluster.metadata == "zookeeper":
            yield f"faults[{i}]: {fault.kind} needs a cluster without ZooKeeper, which every broker would still reach"
        if fault.kind == "broker.oom" and s.cluster.memory is None:
            yield f"faults[{i}]: broker.oom needs cluster.memory, the memory that is used up"
        if fault.kind == "disk.fill" and s.cluster.disk is None:
            yield f"faults[{i}]: disk.fill needs cluster.disk, the size of the disk that is filled"
        yield from _target(s, f"faults[{i}].target", fault.target)
        if fault.kind == "link.cut":
            yield from _target(s, f"faults[{i}].other", fault.other)
            (end,) = fault.other.given()
            if end not in ONE_BROKER:
                yield f"faults[{i}].other: {end} does not name one broker; {', '.join(sorted(ONE_BROKER))} do"
        yield from _trigger(s, f"faults[{i}].when", fault.when)
        if fault.heal and fault.heal.when:
            yield from _trigger(s, f"faults[{i}].heal.when", fault.heal.when)
    yield from _appearing(s)
    yield from _cycles(s)


def _appearing(s: Scenario) -> Iterator[str]:
    """What comes while clients run: topics made, partitions added, members that join."""
    made = {f.target.topic for f in s.faults if f.kind == "topic.create"}
    for i, t in enumerate(s.topics):
        if t.later and t.name not in made:
            yield f"topics[{i}].later: {t.name} is never made: no fault is a topic.create of it"
    if all(t.later for t in s.topics):
        yield "topics: one of them must be there from the start"
    joined: Counter[str] = Counter()
    for i, fault in enumerate(s.faults):
        topic = next((t for t in s.topics if t.name == fault.target.topic), None)
        if fault.kind == "topic.create" and topic and not topic.later:
            yield f"faults[{i}].target.topic: {topic.name} is there from the start; mark it later: true in topics"
        if fault.kind == "topic.add_partitions" and topic and fault.to <= topic.partitions:
            yield f"faults[{i}].to: {topic.name} has {topic.partitions} partitions already"
        if fault.kind == "partition.reassign" and s.cluster.driver != "attached":
            for broker in (b for b in fault.to or [] if not 1 <= b <= s.cluster.brokers):
                yield f"faults[{i}].to: brokers are numbered 1 to {s.cluster.brokers}, not {broker}"
        if fault.kind == "consumer.join":
            joined[str(fault.target.member)] += 1
            if joined[str(fault.target.member)] > 1:
                yield f"faults[{i}].target.member: {fault.target.member} joins twice"


def _words_of_lack(lacking: frozenset[str], driver: str, verbs: Mapping[str, str] | None) -> str:
    if verbs is None or lacking - CAPABILITY_NEEDS.keys():
        return f"{', '.join(sorted(lacking))}, which the {driver} driver cannot do"
    commands = sorted({verb for capability in lacking for verb in CAPABILITY_NEEDS[capability]} - verbs.keys())
    return f"commands that are not given: {', '.join(f'cluster.verbs.{verb}' for verb in commands)}"


def _target(s: Scenario, where: str, target: Target) -> Iterator[str]:
    ((kind, value),) = target.given().items()
    if kind in ("leader_of", "followers_of", "follower_of", "isr_of", "partition"):
        wrong = list(_partition(s, f"{where}.{kind}", value))
        yield from wrong
        if not wrong and "follower" in kind and s.topic(TopicPartition.parse(value).topic).replication_factor == 1:
            yield f"{where}.{kind}: {value} has one replica, so it has no follower"
    elif kind == "topic" and value not in {t.name for t in s.topics}:
        yield f"{where}.topic: {value!r} is not one of the topics ({', '.join(t.name for t in s.topics)})"
    elif kind in ("coordinator_of", "group"):
        yield from _group(s, f"{where}.{kind}", value)
    elif kind == "broker" and value > s.cluster.brokers and s.cluster.driver != "attached":
        yield f"{where}.broker: brokers are numbered 1 to {s.cluster.brokers}, not {value}"
    elif kind in CLIENT_TARGETS:
        name, number = split_member(value) if kind == "member" else (value, 1)
        members = {c.name: c.members for c in s.consumers}
        if name in {p.name for p in s.producers} | {p.name for p in s.processors}:
            pass  # `producer_problems` looks at it
        elif name not in members:
            yield f"{where}.{kind}: {name!r} is not one of the consumers ({', '.join(members) or 'none given'})"
        elif number > members[name]:
            yield f"{where}.{kind}: {name} has members 1 to {members[name]}, not {number}"


def _acked(s: Scenario, where: str, acked: int | Acked) -> Iterator[str]:
    sent = {p.name: p.count * p.records for p in s.producers}
    if isinstance(acked, int):
        if acked > sum(sent.values()):
            yield f"{where}: {acked} never comes, the producers send {sum(sent.values())} records in all"
    elif acked.producer not in sent:
        known = ", ".join(sent) or "none given"
        yield f"{where}.producer: {acked.producer!r} is not one of the producers ({known})"
    elif acked.records > (most := sent[acked.producer]):
        yield f"{where}.records: {acked.records} never comes, {acked.producer} sends {most} records in all"


def _trigger(s: Scenario, where: str, trigger: Trigger) -> Iterator[str]:
    total = sum(p.count * p.records for p in s.producers)
    if trigger.acked is not None:
        yield from _acked(s, f"{where}.acked", trigger.acked)
    if trigger.delivered is not None:
        consumer = next((c for c in s.readers if c.name == trigger.delivered.consumer), None)
        if consumer is None:
            names = ", ".join(c.name for c in s.readers) or "none given"
            yield f"{where}.delivered.consumer: {trigger.delivered.consumer!r} is not one of the consumers ({names})"
        elif any(f.kind == "consumer.seek" for f in s.faults):
            pass  # what is delivered again counts again
        elif trigger.delivered.records > total * (consumer.members if consumer.mode == "assign" else 1):
            yield f"{where}.delivered.records: {trigger.delivered.records} never comes, {total} records are sent in all"
    if trigger.after is not None:
        name = parse_after(trigger.after).fault
        faults = {f.name for f in s.faults}
        if name not in faults:
            yield f"{where}.after: {name!r} is not one of the faults ({', '.join(sorted(faults))})"


def _cycles(s: Scenario) -> Iterator[str]:
    """A fault that waits for itself, over however many others, would never fire."""
    waits: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for f in s.faults:
        injected = (f.name, "injected")
        waits[injected] = _awaited(f.when)
        waits[f.name, "proven"] = {injected}
        waits[f.name, "healed"] = {injected} | (_awaited(f.heal.when) if f.heal and f.heal.when else set())
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as e:
        circle = " -> ".join(".".join(step) for step in e.args[1])
        yield f"faults: these steps wait for each other: {circle}"


def _awaited(trigger: Trigger) -> set[tuple[str, str]]:
    if trigger.after is None:
        return set()
    after = parse_after(trigger.after)
    return {(after.fault, after.phase)}


def _expect(s: Scenario) -> Iterator[str]:
    for group in s.expect.groups:
        yield from _group(s, "expect.groups", group)
    names = {entry.name for entry in (*s.producers, *s.consumers, *s.processors)}
    for name in s.expect.client_errors:
        if name not in names:
            yield f"expect.client_errors: no client has the name {name!r} ({', '.join(sorted(names))})"


def _group(s: Scenario, where: str, group: str) -> Iterator[str]:
    groups = sorted({c.group for c in s.readers if c.group})
    if group not in groups:
        yield f"{where}: no consumer has the group id {group!r} ({', '.join(groups) or 'none given'})"
