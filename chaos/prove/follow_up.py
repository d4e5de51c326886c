"""The runs that follow from others: again without a verdict, and after a break the subsets and what mends it.

Each break is confirmed by more runs of its set, and each smaller set runs as often, so that the smallest one that shows
it is known. Only the first sets that show a break of the same kind are followed up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chaos.contract import contract
from chaos.errors import AftershockError
from chaos.kafka.settings import Scalar
from chaos.promise.answers import Answer
from chaos.promise.table import match
from chaos.prove.application import Application
from chaos.prove.lifts import describe
from chaos.prove.plan import BASELINE, FaultSet
from chaos.prove.supports import Outcome, outcome_of
from chaos.prove.task import Task, task
from chaos.run.campaign import FoundAnomaly, ProofRun

CONFIRMED = 3
"""Runs of a set that breaks a promise, and of each smaller set."""
TRIES = 2
"""Runs of a set that has no verdict, before it counts as one without."""
FOLLOWED = 2
"""Sets that are followed up for one kind of anomaly."""


@dataclass
class FollowUp:
    """The rules of a proof for further runs. mended: returns the application with other values of some facts."""

    application: Application
    outcomes: list[Outcome]
    sets: Mapping[str, FaultSet]
    seed: int
    mended: Callable[[Mapping[str, Scalar]], Application]
    _lifts: dict[tuple[str, str], Mapping[str, Scalar] | None] = field(default_factory=dict)

    def tasks(self, runs: Iterable[ProofRun]) -> list[Task]:
        """Return the runs that follow from all finished ones and have not been done."""
        done = list(runs)
        named = {run.run_id for run in done}
        wanted: dict[str, Task] = {}
        for one in (*self._again(done), *self._confirmed(done), *self._mends(done)):
            wanted.setdefault(one.run_id, one)
        return [t for name, t in wanted.items() if name not in named]

    def _task(self, name: str, purpose: str, n: int) -> Task:
        return task(self.application, self.sets[name], self.seed, purpose, n)  # type: ignore[arg-type]

    def _again(self, runs: list[ProofRun]) -> Iterator[Task]:
        for name, own in _by_set(runs).items():
            if all(run.state == "unknown" for run in own) and len(own) < TRIES:
                yield self._task(name, "again", len(own) + 1)

    def _confirmed(self, runs: list[ProofRun]) -> Iterator[Task]:
        """Yield the runs that confirm the breaks, and those of their subsets."""
        by_set = _by_set(runs)
        for name in self._followed(runs, "forbidden"):
            for n in range(2, CONFIRMED + 1):
                yield self._task(name, "again", n)
            for smaller in smaller_sets(self.sets[name]):
                before = sum(run.purpose != "smaller" for run in by_set.get(smaller, []))
                for n in range(1, CONFIRMED + 1 - before):
                    yield self._task(smaller, "smaller", n)

    def _followed(self, runs: list[ProofRun], state: str) -> list[str]:
        """Return the sets that are followed up: the first ones that show each kind of anomaly."""
        found: dict[str, list[str]] = {}
        for run in runs:
            for anomaly in run.found(state) if run.purpose in ("first", "again") else ():
                sets = found.setdefault(anomaly.name, [])
                if run.set not in sets and len(sets) < FOLLOWED:
                    sets.append(run.set)
        return list(dict.fromkeys(name for sets in found.values() for name in sets))

    def _mends(self, runs: list[ProofRun]) -> Iterator[Task]:
        """Yield the first set that shows an anomaly, with the setting that mends it; again if that has no verdict."""
        tried: set[str] = set()
        for run in runs:
            for anomaly in run.anomalies if run.purpose == "first" and run.state != "unknown" else ():
                if anomaly.name in tried or (lifts := self.lifts_for(run, anomaly)) is None:
                    continue
                tried.add(anomaly.name)
                of_set = [r for r in runs if (r.set, r.purpose) == (run.set, "mended")]
                own = [r for r in of_set if r.change == describe(lifts)]
                if all(r.state == "unknown" for r in own) and len(own) < TRIES:
                    n = len(of_set) + 1
                    yield task(self.mended(lifts), self.sets[run.set], self.seed, "mended", n, describe(lifts))

    def lifts_for(self, run: ProofRun, anomaly: FoundAnomaly) -> Mapping[str, Scalar] | None:
        """Return the settings with which the contract forbids the anomaly under the same faults; None if unknown."""
        key = run.set, anomaly.name
        if key not in self._lifts:
            self._lifts[key] = self._search_lifts(run, anomaly)
        return self._lifts[key]

    def _search_lifts(self, run: ProofRun, anomaly: FoundAnomaly) -> Mapping[str, Scalar] | None:
        kind, _, split = anomaly.name.partition(".")
        found = [a.lifts for a in self.answers(outcome_of(anomaly.name, self.outcomes)) if a.lifts]
        together = {fact: value for lifts in found for fact, value in lifts.items()}
        for lifts in [*found, together] if found else ():
            try:
                mended = task(self.mended(lifts), self.sets[run.set], self.seed)
            except AftershockError:  # the application cannot have this setting
                continue
            sensible = all(match(f.rule.when, self.mended(lifts).facts).holds for f in self.sets[run.set].faults)
            if sensible and contract(mended.subject.scenario).line(kind, split).state == "forbidden":
                return lifts
        return None

    def answers(self, promise: str) -> list[Answer]:
        """Return what `promise` says about a promise."""
        named = next((outcome.answers for outcome in self.outcomes if outcome.id == promise), ())
        return [a for a in self.application.promises.answers if f"{a.aspect}/{a.id}" in named]


def smaller_sets(faults: FaultSet) -> list[str]:
    """Return the ids of the sets that lack one fault of a set."""
    if not faults.faults:
        return []
    return [fault.id for fault in faults.faults] if len(faults.faults) > 1 else [BASELINE]


def _by_set(runs: Iterable[ProofRun]) -> dict[str, list[ProofRun]]:
    """Return the runs of each set without another setting."""
    found: dict[str, list[ProofRun]] = {}
    for run in runs:
        if run.purpose != "mended":
            found.setdefault(run.set, []).append(run)
    return found
