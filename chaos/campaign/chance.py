"""Search by chance without an end: mixtures of faults, drawn from a seed, until the budget is spent.

A mixture has one to four faults, at once, one after another, or with quiet between them, as a nemesis of Jepsen. Each
draw depends on the seed, its number, and the stored runs: what was covered less is drawn rather. A run is judged by
what the settings promise under its faults (`chaos.guarantees`), and by what an application could promise at best, so
that what breaks is a broken promise. The first mixture that shows a mechanism is shrunk to the faults that it needs,
and the mechanism is filed once. Of all other runs a line is kept, and the scenario.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from chaos.campaign.engine import Trial, Wanted
from chaos.campaign.folder import Folder
from chaos.campaign.mechanisms import of_run
from chaos.campaign.mixture import Cell, Mixer, Mixture, names_of
from chaos.campaign.moments import BASELINE, CALM, LEAVE, FromMoments, source_of
from chaos.campaign.score import tally
from chaos.campaign.shrink import Oracle, Search, starting_point
from chaos.campaign.subject import Raw, scenario_of
from chaos.errors import RunDirError
from chaos.faults import SPECS
from chaos.faults.base import FaultSpec
from chaos.guarantees.effects import promised_effects
from chaos.lab.lab import FinishedRun
from chaos.run.campaign import Part, TrialRun
from chaos.run.directory import Run
from chaos.run.exploration import Covered, ExploreResult, Filed
from chaos.run.result import Result, Verdict
from chaos.scenario.load import load
from chaos.scenario.model import Scenario

MIX = "mix"
TRIES = 2
"""Runs of a candidate with fewer faults, before it counts as one without the mechanism."""
KEPT = 20
"""Directories of runs without a verdict that are kept; the sentence of each is."""
RENEWED = 40
"""Mixtures after which a worker begins on a new cluster."""
EACH_S = 60
"""Seconds for a fault: to be due, proven and healed, and for an application to work again after a session ends."""
Key = tuple[str, str]
"""A mechanism: the anomaly and its cause."""


@dataclass
class Shrunk:
    """A mechanism with the smallest mixture that shows it so far. wanted: what the search for it lacks."""

    key: Key
    run: TrialRun
    faults: int
    scenario: Scenario
    wanted: Sequence[Trial] = ()


@dataclass
class RandomSearch(FromMoments):
    """Mixtures without an end, and the candidates of mechanisms that are new.

    ahead: mixtures that are drawn before those before them have a verdict.
    """

    bundles = False

    ahead: int = 2
    _mixer: Mixer | None = None
    _drawn: dict[int, Mixture] = field(default_factory=dict)
    _scenarios: dict[str, Scenario] = field(default_factory=dict)
    _parsed: dict[str, Scenario | None] = field(default_factory=dict)
    _progress: str = ""

    def trials(self, runs: Sequence[TrialRun]) -> Sequence[Trial]:
        """Return the trials that are wanted after these runs: candidates first, then mixtures."""
        first = self.first_runs(runs)
        if (source := source_of(runs)) is None:
            return first
        shrunk = self.shrunk(runs)
        mixtures = [self._mixture(n, runs, source) for n in self._next(runs)]
        cells = {cell for run in runs if run.conclusive for cell in run.covers}
        self._progress = f"{len(cells):,} of {len(self.mixer(source).cells()):,} covered, {len(shrunk)} mechanisms"
        return [*first, *(trial for one in shrunk for trial in one.wanted), *mixtures]

    def mixer(self, source: str) -> Mixer:
        """Return what draws the mixtures. source: the run that shows the moments."""
        if self._mixer is None:
            self.say(f"looking which of {len(SPECS)} kinds of faults the scenario takes")
            moments = self.moments_of(source) if self.apps else []
            self._mixer = Mixer(self.subject, moments, self.with_faults, self._could_break)
        return self._mixer

    def with_faults(self, faults: Sequence[Raw]) -> Raw:
        """Return the scenario with faults, and a load that lasts until all of them are healed."""
        raw = super().with_faults(faults)
        raw["producers"] = [{**producer, "outlast_faults": True} for producer in raw["producers"]]
        limit = f"{drive_s(len(raw['faults']))}s"  # the load goes on while an application is down, and it catches up
        raw["limits"] |= {"drive": limit, "drain": limit}
        return raw

    def expected(self, faults: Sequence[Raw]) -> Raw:
        """Return what the settings promise, and the scenario's kinds of effects in any number; none may be missing."""
        bounds = {name: {kind: {"min": 0} for kind in kinds} for name, kinds in self.allowed.items()}
        return {"promised": True, "effects": bounds}

    def _judged(self, scenario: Scenario) -> Scenario:
        """Return a scenario with the bounds of effects that an application can promise under its faults."""
        if not scenario.effects:
            return scenario
        expect = scenario.expect.model_copy(update={"effects": promised_effects(scenario)})
        return scenario.model_copy(update={"expect": expect})

    def _could_break(self, scenario: Scenario) -> bool:
        """Return whether the contract forbids what a run could show: else the run would prove nothing."""
        bounds = self._judged(scenario).expect.effects.values()
        return not bounds or any(bound.missing.max == 0 or bound.duplicate.max == 0 for bound in bounds)

    def _next(self, runs: Sequence[TrialRun]) -> list[int]:
        """Return the numbers of the next mixtures."""
        done = {number_of(run) for run in runs}
        return [n for n in range(1, len(done) + self.ahead + 1) if n not in done][: self.ahead]

    def _mixture(self, n: int, runs: Sequence[TrialRun], source: str) -> Trial:
        if n not in self._drawn:
            tried = Counter(Cell.parse(cell) for run in runs for cell in run.covers)
            done = {number_of(run) for run in runs}
            tried.update(cell for m, mixture in self._drawn.items() if m not in done for cell in mixture.cells)
            self._drawn[n] = self.mixer(source).draw(Random(f"{self.subject.seed} {MIX} {n}"), tried)
        mixture = self._drawn[n]
        seed = Random(f"{self.subject.seed} run {n}").randrange(2**31)
        subject = replace(self.subject, scenario=self._judged(mixture.scenario), seed=seed)
        title, run_id = f"mixture {n}: {mixture.describe()}", f"{self.subject.name}-{MIX}-{n:04}"
        return Trial(run_id, subject, title, n, title=title, round=1 + n // RENEWED)

    def shrunk(self, runs: Sequence[TrialRun]) -> list[Shrunk]:
        """Return each mechanism in the order in which they came, with the smallest mixture so far.

        What a run without a mixture shows cannot be smaller.
        """
        first: dict[Key, TrialRun] = {}
        plain = {mechanism.key for run in first_failures(runs) for mechanism in run.mechanisms}
        for run in runs:
            if number_of(run):
                for key in [mechanism.key for mechanism in run.mechanisms if mechanism.key not in plain]:
                    first.setdefault(key, run)
        return [self._shrunk(key, run, runs) for key, run in first.items()]

    def _shrunk(self, key: Key, first: TrialRun, runs: Sequence[TrialRun]) -> Shrunk:
        """Return the smallest mixture with a mechanism: the search is repeated over the stored runs."""
        scenario = self._scenario(first)
        subject = replace(self.subject, scenario=scenario, seed=first.seed)
        place = [mechanism.key for mechanism in first.mechanisms].index(key) + 1
        prefix = f"{first.run_id}-{place}-"
        oracle = Oracle(subject, lambda run: shows(run, key), TRIES, runs, prefix)

        def remains(raw: Raw, candidate: Scenario) -> bool:
            if not candidate.faults or _lacks_rebalance(candidate, first):
                return False  # the first run had none; without the rebalance, a fault would wait for it in vain
            limit = drive_s(len(candidate.faults))
            limits = candidate.limits.model_copy(update={"drive": limit, "drain": limit})
            return oracle.remains(raw, candidate.model_copy(update={"limits": limits}))

        search = Search(starting_point(subject), remains, lambda line: None, self._parse, found=True)
        wanted: Sequence[Trial] = ()
        try:
            search.shrink_faults()
        except Wanted as e:
            wanted = e.trials
        smallest = self._parse(str(search.best), search.best) or scenario
        return Shrunk(key, oracle.shown_by or first, len(scenario.faults), smallest, wanted)

    def _scenario(self, run: TrialRun) -> Scenario:
        if run.run_id not in self._scenarios:
            self._scenarios[run.run_id] = load(self.folder.path / f"{run.run_id}.yaml")
        return self._scenarios[run.run_id]

    def _parse(self, text: str, raw: Raw) -> Scenario | None:
        if text not in self._parsed:
            self._parsed[text] = scenario_of(raw)
        return self._parsed[text]

    def observe(self, trial: Trial, finished: FinishedRun, folder: Folder) -> TrialRun:
        """Return what is stored of a run. A run that shows something new is packed; others keep only their line."""
        stored = super().observe(trial, finished, folder)
        runs = folder.runs()
        if number_of(stored):
            cells = concerned(self._drawn[trial.n], stored, finished.run)
            stored = stored.model_copy(update={"covers": [cell.key for cell in cells]})
        shown = [*first_failures(runs), *filter(number_of, runs)]
        known = {mechanism.key for run in shown for mechanism in run.mechanisms}
        new = any(mechanism.key not in known for mechanism in stored.mechanisms) or not number_of(stored)
        if stored.verdict == "fail" and new:
            return stored.model_copy(update={"bundle": folder.pack_run(stored.run_id)})
        if trial.part in (BASELINE, CALM):
            return stored
        if stored.conclusive or sum(not run.conclusive for run in runs) >= KEPT:
            folder.remove_run(stored.run_id)
            return stored.model_copy(update={"report": ""})
        return stored

    def describe(self, run: TrialRun) -> str:
        """Return what a run shows, and how far the search is."""
        return f"{super().describe(run)}; {self._progress}" if self._progress else super().describe(run)

    def result(self, runs: list[TrialRun], command: str, seconds: float) -> ExploreResult:
        """Return what was covered, and what broke. seconds: how long the runs took."""
        source = source_of(runs)
        mixtures = [run for run in runs if number_of(run)]
        filed = self._filed(runs)
        covered = covered_by(mixtures)
        open_ = len(self.mixer(source).cells()) if source else 0
        verdict, sentence = _answer(
            source, runs, mixtures, filed, f"{sum(cell.runs > 0 for cell in covered):,} of {open_:,}"
        )
        return self.answer(
            runs,
            command,
            seconds,
            title=f"Mixtures of faults, drawn at random: {self.subject.scenario.title}",
            verdict=verdict,
            sentence=sentence,
            parts=[_part(run) for run in runs],
            filed=filed,
            covered=covered,
            open=open_,
        )

    def _filed(self, runs: Sequence[TrialRun]) -> list[Filed]:
        mixtures = [run for run in runs if number_of(run)]
        plain = {mechanism.key: run for run in reversed(first_failures(runs)) for mechanism in run.mechanisms}
        found = [_plain(run, key, [m for m in mixtures if shows(m, key)]) for key, run in plain.items()]
        for one in self.shrunk(runs):
            showing = [run for run in mixtures if shows(run, one.key)]
            left = len(one.scenario.faults)
            found.append(
                Filed(
                    mechanism=of_run(one.run, one.key),
                    count=len(showing),
                    where=[run.part for run in showing],
                    run=one.run.run_id,
                    report=one.run.report,
                    bundle=one.run.bundle,
                    faults=[described(fault) for fault in one.scenario.faults],
                    size=f"{left} of {one.faults} faults are needed{', as far as known' if one.wanted else ''}",
                    scenario=f"{one.run.run_id}.yaml",
                )
            )
        return found


def concerned(mixture: Mixture, stored: TrialRun, run: Run) -> list[Cell]:
    """Return the cells that a run says something of: without a verdict, only those of the faults that are why."""
    if stored.conclusive:
        return mixture.cells
    try:
        why = {fault.name for fault in Result.read(run).faults if fault.shortcoming}
    except RunDirError:
        why = set()
    return [cell for name, cell in zip(mixture.names, mixture.cells, strict=True) if name in why] or mixture.cells


def _lacks_rebalance(candidate: Scenario, first: TrialRun) -> bool:
    """Return whether a fault is to come during a rebalance, but not the fault that causes one.

    first: the conclusive run of the mixture, which covers the cells of its faults in their order.
    """
    cells = zip(names_of(len(first.covers)), map(Cell.parse, first.covers), strict=True)
    waiting = {name for name, cell in cells if cell.phase == "rebalance"}
    waits = any(fault.name in waiting for fault in candidate.faults)
    return waits and not any(fault.name.startswith(LEAVE) for fault in candidate.faults)


def number_of(run: TrialRun) -> int:
    """Return the number of a mixture; 0 of another run."""
    return run.n if run.part.startswith("mixture ") else 0


def described(fault: FaultSpec) -> str:
    """Return a fault as text, with its parameters."""
    own = fault.model_dump(mode="json", exclude_defaults=True, exclude=set(FaultSpec.model_fields))
    words = ", ".join(f"{name}={json.dumps(value)}" for name, value in own.items())
    return f"{fault.kind}{words and f' ({words})'} of {fault.aimed_at} {fault.when.describe()}"


def first_failures(runs: Sequence[TrialRun]) -> list[TrialRun]:
    """Return the runs without a mixture that broke something."""
    return [run for run in runs if run.part in (BASELINE, CALM) and run.verdict == "fail"]


def drive_s(faults: int) -> int:
    """Return the limit of the load of a run with so many faults, and of the drain after it, in seconds."""
    return (1 + faults) * EACH_S


def shows(run: TrialRun, key: Key) -> bool:
    """Return whether a run shows a mechanism."""
    return any(mechanism.key == key for mechanism in run.mechanisms)


def covered_by(runs: Iterable[TrialRun]) -> list[Covered]:
    """Return the cells that runs cover, in order."""
    found: dict[Cell, Counter[str]] = {}
    for run in runs:
        for cell in map(Cell.parse, run.covers):
            counts = found.setdefault(cell, Counter())
            counts["runs" if run.conclusive else "undecided"] += 1
            counts["broke"] += run.verdict == "fail"
    return [
        Covered(kind=cell.kind, role=cell.role, phase=cell.phase, **counts) for cell, counts in sorted(found.items())
    ]


def _plain(run: TrialRun, key: Key, mixtures: Sequence[TrialRun]) -> Filed:
    """Return a mechanism of a run without a mixture, with the mixtures that show it, too."""
    without = "an instance leaves and comes back" if run.part == BASELINE else "no fault"
    return Filed(
        mechanism=of_run(run, key),
        count=1 + len(mixtures),
        where=[without, *(mixture.part for mixture in mixtures)],
        run=run.run_id,
        report=run.report,
        bundle=run.bundle,
        scenario=f"{run.run_id}.yaml",
    )


def _part(run: TrialRun) -> Part:
    return tally(run.part, [run]).model_copy(update={"state": {"pass": "held", "fail": "broke"}.get(run.verdict, "")})


def _answer(
    source: str | None, runs: Sequence[TrialRun], mixtures: Sequence[TrialRun], filed: Sequence[Filed], covered: str
) -> tuple[Verdict, str]:
    """Return the verdict, and a sentence that claims no more than the runs show."""
    if source is None:
        why = next((run.sentence for run in runs if run.verdict != "pass"), "the first run did not end")
        verdict: Verdict = "fail" if filed else "inconclusive"
        return verdict, f"Nothing was drawn, because the run without a fault is no pass: {why}"
    counts = Counter(run.verdict for run in mixtures)
    verdict = "fail" if filed or counts["fail"] else "pass" if counts["pass"] else "inconclusive"
    open_ = counts["inconclusive"]
    return verdict, (
        f"{len(filed) or 'No'} mechanism{'' if len(filed) == 1 else 's'} broke a promise: of {len(mixtures)} mixtures, "
        f"{counts['fail']} broke one, {counts['pass']} held, {open_} {'is' if open_ == 1 else 'are'} not decided. "
        f"{covered} combinations of kind, role and phase were covered."
    )
