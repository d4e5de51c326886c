"""The runs of a proof: sets of faults in their order, their scenarios, and the runs that follow from other runs.

Minimal sets that cut all supports of a promise come first. A set without a verdict runs again. Each break is confirmed
by more runs of its set, and each smaller set runs as often, so that the smallest one that shows it is known. Only the
first sets that show a break of the same kind are followed up.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from chaos.campaign.prove.application import Application, describe
from chaos.campaign.prove.entries import Raw, dump
from chaos.campaign.subject import Subject
from chaos.errors import AftershockError
from chaos.guarantees.contract import contract
from chaos.guarantees.promises import Answer
from chaos.guarantees.supports import FaultClass, Outcome, outcome_of
from chaos.guarantees.table import match
from chaos.kafka.settings import Scalar
from chaos.run.campaign import FoundAnomaly, ProofRun, Purpose
from chaos.scenario.load import parse

BASELINE = "none"
SHARE = 0.3
"""Share of the records before the first fault."""
AFTER_PROOF = "500ms"
LASTS = "3s"
RETURNS_LATER = "2s"
"""Time from the heal of the second fault to the heal of the first, if the replicas of the first come back later."""
CONFIRMED = 3
"""Runs of a set that breaks a promise, and of each smaller set."""
TRIES = 2
"""Runs of a set that has no verdict, before it counts as one without."""
FOLLOWED = 2
"""Sets that are followed up for one kind of anomaly."""


@dataclass(frozen=True)
class FaultSet:
    """Faults of one run. aim: the promise that loses the largest share of supports; None without faults.

    cuts_all: ids of the promises that lose every support. rank: its place in the order, which sorts sets.
    """

    faults: tuple[FaultClass, ...]
    aim: Outcome | None
    cuts_all: tuple[str, ...]
    rank: tuple[float, ...]

    @property
    def id(self) -> str:
        """The ids of its faults, such as `followers-freeze+leader-crash`."""
        return "+".join(fault.id for fault in self.faults) or BASELINE

    @property
    def title(self) -> str:
        """The titles of its faults."""
        return ", then ".join(fault.title for fault in self.faults) or "no fault"

    @property
    def cuts(self) -> tuple[str, ...]:
        """The patterns of the elements that it cuts."""
        return tuple(cut for fault in self.faults for cut in fault.cuts)


@dataclass(frozen=True)
class FaultSets:
    """The sets in their order. unrelated: number of pairs that are left out, as no promise is supported by both."""

    sets: list[FaultSet]
    unrelated: int


def plan(outcomes: Sequence[Outcome], classes: Sequence[FaultClass], most: int = 2) -> FaultSets:
    """Return the sets of at most `most` (1 or 2) faults: no fault, single faults, then pairs.

    A pair is tried if some promise loses more supports by both faults than by each of them.
    """
    singles = sorted((_fault_set([fault], outcomes) for fault in classes), key=lambda s: s.rank)
    pairs: list[FaultSet] = []
    unrelated = 0
    for both in combinations(classes, 2) if most > 1 else ():
        related = list(_related(both, outcomes))
        if related:
            pairs.append(_fault_set(sorted(both, key=lambda fault: not fault.rule.away), related))
        else:
            unrelated += 1
    return FaultSets([FaultSet((), None, (), ()), *singles, *sorted(pairs, key=lambda s: s.rank)], unrelated)


def _related(both: Sequence[FaultClass], outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """Yield the promises that lose more supports by both faults than by each of them."""
    first, second = both
    for outcome in outcomes:
        fewest = min(len(outcome.left(first.cuts)), len(outcome.left(second.cuts)))
        if len(outcome.left((*first.cuts, *second.cuts))) < fewest:
            yield outcome


def _fault_set(faults: Sequence[FaultClass], related: Sequence[Outcome]) -> FaultSet:
    cuts = [cut for fault in faults for cut in fault.cuts]
    share = {o.id: 1 - len(o.left(cuts)) / len(o.supports) for o in related if o.is_touched(cuts)}
    aim = max((o for o in related if o.id in share), key=lambda o: share[o.id], default=None)
    cuts_all = tuple(name for name, part in share.items() if part == 1)
    return FaultSet(tuple(faults), aim, cuts_all, (not cuts_all, -max(share.values(), default=0.0)))


def scenario_of(application: Application, faults: FaultSet) -> Raw:
    """Return the scenario of a set as plain data, judged by the derived contract."""
    raw = copy.deepcopy(application.raw)
    raw["title"] = f"{application.title}: {faults.title}"
    raw["expect"] = "promised"
    raw["faults"] = _faults(application, faults)
    return raw


def subject(application: Application, faults: FaultSet, seed: int) -> Subject:
    """Return the run of a set for the lab. Raises `ScenarioError` if it is not valid."""
    text = dump(scenario_of(application, faults))
    return Subject(faults.id, faults.id, parse(text, faults.id), seed)


def _faults(application: Application, faults: FaultSet) -> list[Raw]:
    if not faults.faults:
        return []
    first, *others = faults.faults
    start = _start(application, first)
    if not others:
        return [_fault(first, start, _heal(first))]
    (second,) = others
    leaves = f"{first.id} + {first.rule.leaves}" if first.rule.leaves else f"{first.id}.proven + {AFTER_PROOF}"
    heal, heal_second = _heal_pair(faults, first, second)
    return [_fault(first, start, heal), _fault(second, {"after": leaves}, heal_second)]


def _fault(fault: FaultClass, when: Raw, heal: Raw) -> Raw:
    heals = bool(fault.rule.stays or fault.rule.lasts)
    return {"name": fault.id, **fault.spec, "when": when, **({"heal": heal} if heals else {})}


def _start(application: Application, fault: FaultClass) -> Raw:
    """Return the trigger of the first fault: a share of the records is acknowledged, or processed."""
    records = max(1, round(application.records * SHARE))
    if fault.rule.after == "delivered":
        return {"delivered": {"consumer": application.names["reader"], "records": records}}
    return {"acked": records}


def _after(text: str) -> Raw:
    return {"when": {"after": text}}


def _heal(fault: FaultClass) -> Raw:
    return {"after": fault.rule.lasts} if fault.rule.lasts else _after(f"{fault.id}.proven + {fault.rule.stays}")


def _heal_pair(faults: FaultSet, first: FaultClass, second: FaultClass) -> tuple[Raw, Raw]:
    """Return when both faults of a pair are healed.

    A replica that is behind has to be back when the second fault strikes: it may then become the leader. A replica that
    has everything has to come back after the others, so that one of them becomes the leader before. Which of both cuts
    the aim decides: whether each support that the first fault cuts is cut by its lag.
    """
    if not first.rule.away or faults.aim is None:
        return _after(f"{second.id}.proven + {AFTER_PROOF}"), _heal(second)
    cut = [support for support in faults.aim.supports if support.is_cut(first.cuts)]
    lags = [pattern for pattern in first.cuts if pattern.endswith(".in_sync")]
    if lags and all(support.is_cut(lags) for support in cut):
        return _after(second.id), _heal(second)
    if not (second.rule.stays or second.rule.lasts):
        return _after(f"{second.id}.proven + {RETURNS_LATER}"), {}
    # with so many brokers away, the second fault may have no proof before its heal
    return _after(f"{second.id}.healed + {RETURNS_LATER}"), {"after": second.rule.lasts or LASTS}


@dataclass(frozen=True)
class Task:
    """A run of a set of faults. n: counts its runs for this purpose. change: the setting of a mended run."""

    faults: FaultSet
    purpose: Purpose
    n: int
    subject: Subject
    change: str = ""

    @property
    def run_id(self) -> str:
        """The name of the run directory."""
        return f"{self.faults.id}-{self.purpose}-{self.n}"

    @property
    def cuts_links(self) -> bool:
        """Whether it needs a cluster with a switch between the brokers."""
        return self.subject.scenario.switched


def task(
    application: Application, faults: FaultSet, seed: int, purpose: Purpose = "first", n: int = 1, change: str = ""
) -> Task:
    """Return a run of a set. seed: of the proof; each run has another one. Raises `ScenarioError`."""
    own = random.Random(f"{seed}/{faults.id}/{purpose}/{n}").randrange(2**31)
    return Task(faults, purpose, n, subject(application, faults, own), change)


@dataclass
class FollowUp:
    """The rules of a proof for further runs. mended: returns the application with other values of some facts."""

    application: Application
    outcomes: list[Outcome]
    sets: Mapping[str, FaultSet]
    seed: int
    mended: Callable[[Mapping[str, Scalar]], Application]
    _remedies: dict[tuple[str, str], Mapping[str, Scalar] | None] = field(default_factory=dict)

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
        for name, own in by_set(runs).items():
            if all(run.state == "unknown" for run in own) and len(own) < TRIES:
                yield self._task(name, "again", len(own) + 1)

    def _confirmed(self, runs: list[ProofRun]) -> Iterator[Task]:
        """Yield the runs that confirm the breaks, and the runs of their subsets."""
        sets = by_set(runs)
        for name in self._followed(runs, "forbidden"):
            for n in range(2, CONFIRMED + 1):
                yield self._task(name, "again", n)
            for smaller in smaller_sets(self.sets[name]):
                before = sum(run.purpose != "smaller" for run in sets.get(smaller, []))
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
                if anomaly.name in tried or (changed := self.remedy_for(run, anomaly)) is None:
                    continue
                tried.add(anomaly.name)
                of_set = [r for r in runs if (r.set, r.purpose) == (run.set, "mended")]
                own = [r for r in of_set if r.change == describe(changed)]
                if all(r.state == "unknown" for r in own) and len(own) < TRIES:
                    n = len(of_set) + 1
                    yield task(self.mended(changed), self.sets[run.set], self.seed, "mended", n, describe(changed))

    def remedy_for(self, run: ProofRun, anomaly: FoundAnomaly) -> Mapping[str, Scalar] | None:
        """Return the settings with which the contract forbids the anomaly under the same faults; None if unknown."""
        key = run.set, anomaly.name
        if key not in self._remedies:
            self._remedies[key] = self._search_remedy(run, anomaly)
        return self._remedies[key]

    def _search_remedy(self, run: ProofRun, anomaly: FoundAnomaly) -> Mapping[str, Scalar] | None:
        kind, _, split = anomaly.name.partition(".")
        found = [a.remedy_settings for a in self.answers(outcome_of(anomaly.name, self.outcomes)) if a.remedy_settings]
        together = {fact: value for changed in found for fact, value in changed.items()}
        for changed in [*found, together] if found else ():
            try:
                mended = task(self.mended(changed), self.sets[run.set], self.seed)
            except AftershockError:  # the application cannot have this setting
                continue
            sensible = all(match(f.rule.when, self.mended(changed).facts).holds for f in self.sets[run.set].faults)
            if sensible and contract(mended.subject.scenario).line(kind, split).state == "forbidden":
                return changed
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


def by_set(runs: Iterable[ProofRun]) -> dict[str, list[ProofRun]]:
    """Return the runs of each set without another setting."""
    found: dict[str, list[ProofRun]] = {}
    for run in runs:
        if run.purpose != "mended":
            found.setdefault(run.set, []).append(run)
    return found
