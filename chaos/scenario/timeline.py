"""The timeline: from a scenario to ordered steps, and which of them are due. Pure: no clock, no cluster.

A step fires at a time or at progress (`acked: 5000`), so that a run on a slow machine breaks at the same point of its
data as one on a fast machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from chaos.scenario.model import Scenario
from chaos.scenario.triggers import PHASES, Acked, After, Phase, Trigger, parse_after
from chaos.units import format_duration


@dataclass(frozen=True)
class Step:
    """Inject or heal one fault when its trigger comes true."""

    fault: str
    action: Literal["inject", "heal"]
    trigger: Trigger | After

    def words(self) -> str:
        """The step as a person reads it: `inject kill at 8,000 acknowledged records`."""
        if isinstance(self.trigger, Trigger):
            return f"{self.action} {self.fault} {self.trigger.words()}"
        return f"{self.action} {self.fault} {format_duration(self.trigger.delay_s)} after {self.trigger.phase}"


@dataclass(frozen=True)
class Progress:
    """How far a run has come. Times are seconds since the producers started."""

    elapsed_s: float
    acked: Mapping[str, int]
    """Records acknowledged, by producer entry."""
    delivered: Mapping[str, int]
    """Records processed, by consumer entry."""
    phases: Mapping[tuple[str, Phase], float] = field(default_factory=dict)


def steps(scenario: Scenario) -> list[Step]:
    """All steps: injections in the order of the scenario, each followed by its heal where one is timed."""
    found: list[Step] = []
    for fault in scenario.faults:
        found.append(Step(fault.name, "inject", fault.when))
        if fault.heal is None:
            continue
        if fault.heal.when is not None:
            found.append(Step(fault.name, "heal", fault.heal.when))
        else:
            found.append(Step(fault.name, "heal", After(fault.name, "injected", fault.heal.after or 0.0)))
    return found


def is_due(step: Step, progress: Progress) -> bool:
    """Whether a step's time has come; a heal never comes before its injection."""
    if step.action == "heal" and (step.fault, "injected") not in progress.phases:
        return False
    trigger = step.trigger
    if isinstance(trigger, Trigger):
        if trigger.at is not None:
            return progress.elapsed_s >= trigger.at
        if isinstance(trigger.acked, Acked):
            return progress.acked.get(trigger.acked.producer, 0) >= trigger.acked.records
        if trigger.acked is not None:
            return sum(progress.acked.values()) >= trigger.acked
        if trigger.delivered is not None:
            return progress.delivered.get(trigger.delivered.consumer, 0) >= trigger.delivered.records
        trigger = parse_after(trigger.after or "")
    since = progress.phases.get((trigger.fault, trigger.phase))
    return since is not None and progress.elapsed_s >= since + trigger.delay_s


def hopeless(waiting: Iterable[Step], lost: Iterable[tuple[str, Phase]]) -> list[Step]:
    """The steps that can never come, since they wait for what is lost: a proof that was not found, an injection that
    failed, or a step that is itself without hope.
    """
    gone, left, found = set(lost), list(waiting), list[Step]()
    while more := [step for step in left if _awaited(step) & gone]:
        found += more
        left = [step for step in left if step not in more]
        for step in more:
            phases = PHASES if step.action == "inject" else ("healed",)
            gone |= {(step.fault, phase) for phase in phases}
    return found


def _awaited(step: Step) -> set[tuple[str, Phase]]:
    """The phases that must come first."""
    awaited: set[tuple[str, Phase]] = {(step.fault, "injected")} if step.action == "heal" else set()
    after = step.trigger
    if isinstance(after, Trigger):
        if after.after is None:
            return awaited
        after = parse_after(after.after)
    return awaited | {(after.fault, after.phase)}
