"""Rules for the client runtimes of entries: an entry must not ask its runtime for what it cannot do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from chaos.kafka.partition import TopicPartition
from chaos.kafka.settings import Config
from chaos.scenario.faults.admin import AddPartitions, DeleteTopic, RecreateTopic
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.faults.clients import (
    ClientQuota,
    ConsumerCrash,
    ConsumerPause,
    ConsumerResume,
    ConsumerSeek,
    ProducerCrash,
    ProducerFence,
)
from chaos.scenario.faults.clocks import ClockFault
from chaos.scenario.faults.raw import WireProduce
from chaos.scenario.setting_rules import client_setting_problems
from chaos.setup.clients import (
    Assign,
    Entry,
    LibraryPartitioner,
    Processor,
    Producer,
    Subscribe,
    assignors_of,
    settings_of,
    uses_kip_848,
)
from chaos.setup.model import Setup
from chaos.setup.processing import Plain, Transactions
from chaos.setup.runtimes.choice import Client
from chaos.setup.runtimes.traits import Ability
from chaos.setup.share import Share

Asked = Iterator[tuple[str, Ability]]
"""Keys of an entry, with what they ask of the client."""


def runtime_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield what an entry or a fault asks of a client that its runtime cannot do."""
    for where, entry in setup.placed_entries:
        for key, ability in _asked(entry):
            yield from _refusal(f"{where}.{key}" if key else where, entry.client, ability)
        for key, ability in _asked_by_topics(setup, entry, faults):
            yield from _refusal(f"{where}.{key}", entry.client, ability)
        if (
            isinstance(entry, Assign)
            and entry.idempotent_results
            and not (entry.checkpoint and entry.checkpoint_interval)
        ):
            yield f"{where}.idempotent_results: goes with checkpoint_every; otherwise each result is a checkpoint"
        yield from _session_problems(where, entry)
        yield from _rack_problems(setup, where, entry)
        yield from client_setting_problems(setup, where, entry)
        yield from _auto_commit_problems(setup, where, entry)
        security = setup.cluster.security if setup.attached else None
        if security and security.key_password:
            yield from _refusal("cluster.security.key_password", entry.client, "encrypted keys")
    for i, fault in enumerate(faults):
        yield from _fault_problems(setup, f"faults[{i}]", fault)


def _asked_by_topics(setup: Setup, entry: Entry, faults: Sequence[FaultSpec]) -> Asked:
    """Yield what the records of an entry's topics ask of it, and what faults do to its topics."""
    if isinstance(entry, Producer):
        return
    ended = {topic for p in setup.producers if p.transactions for topic in p.written} | {
        p.to for p in setup.processors if p.transactions
    }
    raw = [f for f in faults if isinstance(f, WireProduce) and f.in_transaction]
    ended |= {TopicPartition.parse(str(f.target.partition)).topic for f in raw}
    asked: list[tuple[set[str], Ability]] = [
        ({t for p in setup.producers if p.tombstone_every for t in p.written}, "tombstones"),
        (ended, "transaction markers"),
        ({str(f.target.topic) for f in faults if isinstance(f, DeleteTopic | RecreateTopic)}, "deleted topics"),
    ]
    if isinstance(entry, Assign) and entry.discover is None:
        asked.append(({str(f.target.topic) for f in faults if isinstance(f, AddPartitions)}, "fixed partitions"))
    for topics, ability in asked:
        if topics.intersection(entry.topics) if isinstance(entry, Processor) else entry.topics_among(topics):
            yield "topics", ability


def _refusal(where: str, client: Client, ability: Ability) -> Iterator[str]:
    if reason := client.missing(ability):
        yield f"{where}: the runtime {client.describe()} has no {ability}: {reason}"


def _asked(entry: Entry) -> Asked:
    match entry:
        case Producer():
            yield "", "produce"
            if entry.transactions:
                yield "transactions", "transactions"
                if entry.transactions != Transactions(timeout=entry.transactions.timeout):
                    yield "transactions", "transactions of a size"
            if entry.checkpoint_every is not None:
                yield "checkpoint_every", "checkpoints of a producer"
            if entry.resend:
                yield "resend", "resending"
            if entry.definite_errors:
                yield "definite_errors", "definite errors"
            if str(entry.config.get("parallelism.default", 1)) != "1":
                yield "config", "parallel writing"
            if len(entry.topics) > 1:
                yield "topics", "several topics"
            if entry.mode != "callback":
                yield "mode", "waiting for answers"
            if entry.partitioner in get_args(LibraryPartitioner):
                yield "partitioner", "library partitioner"
            if entry.timestamps is not None:
                yield "timestamps", "timestamps of the application"
            if entry.tombstone_every:
                yield "tombstone_every", "tombstones"
            if entry.partitioner == "sticky":
                yield "partitioner", "sticky partitioner"
        case Processor():
            yield "", "process"
            if entry.threads > 1:
                yield "threads", "threads of a processor"
            if entry.state:
                yield "state", "state of a processor"
            if entry.transactions and entry.transactions != Transactions():
                yield "transactions", "transactions of a size"
            if entry.plain:
                yield "plain", "plain processing"
                if entry.plain.commit == "before_output":
                    yield "plain", "commits before outputs"
                if entry.plain != Plain(commit=entry.plain.commit):
                    yield "plain", "batches of a size"
            yield from _asked_of_assignment(entry)
            yield from _asked_of_member("consumer_config", entry.consumer_config, entry.client)
        case Subscribe():
            yield "", "subscribe"
            if entry.pattern is not None:
                yield "pattern", "pattern"
            if entry.threads > 1:
                yield "threads", "threads"
            if entry.static:
                yield "static", "static membership"
            if entry.workers:
                yield "workers", "workers"
            yield from _asked_of_assignment(entry)
            yield from _asked_of_member("config", entry.config, entry.client)
            yield from _asked_of_commits(entry)
        case Share():
            yield "mode", "share groups"
        case Assign():
            yield "", "assign"
            if entry.checkpoint:
                yield "checkpoint", "checkpoint"
            if entry.checkpoint_every is not None:
                yield "checkpoint_every", "checkpoint interval"
            if entry.savepoint:
                yield "savepoint", "savepoints"
            if entry.idempotent_results:
                yield "idempotent_results", "idempotent results"
            if entry.start == "group":
                yield "start", "group offsets"
            if entry.max_poll_records != Assign.model_fields["max_poll_records"].default:
                yield "max_poll_records", "records per poll"
            if entry.no_group_id:
                yield "no_group_id", "assignment without group.id"
            yield from _asked_of_commits(entry)


