"""Rules for clients: an entry must not ask its library for what it cannot do, and its payloads must be sendable.

What a field asks for stands at the field (`chaos.setup.clients`); `Client.refusal` writes every refusal.
Payloads of the user's form (`chaos.values`) are read from files, and each must fit its topic and its client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from chaos.clients.choice import DEFAULT
from chaos.clients.traits import Ability
from chaos.errors import ScenarioError
from chaos.faults.base import Experiment, FaultSpec
from chaos.faults.consumers import ConsumerCrashSpec, ConsumerPauseSpec, ConsumerSeekSpec
from chaos.faults.raw import WireProduceSpec
from chaos.faults.settings import TopicConfigSpec
from chaos.faults.topics import AddPartitionsSpec, DeleteTopicSpec, RecreateTopicSpec
from chaos.ledger.ids import NUMBER_BITS
from chaos.scenario.effect_rules import sample_problems
from chaos.scenario.mistakes import Source, as_key
from chaos.scenario.retention import compresses
from chaos.scenario.setting_rules import client_setting_problems
from chaos.setup.clients import Assign, Entry, Processor, Producer, Subscribe
from chaos.setup.model import Setup
from chaos.setup.needs import asked
from chaos.values.arrivals import Arrivals, recorded
from chaos.values.model import Value


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


S = TypeVar("S", bound=Experiment)

RECORD_BYTES = 100
"""About what a batch of one record has besides key, value and headers of the user."""
BROKER_BYTES, LIBRDKAFKA_BYTES = 1_048_588, 1_000_000
"""Defaults of message.max.bytes of brokers (and max.message.bytes of topics), and of librdkafka."""
_LIMITS = ("message.max.bytes", "max.request.size", "max_request_size")
"""The setting by which client libraries limit a record."""


def value_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield values that do not go with what else the scenario has; files are not read."""
    for i, p in enumerate(setup.producers):
        where = f"producers[{i}]"
        if isinstance(p.rate, Arrivals) and p.rate.recording and not (p.value and p.value.samples):
            yield f"{where}.rate.recording: the times are in samples; give value.samples"
        if p.value and p.partitioner == "by_key_number":
            yield f"{where}.partitioner: by_key_number needs keys, and value has its own"
        for fault in faults if p.unmarked else ():
            starts = "restarts" in fault.effects and not getattr(fault, "for_good", False)
            name = str(fault.target.selector[1]).partition("/")[0]
            if starts and fault.kind.startswith("producer.") and name == p.name:
                yield (
                    f"{where}.value.mark: with none, no record says which incarnation of {p.name} sent it, and "
                    f"{fault.name} starts another one; use mark: header"
                )


class _NoRecording(ValueError):
    """Samples without the times of a recording."""


def _recorded(rate: float | Arrivals | None, value: Value) -> float | Arrivals | None:
    """Return the rate with the mean of its recording. Raises `_NoRecording`."""
    if not isinstance(rate, Arrivals) or rate.recording is None or value.samples is None:
        return rate
    try:
        pauses = recorded(Path(value.samples), rate.recording)
    except ValueError as e:
        raise _NoRecording(e) from None
    return rate.model_copy(update={"mean": rate.speed * len(pauses) / sum(pauses)})


def with_files(scenario: S, folder: Path, source: Source, headline: str) -> S:
    """Return the scenario with the absolute paths of its files and the types of its ids.

    folder: what relative paths begin at. Raises `ScenarioError` with one line for each mistake in them.
    """
    if not any(p.value for p in scenario.producers):
        return scenario
    from chaos.values.model import FORMS
    from chaos.values.payloads import Payloads, ValueProblem

    found: list[tuple[tuple[str | int, ...], str]] = []
    producers = list(scenario.producers)
    for i, p in enumerate(scenario.producers):
        if p.value is None:
            continue
        value = p.value.placed_in(folder)
        try:
            payloads = Payloads(value, 0)
            value = value.model_copy(update={"id_type": payloads.id_type, "number": payloads.number})
            producers[i] = p.model_copy(update={"value": value, "rate": _recorded(p.rate, value)})
            if too_large := _too_large(scenario, p, *payloads.largest):
                raise ValueProblem(next(name for name in ("sizes", *FORMS) if getattr(value, name)), too_large)
        except ValueProblem as e:
            found.append((("producers", i, "value", *e.key.split(".")), e.text))
        except _NoRecording as e:
            found.append((("producers", i, "rate", "recording"), str(e)))
    scenario = scenario.model_copy(update={"producers": producers})
    most = sum(p.count * p.most_records(scenario.limits.drive) for p in producers if p.value and p.value.has_id)
    found += [] if found else sample_problems(scenario)
    numbered = [i for i, p in enumerate(producers) if p.value and p.value.id_type not in (None, "text")]
    if not found and numbered and most > 2**NUMBER_BITS:
        text = f"{most:,} records have ids, and at most {2**NUMBER_BITS:,} do if some are numbers or UUIDs; send fewer"
        found.append((("producers", numbered[0], "records"), text))
    if found:
        lines = [f"{source.origin(path)}: {as_key(path)}: {text}" for path, text in found]
        raise ScenarioError("\n  ".join([f"{headline}:", *lines]))
    return scenario


def _raised(scenario: Experiment, topic: str) -> list[int]:
    """Return the limits for records that faults give a topic."""
    cluster = scenario.cluster_of_topics([topic])
    changes = [f for f in scenario.faults if isinstance(f, TopicConfigSpec) and f.cluster == cluster]
    given = [f.settings.get("max.message.bytes") for f in changes if f.target.topic == topic]
    return [int(limit) for limit in given if limit is not None]


def _too_large(scenario: Experiment, p: Producer, size: int, where: str) -> str:
    """Return that a payload is larger than its topic or its client takes, empty if it is not."""
    if compresses(p):
        return ""
    limits: dict[str, int] = {}
    for topic in map(scenario.topic, p.written):
        if "max.message.bytes" in topic.config or not scenario.unasked:
            broker = scenario.cluster.config.get("message.max.bytes", BROKER_BYTES)
            limit = int(topic.config.get("max.message.bytes", broker))
            limits[f"topic {topic.name} (max.message.bytes)"] = max([limit, *_raised(scenario, topic.name)])
    own = next((p.config[name] for name in _LIMITS if name in p.config), None)
    if own is not None:
        limits["its client library"] = int(own)
    elif p.client.runtime == DEFAULT:
        limits["librdkafka (message.max.bytes)"] = LIBRDKAFKA_BYTES
    for who, limit in limits.items():
        if size + RECORD_BYTES > limit:
            return f"a payload has {size:,} bytes ({where}), and {who} takes records of {limit:,} bytes"
    return ""
