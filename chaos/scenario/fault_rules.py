"""Rules for the faults of a scenario: driver capabilities, triggers, and the order of the timeline.

Rules that depend on the kind of a fault are in its specification (`FaultSpec.problems`). Each message begins with the
key that is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from chaos.cluster.drivers import capabilities
from chaos.cluster.verbs import CAPABILITY_NEEDS
from chaos.scenario.consumers import Assign
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.faults.consumer import ConsumerSeek
from chaos.scenario.setup import Setup
from chaos.scenario.triggers import Acked, Delivered, Trigger, parse_after


def fault_problems(setup: Setup, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield every problem of the faults of a scenario."""
    targets = Counter((fault.kind, fault.target) for fault in faults if fault.once_per_target)
    for i, fault in enumerate(faults):
        yield from _driver_problems(setup, f"faults[{i}]", fault)
        yield from fault.problems(setup, f"faults[{i}]")
        yield from _trigger_problems(setup, faults, f"faults[{i}].when", fault.when)
        if fault.heal and fault.heal.when:
            yield from _trigger_problems(setup, faults, f"faults[{i}].heal.when", fault.heal.when)
    for (kind, target), count in targets.items():
        if count > 1:
            yield f"faults: {kind} of {target.describe()} is given {count} times; it can happen only once"
    yield from _order_problems(faults)


def _driver_problems(setup: Setup, where: str, fault: FaultSpec) -> Iterator[str]:
    """Check that the driver has the capabilities of a fault, and that brokers of an existing cluster may be broken."""
    driver = setup.cluster.driver
    verbs = setup.cluster.verbs.commands() if setup.attached else None
    missing = fault.needs - capabilities(driver, verbs)
    if setup.attached and fault.hits_brokers and not setup.cluster.allow_faults:
        yield (
            f"{where}: {fault.kind} breaks brokers of an existing cluster, which takes "
            "allow_faults: true in cluster, and --i-own-this-cluster on the command line"
        )
    elif missing:
        yield f"{where}: {fault.kind} needs {_describe_missing(missing, driver, verbs)}"


def _describe_missing(missing: frozenset[str], driver: str, verbs: Mapping[str, str] | None) -> str:
    if verbs is None or missing - CAPABILITY_NEEDS.keys():
        return f"{', '.join(sorted(missing))}, which the {driver} driver cannot do"
    commands = sorted({verb for capability in missing for verb in CAPABILITY_NEEDS[capability]} - verbs.keys())
    return f"commands that are not given: {', '.join(f'cluster.verbs.{verb}' for verb in commands)}"


def _trigger_problems(setup: Setup, faults: Sequence[FaultSpec], where: str, trigger: Trigger) -> Iterator[str]:
    if trigger.acked is not None:
        yield from _acked_problems(setup, f"{where}.acked", trigger.acked)
    if trigger.delivered is not None:
        seeks = any(isinstance(fault, ConsumerSeek) for fault in faults)
        yield from _delivered_problems(setup, f"{where}.delivered", trigger.delivered, seeks)
    if trigger.after is not None:
        awaited, names = parse_after(trigger.after).fault, sorted(fault.name for fault in faults)
        if awaited not in names:
            yield f"{where}.after: {awaited!r} is not one of the faults ({', '.join(names)})"


def _acked_problems(setup: Setup, where: str, acked: int | Acked) -> Iterator[str]:
    sent = {p.name: p.count * p.records for p in setup.producers}
    if isinstance(acked, int):
        if acked > sum(sent.values()):
            yield f"{where}: {acked} is never reached, the producers send {sum(sent.values())} records in all"
    elif acked.producer not in sent:
        yield f"{where}.producer: {acked.producer!r} is not one of the producers ({', '.join(sent)})"
    elif acked.records > sent[acked.producer]:
        total = sent[acked.producer]
        yield f"{where}.records: {acked.records} is never reached, {acked.producer} sends {total} records in all"


def _delivered_problems(setup: Setup, where: str, delivered: Delivered, seeks: bool) -> Iterator[str]:
    """Check the entry and the number. With `seeks`, records may be delivered repeatedly and any number is possible."""
    entry = next((c for c in setup.readers if c.name == delivered.consumer), None)
    if entry is None:
        names = ", ".join(c.name for c in setup.readers) or "none given"
        yield f"{where}.consumer: {delivered.consumer!r} is not one of the consumers ({names})"
        return
    total = sum(p.count * p.records for p in setup.producers)
    copies = entry.members if isinstance(entry, Assign) else 1
    if not seeks and delivered.records > total * copies:
        yield f"{where}.records: {delivered.records} is never reached, {total} records are sent in all"


def _order_problems(faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield steps that wait for each other in a circle, so that none of them would ever fire."""
    predecessors: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for fault in faults:
        injected = (fault.name, "injected")
        predecessors[injected] = _awaited(fault.when)
        predecessors[fault.name, "proven"] = {injected}
        predecessors[fault.name, "healed"] = {injected} | (_awaited(fault.heal.when) if fault.heal else set())
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError as e:
        circle = " -> ".join(".".join(step) for step in e.args[1])
        yield f"faults: these steps wait for each other: {circle}"


def _awaited(trigger: Trigger | None) -> set[tuple[str, str]]:
    """Return the phase that a trigger waits for, as (fault, phase)."""
    if trigger is None or trigger.after is None:
        return set()
    after = parse_after(trigger.after)
    return {(after.fault, after.phase)}