def _asked_of_assignment(entry: Subscribe | Processor) -> Asked:
    if entry.assign_by == "application":
        yield "assign_by", "assignment by the application"


def _asked_of_commits(entry: Subscribe | Assign) -> Asked:
    if entry.commit.when == "on_checkpoint":
        yield "commit", "commits on checkpoints"
    elif entry.commit.when != "never":
        yield "commit", "commits after processing"
        if entry.commit.kind == "async":
            yield "commit", "asynchronous commits"
        if entry.commit.kind == "auto" and isinstance(entry, Assign):
            yield "commit", "automatic commits in assign mode"
    if str(settings_of(entry).get("auto.offset.reset", "")).lower() in ("none", "error"):
        yield "config", "reset to none"


def _asked_of_member(key: str, config: Config, client: Client) -> Asked:
    if uses_kip_848(config):
        yield key, "KIP-848"
    if "group.instance.id" in config:
        yield key, "static membership"
    if any("cooperative" in name for name in assignors_of(config, client)):
        yield key, "cooperative"


def _auto_commit_problems(setup: Setup, where: str, entry: Entry) -> Iterator[str]:
    if not isinstance(entry, Subscribe | Assign) or entry.commit.kind != "auto" or entry.commit.when == "never":
        return
    traits = entry.client.traits
    if entry.commit.when not in traits.auto_commits:
        yield (
            f"{where}.commit: kind: auto of {traits.library} goes with when: {', '.join(sorted(traits.auto_commits))}, "
            f"not with {entry.commit.when}: it commits what earlier polls returned"
        )
    if not traits.stores_offsets and setup.transactional:
        yield (
            f"{where}.commit: kind: auto of {traits.library} commits positions after transaction markers, which the "
            "audit cannot compare with what was processed; use kind: sync where topics have transactions"
        )


def _rack_problems(setup: Setup, where: str, entry: Entry) -> Iterator[str]:
    if not isinstance(entry, Subscribe | Assign) or entry.rack is None:
        return
    traits = entry.client.traits
    if setup.attached:
        yield f"{where}.rack: the racks of an existing cluster are not known; give client.rack in config instead"
        return
    yield from setup.rack_problems(f"{where}.rack", entry.rack)
    reason = entry.client.missing_setting("client.rack") if traits.rack else "its consumers read from leaders"
    if reason:
        yield f"{where}.rack: the runtime {entry.client.describe()} has no rack: {reason}; choose another client"
    elif traits.rack in entry.config:
        yield f"{where}.config: {traits.rack} is also given as rack; give it once"


def _session_problems(where: str, entry: Entry) -> Iterator[str]:
    session = entry.client.session
    if session is None:
        return
    if not isinstance(entry, Assign):
        yield f"{where}.client.session: only jobs that read run in a session cluster; leave it out"
        return
    if not entry.checkpoint:
        yield f"{where}.checkpoint: a job in a session cluster restores its last checkpoint by itself; leave it out"
    slots = session.task_managers * session.slots_for(entry.subtasks)
    if slots < entry.subtasks:
        yield (
            f"{where}.client.session: its {session.task_managers} task managers have {slots} slots, and "
            f"{entry.name} needs {entry.subtasks} (members x parallelism.default)"
        )


def _fault_problems(setup: Setup, where: str, fault: FaultSpec) -> Iterator[str]:
    selector, value = fault.target.selector
    name = str(value).partition("/")[0]
    targets = setup.groups.get(name, []) if selector == "random_member_of" else [name]
    if isinstance(fault, ConsumerCrash | ConsumerPause):
        for target in [e for e in setup.entries if e.name in targets and e.client.session]:
            yield (
                f"{where}: the records of {target.name} are processed in its session cluster, not in the process of "
                f"the client; use taskmanager.kill instead of {fault.kind}"
            )
    entry = next((e for e in setup.entries if e.name == name), None)
    if entry is None:
        return
    match fault:
        case ConsumerSeek():
            yield from _refusal(where, entry.client, "seek")
            if fault.lookup_first is not None:
                yield from _refusal(f"{where}.lookup_first", entry.client, "assignments in turn")
                if entry.name in {c.name for c in setup.consumers if c.mode != "assign"}:
                    yield f"{where}.lookup_first: {entry.name} subscribes; it goes with mode: assign"
        case ConsumerResume():
            yield from _refusal(where, entry.client, "resume")
        case ClientQuota():
            yield from _refusal(where, entry.client, "throttle times")
        case ClockFault():
            yield from _refusal(where, entry.client, "wrong clock")
        case ProducerFence():
            yield from _refusal(where, entry.client, "fencing")
        case ProducerCrash() if fault.unreported:
            yield from _refusal(f"{where}.unreported", entry.client, "ignore reports")
