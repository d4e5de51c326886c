"""Exploration: an application is crashed at every kind of moment of its work that the wire can show.

A first run without a crash, in which an instance leaves and comes back, shows the moments (`chaos.relay`): a request
or the answer to one, with the step of the instance before it. Between two steps lies a window in which a crash shows
what an application is made of. Each moment then gets the crash of the instance that is there, then a stop, and, if it
held under the crash, the crash of the instance together with the broker that it speaks to. So what breaks is the
smallest scenario that breaks there: one crash, and for a moment of a rebalance the instance that leaves. If the
instance that leaves breaks something by itself, the moments are those of a run in which none leaves.

File systems are tested in the same way (ALICE, OSDI 2014; CrashMonkey, OSDI 2018).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import get_args

from chaos.campaign.engine import Budget, Plan, Report, Trial, conduct, digest_of
from chaos.campaign.folder import Folder, resumed
from chaos.campaign.mechanisms import of_run, showing, with_mechanisms
from chaos.campaign.score import tally, this_machine
from chaos.campaign.subject import Raw, Request, Subject, dump, raw_of
from chaos.errors import UsageError
from chaos.lab.lab import FinishedRun
from chaos.lab.progress import ProgressListener
from chaos.relay.roles import MomentApi
from chaos.run.campaign import Part, TrialRun
from chaos.run.directory import Run
from chaos.run.events import MOMENTS, now_us, read_events
from chaos.run.exploration import BLOWS, Blow, ExploreResult, Filed, Window
from chaos.run.result import EFFECT_KINDS, Verdict
from chaos.run.result import merge as worst
from chaos.scenario.load import parse

KIND = "explore"
BUDGET = "60,10m"
BASELINE, CALM, LEAVE, CRASH = "baseline", "calm", "leave", "crash"
MEMBERSHIP = ("JoinGroup", "SyncGroup", "LeaveGroup", "OffsetFetch", "InitProducerId")
"""Steps that an instance takes only when it comes or when its group changes."""
DRIVE = "60s"
"""Limit of a run's load: a moment that does not come until then is not reached."""

_ORDER = ("OffsetCommit", "TxnOffsetCommit", "EndTxn", "ShareAcknowledge", "Produce", *get_args(MomentApi))
"""The requests that matter most for what is lost or doubled, then the others."""
STATES = {
    "hung": "effect_missing",
    "lost": "effect_missing",
    "doubled": "effect_duplicate",
    "wrong": "effect_wrong",
    "unexpected": "effect_unexpected",
}
"""The states of a moment that broke something, by the kind of effect, the gravest first. It hung if everything that is
missing is so because the application did not go on after the crash."""
BROKEN = (*STATES, "broken")


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
        """Return which of these moments gets the crash: one in the second quarter, chosen by the seed."""
        first, last = self.count // 4 + 1, max(self.count // 2, 1)
        return Random(f"{seed} {self.title}").randint(min(first, last), last)


def explore(asked: Request, listener: ProgressListener, report: Report[ExploreResult] | None = None) -> ExploreResult:
    """Explore the applications of a scenario. Faults of the scenario are left out.

    Raises `UsageError`, `ScenarioError` or `RunDirError` for a bad request, and as `Lab.drive`.
    """
    asked = resumed(asked, KIND)
    asked = replace(asked, budget=asked.budget or BUDGET)
    Budget.parse(asked.budget)
    subject = asked.subject()
    if not subject.scenario.apps or not subject.scenario.effects:
        raise UsageError(f"{asked.source} has no {'apps' if not subject.scenario.apps else 'effects'} to explore")
    if subject.scenario.attached and subject.scenario.cluster.security.tls:
        raise UsageError(f"{asked.source} is on a cluster with TLS that exists, which hides what applications say")
    asked = asked.fixed(subject)
    parts = [{"name": subject.name, "digest": digest_of(subject.scenario)}]
    folder = Folder.planned(asked, KIND, f"{KIND}-{subject.name}", parts)
    plan = Exploration(subject, folder)
    command = shlex.join(["python", "-m", "chaos", KIND, asked.source, *asked.options()])
    return conduct(plan, folder, asked, listener, lambda runs: plan.result(runs, command, folder.plan.spent_s), report)


