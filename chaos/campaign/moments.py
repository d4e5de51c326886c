"""Moments of applications, and the runs that show them, with which each exploration begins."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, ClassVar, get_args

from chaos.campaign.at_once import used_outside
from chaos.campaign.engine import Plan, Trial
from chaos.campaign.folder import Folder
from chaos.campaign.mechanisms import with_mechanisms
from chaos.campaign.score import this_machine
from chaos.campaign.subject import Raw, Subject, dump, raw_of
from chaos.lab.lab import FinishedRun
from chaos.relay.roles import MomentApi, StepApi
from chaos.run.campaign import TrialRun
from chaos.run.directory import Run
from chaos.run.events import MOMENTS, now_us, read_events
from chaos.run.exploration import WRITES, ExploreResult
from chaos.run.result import EFFECT_KINDS
from chaos.scenario.expect import ANY, Bound, EffectBound
from chaos.scenario.load import parse
from chaos.setup.effects import Effect

BASELINE, CALM, LEAVE = "baseline", "calm", "leave"
ONE_AT_A_TIME = "one run at a time, as two would share what it uses: "
MEMBERSHIP = ("JoinGroup", "SyncGroup", "LeaveGroup", "OffsetFetch", "InitProducerId")
"""Steps that an instance takes only when it comes or when its group changes."""
_ORDER = (*WRITES, *get_args(MomentApi))
"""The requests that matter most for what is lost or doubled, then the others."""


@dataclass(frozen=True)
class Moment:
    """A moment of an application. after: the last step before it. count: how often it came in the first run."""

    app: str
    name: str
    after: str
    count: int

    @property
    def api(self) -> str:
        """The kind of request."""
        return self.name.partition(" ")[0]

    @property
    def side(self) -> str:
        """Whether it is the request, or its answer."""
        return self.name.partition(" ")[2]

    @property
    def title(self) -> str:
        """The moment as text."""
        return f"{self.app}: {self.name} after {self.after}"

    @property
    def of_change(self) -> bool:
        """Whether the moment comes only when an instance comes or leaves."""
        return self.api in MEMBERSHIP or self.after.startswith(MEMBERSHIP)

    def nth(self, seed: int) -> int:
        """Return which of these moments gets the crash: one in the second quarter, chosen by the seed.

        Of a change of the group, it is one in the third quarter: the first half may be the start of the group, in which
        no instance has work that a crash could lose.
        """
        first, last = self.count // 4 + 1, max(self.count // 2, 1)
        if self.of_change:
            first, last = self.count // 2 + 1, max(3 * self.count // 4, self.count // 2 + 1)
        return Random(f"{seed} {self.title}").randint(min(first, last), last)

    def wire(self, nth: int) -> Raw:
        """Return the trigger at the n-th of these moments."""
        return {"app": self.app, "api": self.api, "side": self.side, "after": self.after, "nth": nth}


def moments_of(run: Run, apps: Collection[str]) -> list[Moment]:
    """Return the moments of applications in a run, counted over their instances."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for event in read_events(run):
        if event.get("kind") == MOMENTS:
            for instance, rows in event["by_instance"].items():
                for after, name, count in rows:
                    counts[instance.partition("/")[0], name, after] += count
    return [Moment(app, name, after, n) for (app, name, after), n in counts.items() if after and app in apps]


def allowed(effect: Effect, given: EffectBound) -> dict[str, float | None]:
    """Return how often each kind of an effect but `missing` may come under any crash; None: in any number.

    A kind that the contract demands, as the wrong side of an A/B scenario does, is what it shows, and not allowed.
    Work that is repeated doubles an effect, and makes an aggregate wrong.
    """
    bounds: dict[str, Bound] = {kind: getattr(given, kind) for kind in EFFECT_KINDS if kind != "missing"}
    if given.at_least_once:
        bounds["wrong" if effect.aggregate else "duplicate"] = ANY
    return {kind: bound.max for kind, bound in bounds.items() if bound.max != 0 and not bound.min}


def leave(app: str) -> Raw:
    """Return the fault by which the first instance leaves and comes back, so that the steps of a rebalance come."""
    when = {"target": {"app": f"{app}/1"}, "when": {"at": "2s"}, "heal": {"after": "2s"}}
    return {"name": f"{LEAVE}-{app}", "kind": "app.stop", "ends_sessions": True, **when}


def by_interest(moments: Collection[Moment]) -> list[Moment]:
    """Return moments, the most interesting ones first, and those last that may not come again.

    These are less than a tenth of their kind: single frames crossed. Work right after a change of the group is among
    them if it followed at most half of the changes, and so is a Fetch of an instance that leaves: it is in a race with
    the end. A run that waits for them in vain is a long one.
    """
    often = Counter[tuple[str, str]]()
    for moment in moments:
        often[moment.app, moment.name] += moment.count

    def place(moment: Moment) -> tuple[bool, int, bool, str, str]:
        expected = moment.of_change and (moment.api in MEMBERSHIP or 2 * moment.count > often[moment.app, moment.after])
        by_chance = not expected and 10 * moment.count < often[moment.app, moment.name]
        by_chance |= moment.after.startswith("LeaveGroup") and moment.api not in get_args(StepApi)
        return by_chance, _ORDER.index(moment.api), moment.side == "response", moment.name, moment.after

    return sorted(moments, key=place)


