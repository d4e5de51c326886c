"""Rules for triggers: each must be able to fire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from chaos.faults.base import FaultSpec
from chaos.faults.consumers import ConsumerSeekSpec
from chaos.scenario.timeline import steps
from chaos.setup.clients import Assign, Subscribe
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
    if trigger.awaited:
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
