"""What faults wait for on the wire: a moment, which is held until its fault is in, or an application at work again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from chaos.apps.supervisor import Applications
from chaos.errors import ClientError
from chaos.faults.base import FaultSpec
from chaos.faults.runner import FaultRun
from chaos.faults.wire import front_of
from chaos.relay.control import Hits, Proxy
from chaos.relay.rules import Frames, Rule
from chaos.scenario.timeline import Progress, Step
from chaos.setup.triggers import Trigger

HELD_S = 1.0
"""Time for which a moment is held after its fault has begun. An application that is asked to end may wait for it."""
MOST_HELD_S = 30.0
"""Time for which a moment is held in any case. Shorter than the time-out of any request of a client."""

WATCH_S = 0.005
"""Interval at which the run looks for moments: what an instance does between its moment and its kill is too much."""
LOOK_S = 0.25
"""Interval at which the run looks whether an application works again."""
FETCHES = ("Fetch request", "ShareFetch request")


@dataclass
class _Moment:
    rule: int
    specs: list[FaultSpec]
    """The faults that wait for this one frame."""
    hits: Hits | None = None
    """The counts of the rule since the moment came."""
    since: float = 0.0
    released: bool = False
    suspended: bool = False
    """Whether the instance that spoke is suspended until its end."""

    @property
    def ends(self) -> bool:
        """Whether one of the faults ends the instance that spoke at once."""
        return self.hits is not None and any(spec.ends_at_once(self.hits.front) for spec in self.specs)


class Moments:
    """The moments that faults of a scenario wait for. Faults that wait for the same frame begin together.

    A moment is held before its faults begin. An instance that is killed then is suspended until its end, so that no
    other thread or connection of it gets further, and its request is lost, as if the instance had been killed before it
    sent the request. A held request or answer of any other instance passes once the fault is injected, and at the
    latest after `HELD_S`.
    """

    def __init__(self, proxy: Proxy | None, specs: list[FaultSpec], apps: Applications | None = None) -> None:
        self._proxy, self._specs, self._apps = proxy, [spec for spec in specs if spec.when.wire], apps
        self._moments: list[_Moment] = []
        self._before: dict[str, dict[tuple[str, str], int]] = {}

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Look for the moments, and let everything pass in the end."""
        self._before = self._proxy.moments() if self._proxy else {}
        waiting: dict[Rule, list[FaultSpec]] = {}
        for spec in self._specs:
            assert spec.when.wire
            wire = spec.when.wire
            frames = Frames(api=wire.api, side=wire.side, front=front_of(wire.app), after=wire.after)
            rule = Rule("delay", frames, count=1, skip=wire.nth - 1, delay_s=MOST_HELD_S)
            waiting.setdefault(rule, []).append(spec)
        for rule, specs in waiting.items():
            assert self._proxy  # a scenario with such a trigger has a proxy
            self._moments.append(_Moment(self._proxy.add(rule), specs))
        try:
            yield
        finally:
            for moment in self._moments:
                self._release(moment)

    def counted(self) -> dict[str, list[tuple[str, str, int]]]:
        """Return how often each moment came by instance since `armed`: the step before it, the moment, the count."""
        found: dict[str, list[tuple[str, str, int]]] = {}
        for front, moments in (self._proxy.moments() if self._proxy else {}).items():
            before = self._before.get(front, {})
            counts = [
                (last, moment, count - before.get((last, moment), 0)) for (last, moment), count in moments.items()
            ]
            found[front] = [row for row in counts if row[2]]
        return found

    def came(self) -> dict[str, Hits]:
        """Return the moments that came so far, by fault: the instance and the broker that spoke."""
        for moment in self._moments:
            if (
                moment.hits is None
                and not moment.released
                and self._proxy
                and (counts := self._proxy.counts(moment.rule)).hits
            ):
                moment.hits, moment.since = counts, time.monotonic()
                self._suspend(moment)
        return {spec.name: moment.hits for moment in self._moments if moment.hits for spec in moment.specs}

    def watch(self, seconds: float) -> None:
        """Sleep, and suspend an instance that is to be killed as soon as its moment comes."""
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            awaited = any(moment.hits is None and not moment.released for moment in self._moments)
            time.sleep(min(left_s, WATCH_S) if awaited else left_s)
            if awaited:
                self.came()

    def _suspend(self, moment: _Moment) -> None:
        if self._apps and moment.hits and moment.ends:
            with suppress(ClientError):  # it has ended already, which the fault says
                self._apps.pause(moment.hits.front)
                moment.suspended = True

    def pass_by(self, fault: str) -> None:
        """Await the moment of a fault no more, because the fault comes without it."""
        for moment in self._moments:
            rest = [spec for spec in moment.specs if spec.name != fault]
            if moment.hits is None and len(rest) < len(moment.specs):
                moment.specs = rest
                if not rest:
                    self._release(moment)

    def release(self, faults: Mapping[str, FaultRun]) -> None:
        """Let the moments pass that have their faults in, and instances go on that could not be killed."""
        for moment in self._moments:
            if moment.hits is None or (moment.released and not moment.suspended):
                continue
            phases = [faults[spec.name].phases for spec in moment.specs]
            are_in = all({"injected", "failed"} & of_one.keys() for of_one in phases)
            if are_in and moment.suspended:
                moment.suspended = False
                if self._apps and any("failed" in of_one for of_one in phases):
                    self._apps.resume(moment.hits.front)
            if are_in or time.monotonic() - moment.since > HELD_S:
                self._release(moment)

    def _release(self, moment: _Moment) -> None:
        if self._proxy and not moment.released:
            moment.released = True
            self._proxy.remove(moment.rule, lose=moment.ends)


