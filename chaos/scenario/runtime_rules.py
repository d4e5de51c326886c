"""Rules for the client libraries of entries: an entry must not ask its library for what it cannot do.

What a field asks for stands at the field (`chaos.setup.clients`); `Client.refusal` writes every refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from chaos.clients.traits import Ability
from chaos.faults.base import FaultSpec
from chaos.faults.consumers import ConsumerCrashSpec, ConsumerPauseSpec, ConsumerSeekSpec
from chaos.faults.raw import WireProduceSpec
from chaos.faults.topics import AddPartitionsSpec, DeleteTopicSpec, RecreateTopicSpec
from chaos.scenario.setting_rules import client_setting_problems
from chaos.setup.clients import Assign, Entry, Processor, Producer, Subscribe, asked
from chaos.setup.model import Setup


def runtime_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield what an entry, its topics or a fault ask of a client that its library cannot do."""
    security = setup.cluster.security if setup.attached else None
    for where, entry in setup.placed_entries:
        yield from _refusals(entry, asked(entry, where))
        yield from _refusals(entry, ((f"{where}.topics", need) for need in _asked_by_topics(setup, entry, faults)))
        if security and security.key_password:
            yield from _refusals(entry, [("cluster.security.key_password", "encrypted keys")])
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
    for i, fault in enumerate(faults):
        yield from _fault_problems(setup, f"faults[{i}]", fault)


def _refusals(entry: Entry, needs: Iterable[tuple[str, Ability]]) -> Iterator[str]:
    """Yield a message for each ability that the client of an entry lacks."""
    for where, ability in needs:
        if refusal := entry.client.refusal(ability):
            yield f"{where}: {refusal}"


def _asked_by_topics(setup: Setup, entry: Entry, faults: Sequence[FaultSpec]) -> Iterator[Ability]:
    """Yield what the records of an entry's topics ask of it, and what faults do to its topics."""
    if isinstance(entry, Producer):
        return
    ended = setup.written_in_transactions()
    ended |= {f.topic for f in faults if isinstance(f, WireProduceSpec) and f.in_transaction}
    asked: list[tuple[set[str], Ability]] = [
        ({t for p in setup.producers if p.tombstone_every for t in p.written}, "tombstones"),
        ({t for p in setup.producers if p.value for t in p.written}, "values of the user"),
        (ended, "transaction markers"),
        ({str(f.target.topic) for f in faults if isinstance(f, DeleteTopicSpec | RecreateTopicSpec)}, "deleted topics"),
    ]
    if isinstance(entry, Assign) and entry.discover is None:
        asked.append(({str(f.target.topic) for f in faults if isinstance(f, AddPartitionsSpec)}, "fixed partitions"))
    for topics, ability in asked:
        if topics.intersection(entry.topics) if isinstance(entry, Processor) else entry.topics_among(topics):
            yield ability


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
    if traits.rack and traits.rack in entry.config:
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
    if isinstance(fault, ConsumerCrashSpec | ConsumerPauseSpec):
        for target in [e for e in setup.entries if e.name in targets and e.client.session]:
            yield (
                f"{where}: the records of {target.name} are processed in its session cluster, not in the process of "
                f"the client; use taskmanager.kill instead of {fault.kind}"
            )
    entry = next((e for e in setup.entries if e.name == name), None)
    if entry is None:
        return
    yield from _refusals(entry, asked(fault, where))
    if isinstance(fault, ConsumerSeekSpec) and fault.lookup_first is not None and not isinstance(entry, Assign):
        yield f"{where}.lookup_first: {entry.name} subscribes; it goes with mode: assign"
