"""Moments on the wire that do not come any more: the load need not go on for them until `limits.drive`.

A moment is overdue if nothing else is awaited, everything was sent, and the applications have worked it off and are as
they were in the beginning, for `limits.moment` at least. Where that is not known, nothing is overdue.

An application that does not keep up with the load would never have worked it off. So a load that only outlasts the
faults ends if no round was worked off in a share of that time, and what waits then is enough to wait for the moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import get_args

from chaos.apps.supervisor import Applications
from chaos.faults.apps import AppFaultSpec, AppWireSpec
from chaos.faults.base import FaultSpec
from chaos.faults.runner import FaultRun
from chaos.faults.wire import front_of
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.relay.control import Proxy
from chaos.relay.roles import StepApi
from chaos.scenario.model import Scenario
from chaos.scenario.timeline import Step, unreachable
from chaos.setup.triggers import PHASES, Trigger, WireMoment
from chaos.units import format_duration

LOOK_S = 0.5
ROUNDS = 2
"""How often a group commits what was in its topics a moment before: whatever is done for each commit came twice."""
BEHIND = 0.5
"""Share of `limits.moment` in which an application that keeps up works a round off."""
INTERVALS = 2
"""Of the longest time between two moments, so many pass in vain: an application may commit once a minute."""
STEPS = tuple(f"{api} request" for api in get_args(StepApi) if api != "OffsetCommit")
"""Requests that show work which no commit shows. A client may repeat its commits for ever."""

Counts = Mapping[str, Mapping[tuple[str, str], int]]
"""How often moments came by front: pairs of the last step and the moment."""


@dataclass
class Seen:
    """How often something came, when it last did, and the longest time between two times, in s."""

    count: int
    at: float
    longest_s: float = 0.0

    def note(self, count: int, now: float) -> None:
        """Note a count."""
        if count != self.count:
            self.longest_s = max(self.longest_s, now - self.at)
            self.count, self.at = count, now

    def lacks(self, now: float, least_s: float) -> bool:
        """Return whether it has not come for so long that it does not come again: for `least_s` at least."""
        return now - self.at >= max(least_s, INTERVALS * self.longest_s)


@dataclass
class Overdue:
    """The moments of one run that are overdue. partitions: returns the partitions of the run's topics.

    Asks the cluster once in `LOOK_S`, and only while some fault waits for a moment and for nothing else.
    """

    scenario: Scenario
    proxy: Proxy | None
    apps: Applications | None
    kafka: Kafka
    partitions: Callable[[], Collection[TopicPartition]]
    clock: Callable[[], float] = time.monotonic
    _before: Counts = field(default_factory=dict)
    _members: dict[str, int | None] = field(default_factory=dict)
    """The number of members of each application's group before the first fault; None as long as it is not known."""
    _seen: dict[str, Seen] = field(default_factory=dict)
    """The awaited moments by fault, and under the empty name all requests of `STEPS`."""
    _looked: float = 0.0
    _since: float | None = None
    """Since when nothing but moments is awaited; None if something is."""
    _rounds: int = 0
    is_behind: bool = False
    """Whether the applications do not keep up with the load, while nothing but moments is awaited."""
    _ends: dict[TopicPartition, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Note how the applications are when the load begins."""
        specs = [spec for spec in self.scenario.faults if spec.when.wire]
        if not specs or self.proxy is None or self.apps is None:
            return
        now, self._before = self.clock(), self.proxy.moments()
        self._members = {app.name: None for app in self.scenario.apps if app.postgres is None}
        self._seen = {spec.name: Seen(0, now) for spec in specs} | {"": Seen(0, now)}

    def look(
        self, waiting: Sequence[Step], faults: Mapping[str, FaultRun], sent: bool, ended: bool
    ) -> list[tuple[Step, str]]:
        """Return the steps that wait for an overdue moment, each with a sentence; all steps that do, or none.

        sent: whether each producer has sent its records; ended: whether no producer sends any more.
        """
        now = self.clock()
        if self.proxy is None or not self._seen or now - self._looked < LOOK_S:
            return []
        self._looked = now
        stuck = [(step, wire) for step in waiting if (wire := _wire(step))]
        moments = self.proxy.moments() if stuck else {}
        for step, wire in stuck:
            self._seen[step.fault].note(self._count(moments, wire), now)
        self._seen[""].note(self._steps(moments), now)
        self._note_members(faults)
        if not stuck or not sent or not only_moments(waiting) or not self._is_whole(faults):
            self._since, self.is_behind = None, False
            return []
        if self._since is None:
            self._since, self._rounds, self._ends = now, 0, self._now_in_topics()
        least_s, s = self.scenario.limits.moment, now - self._since
        awaited = [self._seen[step.fault] for step, _ in stuck] + ([self._seen[""]] if ended else [])
        self._note_round()
        self.is_behind = not ended and not self._rounds and s >= BEHIND * least_s and bool(self._ends)
        if s < least_s or self._rounds < ROUNDS or not all(seen.lacks(now, least_s) for seen in awaited):
            return []
        return [(step, self._sentence(step, wire, now)) for step, wire in stuck]

    def behind(self) -> str:
        """Return a sentence for a load that ends because the applications do not keep up with it."""
        limit = format_duration(BEHIND * self.scenario.limits.moment)
        return (
            f"the load ends before the moment came: {', '.join(sorted(self._members))} did not work off in {limit} "
            "what had been sent before, and has the rest to work off"
        )

    def _note_members(self, faults: Mapping[str, FaultRun]) -> None:
        """Note the members of groups that are not known yet, unless a fault has begun."""
        assert self.apps is not None
        if None in self._members.values() and not any(fault.phases for fault in faults.values()):
            self._members = {name: self.apps.at_work(name) for name in self._members}

    def _is_whole(self, faults: Mapping[str, FaultRun]) -> bool:
        """Return whether no fault is in, and each application is as it was when the load began."""
        assert self.apps is not None
        if any(fault.busy or not _is_gone(fault.fault.spec, fault.phases) for fault in faults.values()):
            return False
        members = self._members
        return None not in members.values() and all(self.apps.at_work(name) == n for name, n in members.items())

    def _now_in_topics(self) -> dict[TopicPartition, int]:
        """Return the ends of all topics that applications read; empty if one is not known."""
        reads = [{*app.reads} for app in self.scenario.apps if app.name in self._members]
        topics: set[str] = set().union(*reads)
        partitions = [p for p in self.partitions() if p.topic in topics]
        ends = self.kafka.end_offsets(partitions)
        known = all(reads) and topics == {p.topic for p in ends} and len(ends) == len(partitions)
        return ends if known else {}

    def _note_round(self) -> None:
        """Count a round if each group has done what was in its topics when the round began."""
        assert self.apps is not None
        for app in (app for app in self.scenario.apps if app.name in self._members):
            group = self.apps.group_of(app.name)
            own = {p: end for p, end in self._ends.items() if p.topic in app.reads}
            at = self.kafka.done(group, own) if group and own else None
            if at is None or any(at.get(p, 0) < end for p, end in own.items()):
                self._ends = self._ends or self._now_in_topics()
                return
        self._rounds, self._ends = self._rounds + 1, self._now_in_topics()

    def _count(self, moments: Counts, wire: WireMoment) -> int:
        """Return how often a moment came since the load began."""
        return sum(
            count - self._before.get(front, {}).get((last, moment), 0)
            for front, of in moments.items()
            if fnmatchcase(front, front_of(wire.app))
            for (last, moment), count in of.items()
            if moment == f"{wire.api} {wire.side}" and wire.after in (None, last)
        )

    def _steps(self, moments: Counts) -> int:
        return sum(count for of in moments.values() for (_, moment), count in of.items() if moment in STEPS)

    def _sentence(self, step: Step, wire: WireMoment, now: float) -> str:
        seen, limit = self._seen[step.fault], format_duration(self.scenario.limits.moment)
        came = f"it came {seen.count} time{'' if seen.count == 1 else 's'} only" if seen.count else "it never came"
        return (
            f"{wire.describe()} is not waited for any more, {now - seen.at:.0f} s after "
            f"{'the last such moment' if seen.count else 'the load began'}: {came}, and "
            f"{wire.app.partition('/')[0]} worked off all records that were sent, {ROUNDS} times over "
            f"(limits.moment: {limit}); set it earlier or raise limits.moment"
        )


def _wire(step: Step) -> WireMoment | None:
    return step.trigger.wire if isinstance(step.trigger, Trigger) else None


def only_moments(waiting: Sequence[Step]) -> bool:
    """Return whether each step waits for a moment on the wire, or for a fault that does."""
    names = {step.fault for step in waiting if _wire(step)}
    rest = [step for step in waiting if not _wire(step)]
    return len(unreachable(rest, {(name, phase) for name in names for phase in PHASES})) == len(rest)


def _is_gone(spec: FaultSpec, phases: Mapping[str, float]) -> bool:
    """Return whether a fault has not begun, or nothing of it is in force. Instances show what is left of theirs."""
    of_instances = isinstance(spec, AppFaultSpec) and not isinstance(spec, AppWireSpec)
    return not phases or "healed" in phases or (of_instances and "injected" in phases)