class Recoveries:
    """The applications that faults wait for until they work again: see `chaos.setup.triggers.Works`."""

    def __init__(self, proxy: Proxy | None, apps: Applications | None, specs: list[FaultSpec]) -> None:
        self._proxy, self._apps = proxy, apps
        self._waiting = {spec.name: spec for spec in specs if spec.when.works}
        self._before: dict[str, dict[str, int]] = {}
        """How often each instance had fetched when the awaited phase came, by fault."""
        self._since: dict[str, float] = {}
        """When the awaited phase came, by fault."""
        self._looked = 0.0
        self._working: set[str] = set()

    def working(self, progress: Progress) -> set[str]:
        """Return the faults whose application works again. What was seen less than `LOOK_S` ago is used again."""
        if self._waiting and time.monotonic() - self._looked > LOOK_S:
            self._looked = time.monotonic()
            self._working |= {name for name, spec in self._waiting.items() if self._works(spec, progress)}
            self._waiting = {name: spec for name, spec in self._waiting.items() if name not in self._working}
        return self._working

    def _works(self, spec: FaultSpec, progress: Progress) -> bool:
        awaited, works = spec.when.awaited, spec.when.works
        assert self._apps and works and awaited
        if (awaited.fault, awaited.phase) not in progress.phases:
            return False
        self._since.setdefault(spec.name, time.monotonic())
        return not self._silent(spec, works.app) and not self._apps.unstable(works.app)

    def _silent(self, spec: FaultSpec, app: str) -> list[str]:
        """Return the instances that have fetched nothing since they were looked at first, when the phase had come."""
        assert self._proxy and self._apps
        fetched = {
            front: sum(count for (_, moment), count in of.items() if moment in FETCHES)
            for front, of in self._proxy.moments().items()
        }
        before = self._before.setdefault(spec.name, fetched)
        return [name for name in self._apps.expected(app) if fetched.get(name, 0) <= before.get(name, 0)]

    def given_up(self, steps: Sequence[Step], limit_s: float) -> list[tuple[Step, str]]:
        """Return the steps that wait for an application which has not worked for so long, each with a sentence."""
        now = time.monotonic()
        late = {name for name in self._waiting if now - self._since.get(name, now) > limit_s}
        found = [
            step for step in steps if step.fault in late and isinstance(step.trigger, Trigger) and step.trigger.works
        ]
        return [(step, self.overdue(step.fault, "limits.works")) for step in found]

    def overdue(self, fault: str, limit: str) -> str:
        """Return why a fault still waits for its application, and what to do; empty if it waits for something else.

        A group in a rebalance waits for a member that does not join: the last step of each instance says which one.
        """
        spec = self._waiting.get(fault)
        if spec is None or fault not in self._before:
            return ""
        works = spec.when.works
        assert self._proxy and self._apps and works
        silent, unstable, steps = self._silent(spec, works.app), self._apps.unstable(works.app), self._proxy.steps()
        of_each = [
            f"{name} {'fetched nothing since' if name in silent else 'fetches'}, its last step was "
            f"{steps.get(name, 'none')}"
            for name in self._apps.expected(works.app)
        ]
        lacking = "; ".join([*([unstable] if unstable else []), *of_each])
        return (
            f"{works.app} did not work again after {works.after}: {lacking}; see what its instances wait for in logs/, "
            f"or raise {limit}"
        )