@dataclass
class Exploration(Plan):
    """The first run, then every moment that it showed with each blow."""

    subject: Subject
    folder: Folder
    _made: dict[str, Trial] = field(default_factory=dict)
    """The trials by their names: a plan is asked after each run, and a scenario is parsed once."""
    _moments: dict[str, list[Moment]] = field(default_factory=dict)

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the trials that are wanted after these runs."""
        first = [self._trial(BASELINE, BASELINE, lambda: map(leave, self._apps))]
        if any(run.part == BASELINE and run.verdict == "fail" for run in runs):
            first.append(self._trial(CALM, CALM, list))
        if (source := source_of(runs)) is None:
            return first  # what breaks without a crash, or is not known, says nothing about crashes
        broken = {run.part for run in runs if run.verdict == "fail"}
        planned = [
            self._trial(part_of(moment, blow), name_of(moment, blow), partial(self._faults, moment, blow))
            for blow in BLOWS
            for moment in self.moments_of(source)
            if blow != "broker" or part_of(moment, "kill") not in broken
        ]
        return [*first, *planned]

    def is_over(self, runs: Sequence[TrialRun]) -> bool:
        """Return whether the first runs leave nothing to explore."""
        ran = {run.part: run.verdict for run in runs if run.part in (BASELINE, CALM)}
        return ran.get(BASELINE) == "inconclusive" or ran.get(CALM, "pass") != "pass"

    @property
    def _apps(self) -> list[str]:
        return [app.name for app in self.subject.scenario.apps if not app.external]

    def moments_of(self, source: str) -> list[Moment]:
        """Return the moments that a first run showed, the most interesting ones first. source: BASELINE or CALM."""
        if source not in self._moments:
            found = moments_of(Run(self.folder.path / self._run_id(source)), self._apps)
            without_leave = [moment for moment in found if not moment.of_change]
            self._moments[source] = sorted(found if source == BASELINE else without_leave, key=_interest)
        return self._moments[source]

    def _faults(self, moment: Moment, blow: Blow) -> list[Raw]:
        """Return the faults at a moment, and before it what makes it come."""
        wire = {
            "app": moment.app,
            "api": moment.api,
            "side": moment.side,
            "after": moment.after,
            "nth": moment.nth(self.subject.seed),
        }
        kind = "app.stop" if blow == "stop" else "app.kill"
        faults: list[Raw] = [leave(moment.app)] if moment.of_change else []
        faults.append({"name": CRASH, "kind": kind, "target": {"app": moment.app}, "when": {"wire": wire}})
        if blow == "broker":
            broker = {"name": "broker", "kind": "broker.kill", "target": {"broker_of_moment": True}}
            faults.append({**broker, "when": {"wire": wire}, "heal": {"after": "3s"}})
        return faults

    def _expected(self) -> Raw:
        """Return the bounds of effects: nothing is missing, and the scenario's upper bounds for the other kinds."""
        bounds: dict[str, Raw] = {}
        for effect in self.subject.scenario.effects:
            given = self.subject.scenario.expect.effects.get(effect.name)
            most = {kind: getattr(given, kind).max for kind in EFFECT_KINDS} if given else {}
            bounds[effect.name] = {**{kind: {"max": n} for kind, n in most.items() if n}, "missing": 0}
        return {"effects": bounds}

    def _run_id(self, name: str) -> str:
        return f"{self.subject.name}-{name}"

    def _trial(self, part: str, name: str, faults: Callable[[], Iterable[Raw]]) -> Trial:
        if name not in self._made:
            self._made[name] = self._make(part, name, list(faults()))
        return self._made[name]

    def _make(self, part: str, name: str, faults: list[Raw]) -> Trial:
        raw = raw_of(self.subject.scenario)
        raw["faults"] = faults
        raw["limits"] = {**raw.get("limits", {}), "drive": DRIVE}
        raw["expect"] = self._expected()
        scenario = parse(dump(raw), self.subject.source)
        subject = replace(self.subject, scenario=scenario)
        return Trial(self._run_id(name), subject, part, title=part if name in (BASELINE, CALM) else f"{part} ({name})")

    def observe(self, trial: Trial, finished: FinishedRun, folder: Folder) -> TrialRun:
        """Return what is stored of a run, with what the crash broke."""
        return with_mechanisms(super().observe(trial, finished, folder), finished.run)

    def describe(self, run: TrialRun) -> str:
        """Return what the crash did, as a phrase."""
        return super().describe(run) if run.part in (BASELINE, CALM) else f"{state_of([run])}: {super().describe(run)}"

    def result(self, runs: list[TrialRun], command: str, seconds: float) -> ExploreResult:
        """Return the windows, and what broke there. seconds: how long the runs took."""
        source = source_of(runs)
        wanted = [trial.part for trial in self.trials(runs)]
        by_part = {name: [run for run in runs if run.part == name] for name in wanted}
        parts = [self._part(name, own) for name, own in by_part.items() if own]
        tried = [part for part in parts if part.name != source]
        untried = [name for name, own in by_part.items() if not own]
        verdict, sentence = _answer(tried, len(untried)) if source else _nothing(parts)
        return ExploreResult(
            title=f"Crashes at every moment of {', '.join(self._apps)}",
            verdict=verdict,
            sentence=sentence,
            command=command,
            machine=this_machine(),
            made_us=now_us(),
            seed=self.subject.seed,
            repeat=1,
            notes=_left(untried),
            parts=parts,
            windows=self._windows(source, parts),
            filed=[_filed(key, shown) for key, shown in showing(run for part in parts for run in part.runs).items()],
            seconds=round(seconds, 1),
            per_hour=round(3600 * len(runs) / seconds, 1) if seconds else 0.0,
        )

    def _part(self, name: str, runs: list[TrialRun]) -> Part:
        return tally(name, runs).model_copy(update={"state": state_of(runs)})

    def _windows(self, source: str | None, parts: list[Part]) -> list[Window]:
        found = {part.name: part for part in parts}
        windows = []
        if BASELINE in found and source != BASELINE:
            own: dict[Blow, Part] = {"stop": found[BASELINE]}
            windows.append(_window(", ".join(self._apps), "an instance leaves and comes back", "", own))
        for moment in self.moments_of(source) if source else ():
            own = {blow: part for blow in BLOWS if (part := found.get(part_of(moment, blow)))}
            windows.append(_window(moment.app, moment.name, moment.after, own))
        return windows


