"""Rules that tie the parts of a scenario together.

Each function yields one message per problem, which begins with the key that is wrong. Rules that depend on the kind of
a fault are in its specification (`FaultSpec.problems`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, get_args

from chaos.cluster.drivers import capabilities
from chaos.cluster.settings import CAPABILITY_NEEDS, dynamic_problem
from chaos.faults.base import FaultSpec
from chaos.faults.consumers import ConsumerSeekSpec
from chaos.faults.controllers import voter_problems
from chaos.faults.settings import overlap_problems
from chaos.faults.topics import CreateTopicSpec
from chaos.faults.wire import app_problems
from chaos.kafka.settings import Config
from chaos.scenario import retention
from chaos.scenario.app_rules import application_problems
from chaos.scenario.beside_rules import beside_problems, elsewhere_problems
from chaos.scenario.client_rules import runtime_problems, value_problems
from chaos.scenario.cluster_rules import release_problems, security_problems
from chaos.scenario.effect_rules import database_problems, effect_problems
from chaos.scenario.expect import ANY, Expect
from chaos.scenario.members import group_problems
from chaos.scenario.setting_rules import cluster_setting_problems, limit_problems
from chaos.scenario.share_rules import share_group_problems
from chaos.scenario.timeline import steps
from chaos.setup.clients import (
    ApplicationPartitioner,
    Assign,
    Processor,
    Producer,
    Subscribe,
    Transactions,
    settings_of,
    uses_kip_848,
)
from chaos.setup.model import Setup, unknown
from chaos.setup.share import Share
from chaos.setup.triggers import Acked, Delivered, Trigger


def trigger_problems(setup: Setup, faults: Sequence[FaultSpec], where: str, trigger: Trigger) -> Iterator[str]:
    """Yield what keeps a trigger from ever firing: unknown names, too many records, a heal without a moment."""
    sent = {p.name: p.count * p.records for p in setup.producers}
    total = sum(sent.values())
    if isinstance(acked := trigger.acked, Acked):
        yield from unknown(f"{where}.acked.producer", acked.producer, "producers", sent)
        if acked.records > (own := sent.get(acked.producer, acked.records)):
            reached = f"is never reached, {acked.producer} sends {own} records in all"
            yield f"{where}.acked.records: {acked.records} {reached}"
    elif acked is not None and acked > total:
        yield f"{where}.acked: {acked} is never reached, the producers send {total} records in all"
    if delivered := trigger.delivered:
        yield from _delivered_problems(setup, faults, f"{where}.delivered", delivered, total)
    for key, seen in (("wire", trigger.wire), ("works", trigger.works)):
        if seen is None:
            continue
        yield from app_problems(setup, f"{where}.{key}.app", seen.app)
    if trigger.awaited:
        where = f"{where}.works" if trigger.works else where
        yield from unknown(f"{where}.after", trigger.awaited.fault, "faults", {f.name for f in faults})
        if trigger.awaited.phase == "healed" and any(
            f.name == trigger.awaited.fault and f.heal is None for f in faults
        ):
            name = trigger.awaited.fault
            reached = "is never reached: without `heal` it is healed after all other steps"
            yield f"{where}.after: {name}.healed {reached}; give {name} a heal, or wait for {name}.proven"


def _delivered_problems(
    setup: Setup, faults: Sequence[FaultSpec], where: str, delivered: Delivered, total: int
) -> Iterator[str]:
    """Check the entry or the group, and that it can process so many records of the `total` that are sent."""
    readers = {c.name: c for c in (*setup.readers, *setup.shares)}
    if delivered.group is not None:
        problems = list(setup.group_problems(f"{where}.group", delivered.group))
    else:
        problems = list(unknown(f"{where}.consumer", str(delivered.consumer), "consumers", readers))
    yield from problems
    entries = [str(delivered.consumer)] if delivered.group is None else setup.groups.get(delivered.group, [])
    # with a seek or in a share group, records may be delivered repeatedly, and any number is possible
    repeated = any(isinstance(readers.get(name), Share) for name in entries)
    if problems or repeated or any(isinstance(fault, ConsumerSeekSpec) for fault in faults):
        return
    alone = sum(c.members for c in map(readers.__getitem__, entries) if isinstance(c, Assign))
    together = any(isinstance(readers[name], Subscribe) for name in entries)
    if delivered.records > total * (alone + together):
        yield f"{where}.records: {delivered.records} is never reached, {total} records are sent in all"


def order_problems(faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield steps that wait for each other in a circle, so that none of them would ever fire."""
    predecessors: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for fault in faults:
        injected = (fault.name, "injected")
        predecessors |= {injected: set(), (fault.name, "proven"): {injected}, (fault.name, "healed"): {injected}}
    for step in steps(faults):
        predecessors[step.fault, "injected" if step.action == "inject" else "healed"] |= step.awaits()
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError as e:
        circle = " -> ".join(".".join(step) for step in e.args[1])
        yield f"faults: these steps wait for each other: {circle}"