@dataclass
class FromMoments(Plan):
    """A plan that begins with runs that show the moments of the applications, if the scenario has any.

    In the first run nothing crashes, but an instance of each application leaves and comes back. If that breaks
    something, none leaves in the next one. Nothing else is wanted before one of them has passed: what breaks without a
    crash, or is not known, says nothing about crashes.

    watched: whether runs go one after another if the first ones show that instances use something outside of their run:
    nobody said how many go at once. say: gets what the plan does.
    """

    subject: Subject
    folder: Folder
    watched: bool = False
    say: Callable[[str], None] = field(default=lambda text: None)
    _outside: str | None = None
    """What the first runs use outside; None as long as it is not known."""
    _made: dict[str, Trial] = field(default_factory=dict)
    """The trials by their names: a plan is asked after each run, and a scenario is parsed once."""
    _moments: dict[str, list[Moment]] = field(default_factory=dict)
    drive: ClassVar[str] = "60s"
    """Limit of the load of a run: a moment that does not come until then is not reached."""

    @property
    def allowed(self) -> dict[str, dict[str, float | None]]:
        """What the scenario allows of each effect; see the function."""
        given = self.subject.scenario.expect.effects
        return {e.name: allowed(e, given.get(e.name, EffectBound())) for e in self.subject.scenario.effects}

    def first_runs(self, runs: Sequence[TrialRun]) -> list[Trial]:
        """Return the runs that show the moments, as far as they are wanted after these runs."""
        first = [self.trial(BASELINE, BASELINE, lambda: map(leave, self.apps))]
        if any(run.part == BASELINE and run.verdict == "fail" for run in runs) and self.apps:
            first.append(self.trial(CALM, CALM, list))
        return first

    def is_over(self, runs: Sequence[TrialRun]) -> bool:
        """Return whether the first runs leave nothing to explore."""
        ran = {run.part: run.verdict for run in runs if run.part in (BASELINE, CALM)}
        return ran.get(BASELINE) == "inconclusive" or ran.get(CALM, "pass") != "pass"

    def at_once(self, runs: Sequence[TrialRun]) -> int | None:
        """Return 1 if instances use what the same ones in another run would use, too."""
        first = [run.run_id for run in runs if run.part in (BASELINE, CALM)]
        if self.watched and self._outside is None and first:
            self._outside = "; ".join(filter(None, (used_outside(Run(self.folder.path / name)) for name in first)))
            if self._outside:
                self.say(f"{ONE_AT_A_TIME}{self._outside}")
        return 1 if self._outside else None

    @property
    def apps(self) -> list[str]:
        """The applications that the run starts."""
        return [app.name for app in self.subject.scenario.apps if not app.external]

    def moments_of(self, source: str) -> list[Moment]:
        """Return the moments that a first run showed, the most interesting ones first. source: BASELINE or CALM."""
        if source not in self._moments:
            found = moments_of(Run(self.folder.path / self.run_id(source)), self.apps)
            without_leave = [moment for moment in found if not moment.of_change]
            self._moments[source] = by_interest(found if source == BASELINE else without_leave)
        return self._moments[source]

    @abstractmethod
    def expected(self, faults: Sequence[Raw]) -> Raw:
        """Return the contract of a run with these faults, as plain data."""

    def with_faults(self, faults: Sequence[Raw]) -> Raw:
        """Return the scenario with faults in place of its own, and the contract for them, as plain data."""
        raw = raw_of(self.subject.scenario)
        raw["faults"] = list(faults)
        raw["limits"] = {**raw.get("limits", {}), "drive": self.drive}
        raw["expect"] = self.expected(faults)
        return raw

    def run_id(self, name: str) -> str:
        """Return the name of the directory of a run."""
        return f"{self.subject.name}-{name}"

    def trial(self, part: str, name: str, faults: Callable[[], Iterable[Raw]]) -> Trial:
        """Return the trial of a name, with faults."""
        if name not in self._made:
            self._made[name] = self._make(part, name, list(faults()))
        return self._made[name]

    def _make(self, part: str, name: str, faults: list[Raw]) -> Trial:
        scenario = parse(dump(self.with_faults(faults)), self.subject.source)
        subject = replace(self.subject, scenario=scenario)
        return Trial(self.run_id(name), subject, part, title=part if name in (BASELINE, CALM) else f"{part} ({name})")

    def answer(self, runs: Sequence[TrialRun], command: str, seconds: float, **shown: Any) -> ExploreResult:
        """Return a result: what every exploration has, and what this one shows. seconds: how long the runs took."""
        return ExploreResult(
            command=command,
            machine=this_machine(),
            made_us=now_us(),
            seed=self.subject.seed,
            repeat=1,
            seconds=round(seconds, 1),
            per_hour=round(3600 * len(runs) / seconds, 1) if seconds else 0.0,
            **shown,
        )

    def observe(self, trial: Trial, finished: FinishedRun, folder: Folder) -> TrialRun:
        """Return what is stored of a run, with what it broke."""
        return with_mechanisms(super().observe(trial, finished, folder), finished.run)


def source_of(runs: Sequence[TrialRun]) -> str | None:
    """Return the first run that shows the moments: one that passed. An instance leaves in it unless that breaks."""
    passed = {run.part for run in runs if run.verdict == "pass"}
    return next((name for name in (BASELINE, CALM) if name in passed), None)
