"""Exploration: an application is crashed at every kind of moment of its work that the wire can show.

A first run without a crash, in which an instance leaves and comes back, shows the moments (`chaos.relay`): a request
or the answer to one, with the step of the instance before it. Between two steps lies a window in which a crash shows
what an application is made of. Each moment then gets the crash of the instance that is there, then a stop, and, if it
held under the crash, the crash of the instance together with the broker that it speaks to. So what breaks is the
smallest scenario that breaks there: one crash, and for a moment of a rebalance the instance that leaves.

File systems are tested in the same way (ALICE, OSDI 2014; CrashMonkey, OSDI 2018).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from random import Random
from typing import Literal, get_args

from chaos.campaign.engine import Budget, Plan, Report, Trial, conduct, digest_of
from chaos.campaign.folder import Folder, resumed
from chaos.campaign.score import tally, this_machine
from chaos.campaign.subject import Raw, Request, Subject, dump, raw_of
from chaos.errors import RunDirError, UsageError
from chaos.lab.progress import ProgressListener
from chaos.relay.roles import MomentApi
from chaos.run.campaign import Part, PartsResult, TrialRun
from chaos.run.directory import Run
from chaos.run.events import MOMENTS, now_us, read_events
from chaos.run.result import EFFECT_KINDS, Result
from chaos.scenario.load import parse

KIND = "explore"
BUDGET = "60,10m"
BASELINE, LEAVE, CRASH = "baseline", "leave", "crash"
MEMBERSHIP = ("JoinGroup", "SyncGroup", "LeaveGroup", "OffsetFetch", "InitProducerId")
"""Steps that an instance takes only when it comes or when its group changes."""
Blow = Literal["kill", "stop", "broker"]
BLOWS: dict[Blow, str] = {"kill": "killed", "stop": "asked to end", "broker": "killed with its broker"}
"""What happens at a moment, in the order in which the exploration tries it."""
DRIVE = "60s"
"""Limit of a run's load: a moment that does not come until then is not reached."""

_ORDER = ("OffsetCommit", "TxnOffsetCommit", "EndTxn", "ShareAcknowledge", "Produce", *get_args(MomentApi))
"""The requests that matter most for what is lost or doubled, then the others."""
STATES = {
    "lost": "effect_missing",
    "doubled": "effect_duplicate",
    "wrong": "effect_wrong",
    "unexpected": "effect_unexpected",
}
"""The states of a moment that broke something, by the kind of effect, the gravest first."""
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


def explore(asked: Request, listener: ProgressListener, report: Report[PartsResult] | None = None) -> PartsResult:
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
    return conduct(plan, folder, asked, listener, lambda runs: plan.result(runs, command), report)


@dataclass
class Exploration(Plan):
    """The first run, then every moment that it showed with each blow."""

    subject: Subject
    folder: Folder
    _made: dict[str, Trial] = field(default_factory=dict)
    """The trials by their names: a plan is asked after each run, and a scenario is parsed once."""

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the trials that are wanted after these runs."""
        first = self._trial(BASELINE, BASELINE, lambda: map(leave, self._apps))
        if not any(run.part == BASELINE and run.verdict == "pass" for run in runs):
            return [first]  # what breaks without a crash, or is not known, says nothing about crashes
        broken = {run.part for run in runs if run.verdict == "fail"}
        planned = [
            self._trial(part_of(moment, blow), name_of(moment, blow), partial(self._faults, moment, blow))
            for blow in get_args(Blow)
            for moment in self.moments
            if blow != "broker" or part_of(moment, "kill") not in broken
        ]
        return [first, *planned]

    def is_over(self, runs: Sequence[TrialRun]) -> bool:
        """Return whether the first run leaves nothing to explore."""
        return any(run.part == BASELINE and run.verdict != "pass" for run in runs)

    @property
    def _apps(self) -> list[str]:
        return [app.name for app in self.subject.scenario.apps if not app.external]

    @cached_property
    def moments(self) -> list[Moment]:
        """The moments that the first run showed, the most interesting ones first."""
        run = Run(self.folder.path / self._run_id(BASELINE))
        counts: Counter[tuple[str, str, str]] = Counter()
        for event in read_events(run):
            if event.get("kind") == MOMENTS:
                for instance, rows in event["by_instance"].items():
                    for after, name, count in rows:
                        counts[instance.partition("/")[0], name, after] += count
        known = [Moment(app, name, after, n) for (app, name, after), n in counts.items() if after and app in self._apps]
        return sorted(known, key=_interest)

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
        return Trial(self._run_id(name), subject, part, title=part if name == BASELINE else f"{part} ({name})")

    def result(self, runs: list[TrialRun], command: str) -> PartsResult:
        """Return the table of moments."""
        first = next((run for run in runs if run.part == BASELINE), None)
        wanted = [trial.part for trial in self.trials(runs)]
        ran = [name for name in wanted if any(run.part == name for run in runs)]
        parts = [self._part(name, [run for run in runs if run.part == name]) for name in ran]
        tried = [part for part in parts if part.name != BASELINE]
        untried = [name for name in wanted if name not in ran]
        broken = [part for part in tried if part.state in BROKEN]
        held = [part for part in tried if part.state == "held"]
        if first is None or first.verdict != "pass":
            why = f"the run without a crash is no pass: {first.sentence}" if first else "the first run did not end"
            verdict, sentence = (first.verdict if first else "inconclusive"), f"Nothing was explored, because {why}"
        else:
            verdict = "fail" if broken else "pass" if held else "inconclusive"
            sentence = (
                f"{len(broken)} of {len(tried)} moments of a crash lost or doubled something, {len(held)} held, "
                f"{len(tried) - len(broken) - len(held)} are not decided, {len(untried)} were not tried."
            )
        return PartsResult(
            kind=KIND,
            title=f"Crashes at every moment of {', '.join(self._apps)}",
            verdict=verdict,
            sentence=sentence,
            command=command,
            machine=this_machine(),
            made_us=now_us(),
            seed=self.subject.seed,
            repeat=1,
            notes=[*self._mends(broken), *_left(untried)],
            parts=parts,
        )

    def _part(self, name: str, runs: list[TrialRun]) -> Part:
        state = self._state(runs)
        return tally(name, runs).model_copy(update={"state": state})

    def _state(self, runs: list[TrialRun]) -> str:
        for state, kind in STATES.items():
            if any(run.verdict == "fail" and run.count(kind) for run in runs):
                return state
        if any(run.verdict == "fail" for run in runs):
            return "broken"
        if any(run.verdict == "pass" for run in runs):
            return "held"
        return "not reached" if "never injected" in runs[0].sentence else "undecided"

    def _mends(self, broken: list[Part]) -> list[str]:
        """Return what happened at the moments that broke and what prevents it, each cause once."""
        found: dict[str, str] = {}
        for part in broken:
            for run in part.runs:
                try:
                    result = Result.read(Run(self.folder.path / run.run_id))
                except RunDirError:
                    continue
                for effect in result.effects:
                    for story in effect.stories:
                        mend = f". What prevents it: {story.prevents}" if story.prevents else ""
                        found.setdefault(story.cause or story.kind, f"{part.name}: {story.sentence}{mend}")
        return list(found.values())


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
