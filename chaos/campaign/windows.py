"""Exploration: an application is crashed at every kind of moment of its work that the wire can show.

A first run without a crash, in which an instance leaves and comes back, shows the moments (`chaos.relay`): a request
or the answer to one, with the step of the instance before it. Between two steps lies a window in which a crash shows
what an application is made of. Each moment then gets the crash of the instance that is there, then a stop, and, if it
held under the crash, the crash of the instance together with the broker that it speaks to. What only a process that
lives can do, to send again, is seen where the answer to a write is lost, once for each kind. So what breaks is the
smallest scenario that breaks there: one crash, and for a moment of a rebalance the instance that leaves. If the
instance that leaves breaks something by itself, the moments are those of a run in which none leaves.

File systems are tested in the same way (ALICE, OSDI 2014; CrashMonkey, OSDI 2018).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from chaos.campaign.engine import Trial
from chaos.campaign.mechanisms import of_run, showing
from chaos.campaign.moments import BASELINE, CALM, ONE_AT_A_TIME, FromMoments, Moment, leave, source_of
from chaos.campaign.score import tally
from chaos.campaign.subject import Raw
from chaos.faults.apps import NOTHING_TO
from chaos.run.campaign import Part, TrialRun
from chaos.run.exploration import BLOWS, Blow, ExploreResult, Filed, Window, has_blow
from chaos.run.result import Verdict
from chaos.run.result import merge as worst

CRASH = "crash"
ROUNDS: tuple[tuple[Blow, ...], ...] = (("kill", "answer"), ("stop",), ("broker",))
"""The blows that are tried at all moments before the next ones."""
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


class Exploration(FromMoments):
    """Every moment that the first run showed, with each blow."""

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the trials that are wanted after these runs."""
        first = self.first_runs(runs)
        if (source := source_of(runs)) is None:
            return first
        broken = {run.part for run in runs if run.verdict == "fail"}
        planned = [
            self.trial(part_of(moment, blow), name_of(moment, blow), partial(self._faults, moment, blow))
            for blows in ROUNDS
            for moment in self.moments_of(source)
            for blow in blows
            if has_blow(moment.name, moment.after, blow) and (blow != "broker" or part_of(moment, "kill") not in broken)
        ]
        return [*first, *planned]

    def _faults(self, moment: Moment, blow: Blow) -> list[Raw]:
        """Return the faults at a moment, and before it what makes it come."""
        wire = moment.wire(moment.nth(self.subject.seed))
        if blow == "answer":
            frames = {"app": moment.app, "api": moment.api, "side": moment.side, "count": 1}
            until = {"when": {"after": f"{CRASH}.proven + 1s"}}  # it is the next such answer, and may be seconds away
            broker = {"target": {"broker_of_moment": True}, "when": {"wire": wire}, "heal": until}
            return [{"name": CRASH, "kind": "wire.cut", **frames, **broker}]
        kind = "app.stop" if blow == "stop" else "app.kill"
        faults: list[Raw] = [leave(moment.app)] if moment.of_change else []
        crash = {"name": CRASH, "kind": kind, "target": {"app": moment.app}, "when": {"wire": wire}}
        faults.append({**crash, "ends_sessions": True})
        if blow == "broker":
            broker = {"name": "broker", "kind": "broker.kill", "target": {"broker_of_moment": True}}
            faults.append({**broker, "when": {"wire": wire}, "heal": {"after": "3s"}})
        return faults

    def expected(self, faults: Sequence[Raw]) -> Raw:
        """Return the bounds of effects: nothing is missing, and the scenario's upper bounds for the other kinds."""
        bounds: dict[str, Raw] = {}
        for name, kinds in self.allowed.items():
            most = {kind: {"min": 0} if n is None else {"max": n} for kind, n in kinds.items()}
            bounds[name] = {**most, "missing": 0}
        return {"effects": bounds}

    def describe(self, run: TrialRun) -> str:
        """Return what the crash did, as a phrase."""
        shown = super().describe(run)
        if run.part in (BASELINE, CALM):
            return shown
        nothing = run.verdict == "pass" and not any(run.anomalies.values())
        return state_of([run]) if nothing else f"{state_of([run])}: {shown}"

    def result(self, runs: list[TrialRun], command: str, seconds: float) -> ExploreResult:
        """Return the windows, and what broke there. seconds: how long the runs took."""
        source = source_of(runs)
        wanted = [trial.part for trial in self.trials(runs)]
        by_part = {name: [run for run in runs if run.part == name] for name in wanted}
        parts = [self._part(name, own) for name, own in by_part.items() if own]
        tried = [part for part in parts if part.name != source]
        untried = [name for name, own in by_part.items() if not own]
        verdict, sentence = _answer(tried, len(untried)) if source else _nothing(parts)
        return self.answer(
            runs,
            command,
            seconds,
            title=f"Crashes at every moment of {', '.join(self.apps)}",
            verdict=verdict,
            sentence=sentence,
            notes=[*_left(untried), *self._one_at_a_time()],
            parts=parts,
            windows=self._windows(source, parts),
            filed=[_filed(key, shown) for key, shown in showing(run for part in parts for run in part.runs).items()],
        )

    def _one_at_a_time(self) -> list[str]:
        return [f"{ONE_AT_A_TIME}{self._outside}"] if self._outside else []

    def _part(self, name: str, runs: list[TrialRun]) -> Part:
        return tally(name, runs).model_copy(update={"state": state_of(runs)})

    def _windows(self, source: str | None, parts: list[Part]) -> list[Window]:
        found = {part.name: part for part in parts}
        windows = []
        if BASELINE in found and source != BASELINE:
            own: dict[Blow, Part] = {"stop": found[BASELINE]}
            windows.append(_window(", ".join(self.apps), "an instance leaves and comes back", "", own))
        for moment in self.moments_of(source) if source else ():
            own = {blow: part for blow in BLOWS if (part := found.get(part_of(moment, blow)))}
            windows.append(_window(moment.app, moment.name, moment.after, own))
        return windows


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
    unreached = "never injected" in runs[0].sentence or NOTHING_TO in runs[0].sentence
    return "not reached" if unreached else "undecided"


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


def part_of(moment: Moment, blow: Blow) -> str:
    """Return the name of a moment with a blow, for people."""
    return f"{moment.title}, {BLOWS[blow]}"


def name_of(moment: Moment, blow: Blow) -> str:
    """Return the name of a moment with a blow, for a folder."""
    return f"{moment.app}-{moment.name}-after-{moment.after}-{blow}".replace(" ", "-")
