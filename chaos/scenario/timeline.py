"""The timeline: the ordered steps of a scenario, and which of them are due. Pure: no clock, no cluster.

A step fires at a time or at progress (`acked: 5000`), so that a fault hits the same point of the data on slow and fast
machines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from chaos.faults.base import FaultSpec
from chaos.setup.triggers import PHASES, Acked, After, Phase, Trigger
from chaos.units import format_duration


@dataclass(frozen=True)
class Step:
    """The injection or heal of one fault, and its trigger."""

    fault: str
    action: Literal["inject", "heal"]
    trigger: Trigger | After

    def describe(self) -> str:
        """Return the step as text, such as `inject kill at 8,000 acknowledged records`."""
        if isinstance(self.trigger, Trigger):
            return f"{self.action} {self.fault} {self.trigger.describe()}"
        return f"{self.action} {self.fault} {format_duration(self.trigger.delay_s)} after {self.trigger.phase}"

    @property
    def after(self) -> After | None:
        """The phase of a fault that the step waits for, if its trigger names one."""
        return self.trigger if isinstance(self.trigger, After) else self.trigger.awaited

    def awaits(self) -> set[tuple[str, Phase]]:
        """Return the phases that must come before the step: from its trigger, and for a heal its injection."""
        awaited: set[tuple[str, Phase]] = {(self.fault, "injected")} if self.action == "heal" else set()
        return awaited | {(self.after.fault, self.after.phase)} if self.after else awaited


@dataclass(frozen=True)
class Progress:
    """The progress of a run. Times are seconds since the start of the producers."""

    elapsed_s: float
    acked: Mapping[str, int]
    """Acknowledged records by producer entry."""
    delivered: Mapping[str, int]
    """Processed records by consumer entry."""
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Consumer entries by group."""
    phases: Mapping[tuple[str, Phase], float] = field(default_factory=dict)
    """Times of the phases that have come, by (fault, phase)."""
    moments: Collection[str] = ()
    """Faults whose moment on the wire has come."""
    working: Collection[str] = ()
    """Faults that wait for an application that works again."""


def steps(faults: Iterable[FaultSpec]) -> list[Step]:
    """Return all steps: injections in the order of the faults, each followed by its heal if it has a trigger."""
    timeline: list[Step] = []
    for fault in faults:
        timeline.append(Step(fault.name, "inject", fault.when))
        if fault.heal is not None:
            trigger = fault.heal.when or After(fault.name, "injected", fault.heal.after or 0.0)
            timeline.append(Step(fault.name, "heal", trigger))
    return timeline


def is_due(step: Step, progress: Progress) -> bool:
    """Return whether a step has to fire now. A heal never fires before its injection."""
    if step.action == "heal" and (step.fault, "injected") not in progress.phases:
        return False
    if after := step.after:
        since = progress.phases.get((after.fault, after.phase))
        if since is None or progress.elapsed_s < since + after.delay_s:
            return False
        return not (isinstance(step.trigger, Trigger) and step.trigger.works) or step.fault in progress.working
    if isinstance(step.trigger, Trigger) and step.trigger.wire is not None:
        latest = step.trigger.wire.latest
        return step.fault in progress.moments or (latest is not None and progress.elapsed_s >= latest)
    return isinstance(step.trigger, Trigger) and _is_reached(step.trigger, progress)


def _is_reached(trigger: Trigger, progress: Progress) -> bool:
    """Return whether a trigger at a time or at progress has been reached."""
    if isinstance(trigger.acked, Acked):
        return progress.acked.get(trigger.acked.producer, 0) >= trigger.acked.records
    if trigger.acked is not None:
        return sum(progress.acked.values()) >= trigger.acked
    if trigger.delivered is not None:
        by = trigger.delivered
        entries = [by.consumer] if by.consumer is not None else progress.groups.get(by.group or "", ())
        return sum(progress.delivered.get(entry, 0) for entry in entries) >= by.records
    return trigger.at is not None and progress.elapsed_s >= trigger.at


def unreachable(waiting: Iterable[Step], lost: Iterable[tuple[str, Phase]]) -> list[Step]:
    """Return the steps that can never fire because they wait for a lost phase, directly or through another step.

    A phase is lost when its proof was not found or its injection failed.
    """
    gone, left, result = set(lost), list(waiting), list[Step]()
    while blocked := [step for step in left if step.awaits() & gone]:
        result += blocked
        left = [step for step in left if step not in blocked]
        for step in blocked:
            phases = PHASES if step.action == "inject" else ("healed",)
            gone |= {(step.fault, phase) for phase in phases}
    return result