def source_of(runs: Sequence[TrialRun]) -> str | None:
    """Return the first run that shows the moments: one that passed. An instance leaves in it unless that breaks."""
    passed = {run.part for run in runs if run.verdict == "pass"}
    return next((name for name in (BASELINE, CALM) if name in passed), None)


def moments_of(run: Run, apps: Collection[str]) -> list[Moment]:
    """Return the moments of applications in a run, counted over their instances."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for event in read_events(run):
        if event.get("kind") == MOMENTS:
            for instance, rows in event["by_instance"].items():
                for after, name, count in rows:
                    counts[instance.partition("/")[0], name, after] += count
    return [Moment(app, name, after, n) for (app, name, after), n in counts.items() if after and app in apps]


def _window(app: str, moment: str, after: str, parts: Mapping[Blow, Part]) -> Window:
    states = {str(blow): part.state for blow, part in parts.items()}
    runs = {str(blow): part.runs[0].run_id for blow, part in parts.items()}
    return Window(app=app, moment=moment, after=after, states=states, runs=runs)


def state_of(runs: Sequence[TrialRun]) -> str:
    """Return what the runs of a window show, the gravest state first."""
    broken = [mechanism for run in runs if run.verdict == "fail" for mechanism in run.mechanisms]
    for state, kind in STATES.items():
        own = [mechanism for mechanism in broken if mechanism.name.split(" ")[0] == kind]
        if own and (state != "hung" or all(mechanism.stopped for mechanism in own)):
            return state
    if any(run.verdict == "fail" for run in runs):
        return "broken"
    if any(run.verdict == "pass" for run in runs):
        return "held"
    return "not reached" if "never injected" in runs[0].sentence else "undecided"


def _nothing(parts: Sequence[Part]) -> tuple[Verdict, str]:
    """Return the verdict and the sentence of an exploration that could not begin."""
    if not parts:
        return "inconclusive", "Nothing was explored, because the first run did not end."
    verdict = worst(part.verdict for part in parts)
    why = next(run.sentence for part in parts for run in part.runs if run.verdict == verdict)
    return verdict, f"Nothing was explored, because the run without a crash is no pass: {why}"


def _answer(tried: Sequence[Part], untried: int) -> tuple[Verdict, str]:
    """Return the verdict, and a sentence that claims no more than the runs show."""
    states = Counter(part.state for part in tried)
    broken = {state: states[state] for state in BROKEN if states[state]}
    undecided = len(tried) - sum(broken.values()) - states["held"]
    how = f" ({', '.join(f'{count} {state}' for state, count in broken.items())})" if broken else ""
    verdict: Verdict = "fail" if broken else "pass" if states["held"] else "inconclusive"
    return verdict, (
        f"{sum(broken.values())} of {len(tried)} crashes broke something{how}, {states['held']} held, "
        f"{states['not reached']} were not reached, {undecided - states['not reached']} are not decided, "
        f"{untried} were not tried."
    )


def _filed(key: tuple[str, str], shown: Sequence[TrialRun]) -> Filed:
    """Return a mechanism with the runs that show it."""
    first = shown[0]
    return Filed(
        mechanism=of_run(first, key),
        count=len(shown),
        where=[run.part for run in shown],
        run=first.run_id,
        report=first.report,
        bundle=first.bundle,
        scenario=f"{first.run_id}.yaml",
    )


def _left(untried: Sequence[str]) -> list[str]:
    """Return which moments the budget left, with the number for each blow."""
    counts = Counter(name.rpartition(", ")[2] for name in untried)
    left = ", ".join(f"{count} {how}" for how, count in counts.items())
    return [f"not tried: {left}; --resume goes on"] if left else []


def leave(app: str) -> Raw:
    """Return the fault by which the first instance leaves and comes back, so that the steps of a rebalance come."""
    target, heal = {"app": f"{app}/1"}, {"after": "2s"}
    return {"name": f"{LEAVE}-{app}", "kind": "app.stop", "target": target, "when": {"at": "2s"}, "heal": heal}


def part_of(moment: Moment, blow: Blow) -> str:
    """Return the name of a moment with a blow, for people."""
    return f"{moment.title}, {BLOWS[blow]}"


def name_of(moment: Moment, blow: Blow) -> str:
    """Return the name of a moment with a blow, for a folder."""
    return f"{moment.app}-{moment.name}-after-{moment.after}-{blow}".replace(" ", "-")


def _interest(moment: Moment) -> tuple[int, int, str, str]:
    return _ORDER.index(moment.api), moment.side == "response", moment.name, moment.after