BY_AFTERSHOCK = "is set by Aftershock itself"
JVM_BYTES = 160 * 2**20
"""Memory that a broker's JVM needs besides its heap: classes, code, threads, buffers."""

CONNECTION_KEYS = ("bootstrap.servers", "metadata.broker.list", "client.id")
CONSUMER_KEYS = ("group.id", "group.instance.id", "enable.auto.commit", "enable.auto.offset.store")
TRANSACTION_KEYS = ("transactional.id", "transaction.timeout.ms")
CLASSIC_GROUP_KEYS = (
    *("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type"),
)
"""Settings that librdkafka refuses if group.protocol is consumer: the broker has them then."""

_NEW_CLUSTER_KEYS = {
    **dict.fromkeys(
        ["controllers", "voters", "racks", "kafka", "heap", "cpus", "memory", "disk"], "the brokers already run"
    ),
    "features": "they belong to the cluster",
    "config": "the brokers keep their own settings; set settings of topics instead",
}
_ATTACHED_KEYS = ("bootstrap", "allow_faults", "verbs", "asked")
_CONTAINER_KEYS = ("cpus", "memory", "disk")


def problems(
    setup: Setup, faults: Sequence[FaultSpec], expect: Expect, variants: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield every problem of a scenario. `variants` are the values that each variant sets, by path."""
    if not setup.tapped:  # which has neither before something passes
        yield from (f"{key}: give at least one" for key in ("topics", "producers") if not getattr(setup, key))
    yield from _name_problems(setup, faults)
    yield from beside_problems(setup)
    yield from _other_cluster_problems(setup)
    yield from _fault_problems(setup, faults)
    faults = [fault for fault in faults if not fault.elsewhere]
    yield from _cluster_problems(setup, faults)
    yield from _topic_problems(setup, faults)
    yield from cluster_setting_problems(setup, faults)
    yield from limit_problems(setup, expect)
    yield from _client_problems(setup, faults, expect)
    yield from application_problems(setup, faults)
    yield from _expect_problems(setup, expect)
    yield from retention.compaction_problems(setup, faults, expect)
    yield from value_problems(setup, faults)
    yield from effect_problems(setup, expect)
    yield from _variant_problems(variants)


def _name_problems(setup: Setup, faults: Iterable[FaultSpec]) -> Iterator[str]:
    for key, entries in (
        ("topics", setup.topics),
        (
            "producers, consumers, processors and apps",
            [*setup.producers, *setup.readers, *setup.shares, *setup.apps],
        ),
        ("effects", setup.effects),
        ("faults", faults),
    ):
        for name, count in Counter(entry.name for entry in entries).items():
            if count > 1:
                yield f"{key}: the name {name!r} is used {count} times, names must be unique"


def _cluster_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield keys that do not fit the driver. A key with its default value is ignored: `resolved.json` has all keys."""
    cluster = setup.cluster
    if setup.attached and cluster.bootstrap is None:
        yield "cluster.bootstrap: the attached driver needs the cluster's address, such as kafka-1:9092,kafka-2:9092"
    values, defaults = dict(cluster), dict(type(cluster)())
    for key in _NEW_CLUSTER_KEYS if setup.attached else _ATTACHED_KEYS:
        if values[key] != defaults[key] and not (key == "config" and cluster.asked):
            why = _NEW_CLUSTER_KEYS.get(key, "it applies to existing clusters (driver: attached)")
            yield f"cluster.{key}: does not fit the {cluster.driver} driver: {why}"
    if len(cluster.racks) > cluster.brokers and not setup.attached:
        yield (
            f"cluster.racks: {len(cluster.racks)} racks do not fit {cluster.brokers} brokers: a rack would have none; "
            "leave some out, or add brokers"
        )
    for rack, count in Counter(cluster.racks).items():
        if count > 1:
            yield f"cluster.racks: {rack} is given {count} times; the brokers get the racks in turn, so name each once"
    if cluster.controllers and cluster.metadata == "zookeeper":
        yield (
            f"cluster.controllers: Kafka {cluster.kafka} keeps its metadata in ZooKeeper here, without dedicated "
            "controllers; leave controllers out, or choose metadata: kraft and a release from 3.3 on"
        )
    if cluster.voters and not setup.attached:
        if problem := dynamic_problem(cluster.kafka, cluster.controllers or 0, cluster.voters):
            yield f"cluster.voters: {problem}"
        yield from voter_problems(cluster.voters, faults)
    yield from security_problems(setup)
    for key in _CONTAINER_KEYS if cluster.driver == "process" else ():
        if values[key] is not None:
            yield f"cluster.{key}: the process driver cannot limit brokers, the docker driver can"
    if cluster.memory is not None and cluster.memory < cluster.heap + JVM_BYTES:
        yield (
            f"cluster.memory: {cluster.memory} bytes are too few for a heap of {cluster.heap}; "
            f"a JVM needs about {JVM_BYTES // 2**20} MiB besides its heap"
        )


def _other_cluster_problems(setup: Setup) -> Iterator[str]:
    """Yield what is wrong with clusters beside the first one, by the rules of the first one."""
    for name in setup.clusters:
        alone = setup.at(name).model_copy(update={"topics": []})
        for problem in (*_cluster_problems(alone, ()), *cluster_setting_problems(alone, ())):
            yield f"clusters.{name}{problem.removeprefix('cluster')}"


def _topic_problems(setup: Setup, faults: Iterable[FaultSpec]) -> Iterator[str]:
    created = {f.target.topic for f in faults if isinstance(f, CreateTopicSpec)}
    for i, topic in enumerate(setup.topics):
        cluster = setup.clusters.get(topic.cluster, setup.cluster)
        brokers = cluster.brokers
        if topic.replication_factor > brokers and not setup.attached:
            yield (
                f"topics[{i}].replication_factor: {topic.replication_factor} replicas do not fit on {brokers} brokers; "
                f"write replication_factor: {brokers}, or more brokers in cluster.brokers"
            )
        min_isr = topic.config.get("min.insync.replicas", cluster.config.get("min.insync.replicas", 1))
        if isinstance(min_isr, int) and min_isr > topic.replication_factor:
            yield (
                f"topics[{i}]: min.insync.replicas {min_isr} is above replication_factor {topic.replication_factor}, "
                "so no acks=all write could ever succeed"
            )
        if topic.later and topic.name not in created:
            yield f"topics[{i}].later: {topic.name} is never created: no fault is a topic.create of it"
    if setup.topics and all(topic.later for topic in setup.topics):
        yield "topics: at least one of them must exist from the start"


def _client_problems(setup: Setup, faults: Sequence[FaultSpec], expect: Expect) -> Iterator[str]:
    yield from group_problems(setup, faults, expect)
    yield from runtime_problems(setup, faults)
    yield from share_group_problems(setup, faults)
    for i, producer in enumerate(setup.producers):
        yield from _producer_problems(setup, f"producers[{i}]", producer)
    for i, consumer in enumerate(setup.consumers):
        where = f"consumers[{i}]"
        if isinstance(consumer, Subscribe):
            yield from _subscribe_problems(setup, where, consumer)
        elif isinstance(consumer, Assign):
            yield from _assign_problems(setup, where, consumer)
        yield from setup.topic_problems(f"{where}.topics", consumer.topics)
        yield from _reserved_problems(f"{where}.config", consumer.config, CONSUMER_KEYS)
    for i, processor in enumerate(setup.processors):
        where = f"processors[{i}]"
        yield from setup.topic_problems(f"{where}.topics", processor.topics)
        yield from setup.topic_problems(f"{where}.to", [processor.to])
        yield from _state_problems(setup, where, processor)
        if processor.to in processor.topics:
            yield f"{where}.to: the processor also reads {processor.to}, so it would never end"
        yield from _transaction_problems(f"{where}.config", processor.config, processor.transactions)
        yield from _refused(f"{where}.consumer_config", processor.consumer_config, CONSUMER_KEYS, BY_AFTERSHOCK)


def _state_problems(setup: Setup, where: str, processor: Processor) -> Iterator[str]:
    """Yield what is in the way of a processor with state: records without keys, and mates that are another topology."""
    if not processor.state:
        return
    topic = processor.topics[0]
    keyless = [f"producer {p.name}" for p in setup.producers if topic in p.written and not p.has_keys]
    keyless += [f"processor {p.name}" for p in setup.processors if p.to == topic and not p.state]
    if keyless:
        yield f"{where}.state: counts by key, but {keyless[0]} writes records without a key to {topic}"
    mates = [name for name in setup.groups.get(processor.group, []) if name != processor.name]
    if mates:
        yield f"{where}.state: {mates[0]} is in the group {processor.group} too, and does not have this state"


def _rows_problems(setup: Setup, where: str, producer: Producer) -> Iterator[str]:
    """Yield what is in the way of a producer of rows: a name that a topic has, a database that is none of the run."""
    assert producer.rows is not None  # the caller looked
    if any(topic.name == producer.name for topic in setup.topics):
        yield f"{where}.name: {producer.name} is a topic, too, and effects name their inputs by it; write another name"
    if producer.rows.app is not None:
        yield from database_problems(f"{where}.rows.sql", setup, producer.rows.app)


def _producer_problems(setup: Setup, where: str, producer: Producer) -> Iterator[str]:
    if producer.rows:
        yield from _rows_problems(setup, where, producer)
    yield from setup.topic_problems(f"{where}.{'topics' if producer.topics else 'topic'}", producer.written)
    yield from _reserved_problems(f"{where}.config", producer.config)
    if producer.outlast_faults and producer.rate is None:
        yield f"{where}.outlast_faults: needs a rate: a load at full speed cannot be prolonged"
    if producer.transactions and producer.mode != "callback":
        yield f"{where}.mode: transactions wait for all their records, so {producer.mode} has no meaning"
    if producer.transactions and producer.resend:
        yield f"{where}.resend: a transactional producer continues by transactions, not by single records"
    if producer.partitioner == "by_key_number" and producer.keys is None:
        yield f"{where}.partitioner: by_key_number needs keys"
    if producer.partitioner == "sticky" and producer.has_keys:
        yield f"{where}.partitioner: sticky is for records without a key, but keys are given"
    library = producer.partitioner is not None and producer.partitioner not in get_args(ApplicationPartitioner)
    if library and "partitioner" in producer.config:
        yield f"{where}.config: partitioner is given twice"
    yield from _transaction_problems(f"{where}.config", settings_of(producer), producer.transactions)


def _subscribe_problems(setup: Setup, where: str, consumer: Subscribe) -> Iterator[str]:
    if consumer.pattern is not None and not consumer.topics_among(t.name for t in setup.topics):
        yield f"{where}.pattern: {consumer.pattern!r} matches none of the topics; a group needs one from the start"
    if not uses_kip_848(consumer.config):
        return
    if not setup.attached and int(setup.cluster.kafka.split(".")[0]) < 4:
        yield f"{where}.config: group.protocol=consumer (KIP-848) needs Kafka 4.0, not {setup.cluster.kafka}"
    why = (
        "does not go with group.protocol=consumer: the broker decides "
        "(group.consumer.session.timeout.ms, group.remote.assignor, ... )"
    )
    yield from _refused(f"{where}.config", consumer.config, CLASSIC_GROUP_KEYS, why)


def _assign_problems(setup: Setup, where: str, consumer: Assign) -> Iterator[str]:
    if consumer.group is None and (consumer.start == "group" or consumer.commit.when != "never"):
        yield f"{where}.group: start: group and commits need a group id"
    if not isinstance(consumer.start, str):
        for partition in consumer.start.offsets or ():
            yield from setup.partition_problems(f"{where}.start.offsets", partition)


def _refused(where: str, config: Config, keys: Iterable[str], why: str) -> Iterator[str]:
    yield from (f"{where}: {key} {why}" for key in keys if key in config)


def _reserved_problems(where: str, config: Config, reserved: Sequence[str] = ()) -> Iterator[str]:
    for key in sorted(config):
        if key.startswith(("security.", "sasl.", "ssl.", "enable.ssl.")):
            yield f"{where}: {key} {BY_AFTERSHOCK}; use cluster.security instead"
        elif key in (*reserved, *CONNECTION_KEYS):
            yield f"{where}: {key} {BY_AFTERSHOCK}; use the scenario's own keys instead"


def _transaction_problems(where: str, config: Config, transactions: Transactions | None) -> Iterator[str]:
    yield from _refused(where, config, TRANSACTION_KEYS, f"{BY_AFTERSHOCK}; use transactions instead")
    if transactions is not None and str(config.get("enable.idempotence", True)).lower() == "false":
        yield f"{where}: transactions need enable.idempotence"
    if transactions is not None and str(config.get("acks", "all")) not in ("all", "-1"):
        yield f"{where}: transactions need acks=all"


def _fault_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    for i, fault in enumerate(faults):
        where = f"faults[{i}]"
        yield from (found := list(elsewhere_problems(setup, where, fault)))
        if not found:
            of = setup.at(fault.cluster)
            yield from _driver_problems(of, where, fault)
            yield from of.target_problems(f"{where}.target", fault.target, fault.hits_controllers)
            said = fault.problems(of, where)
            yield from (p.replace(" cluster.", f" clusters.{fault.cluster}.") if fault.elsewhere else p for p in said)
        yield from trigger_problems(setup, faults, f"{where}.when", fault.when)
        if fault.heal and fault.heal.when:
            yield from trigger_problems(setup, faults, f"{where}.heal.when", fault.heal.when)
            if seen := next((key for key in ("wire", "works") if getattr(fault.heal.when, key)), None):
                yield f"{where}.heal.when.{seen}: a heal does not wait for the wire; give a time or another phase"
        if fault.target.broker_of_moment and (not fault.when.wire or fault.when.wire.latest is not None):
            yield f"{where}.target.broker_of_moment: the fault waits for no moment; give when.wire, without latest"
    targets = Counter((fault.kind, fault.aimed_at) for fault in faults if fault.once_per_target)
    for (kind, target), count in targets.items():
        if count > 1:
            yield f"faults: {kind} of {target} is given {count} times; it can happen only once"
    yield from order_problems(faults)
    for cluster in {fault.cluster: None for fault in faults}:
        yield from overlap_problems([fault for fault in faults if fault.cluster == cluster])
    yield from release_problems(setup, [fault for fault in faults if not fault.elsewhere])


def _driver_problems(setup: Setup, where: str, fault: FaultSpec) -> Iterator[str]:
    """Check that the driver has the capabilities of a fault, and that brokers of an existing cluster may be broken."""
    driver = setup.cluster.driver
    verbs = setup.cluster.verbs.commands() if setup.attached else None
    missing = fault.needed - capabilities(driver, verbs)
    if setup.attached and fault.hits_brokers and not setup.cluster.allow_faults:
        yield (
            f"{where}: {fault.kind} breaks brokers of an existing cluster, which takes "
            "allow_faults: true in cluster, and --i-own-this-cluster on the command line"
        )
    elif missing and (verbs is None or missing - CAPABILITY_NEEDS.keys()):
        yield f"{where}: {fault.kind} needs {', '.join(sorted(missing))}, which the {driver} driver cannot do"
    elif missing and verbs is not None:
        needed = {verb for capability in missing for verb in CAPABILITY_NEEDS[capability]} - verbs.keys()
        commands = ", ".join(f"cluster.verbs.{verb}" for verb in sorted(needed))
        yield f"{where}: {fault.kind} needs commands that are not given: {commands}"


def _expect_problems(setup: Setup, expect: Expect) -> Iterator[str]:
    for group, bound in expect.groups.items():
        yield from setup.group_problems("expect.groups", group)
        if bound.rebalances != ANY and group in setup.share_groups:
            yield f"expect.groups.{group}.rebalances: members of a share group share partitions, so none is counted"
    for (kind, _), count in expect.counts().items():
        if kind.endswith("_output") and count.min and not setup.processors:
            yield f"expect.{kind}: never appears: only outputs of processors are traced, and there are none"
    names = {entry.name for entry in setup.entries}
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
