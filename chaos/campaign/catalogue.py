"""The catalogue: all shipped scenarios, on as few clusters as possible, with what each must show.

A scenario uses the cluster of an earlier one only if both need the same specification and the cluster is healthy and
empty (`chaos.cluster.lending`). No scenario runs again because of its verdict.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chaos.campaign.engine import Budget, Listed, Report, Trial, cluster_of, conduct, digest_of
from chaos.campaign.folder import Asked, Folder, resumed
from chaos.campaign.score import tally, this_machine
from chaos.campaign.subject import Subject
from chaos.drive import stages
from chaos.errors import UsageError
from chaos.guarantees.contract import contract
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import PartsResult, TrialRun
from chaos.run.events import now_us
from chaos.run.result import Verdict, anomaly_name, effect_anomaly, merge
from chaos.scenario.load import find, load
from chaos.scenario.model import Scenario
from chaos.scenario.shipped import sides

KIND = "catalogue"
NOTHING = "none"


@dataclass(frozen=True, kw_only=True)
class CatalogueRequest(Asked):
    """A catalogue. only: patterns of the names of scenarios; all if empty."""

    only: tuple[str, ...] = ()


@dataclass
class Scenarios(Listed):
    """Runs of scenarios as they are shipped. expected: the anomalies that must appear, by part."""

    expected: dict[str, str] = field(default_factory=dict)

    def describe(self, run: TrialRun) -> str:
        """Return the expected and the found anomalies."""
        seen = run.describe() if run.verdict == "pass" else f"{run.describe()}: {run.sentence}"
        return f"expected {self.expected[run.part]}, seen {seen}"

    def parts(self) -> list[dict[str, str]]:
        """Return the content of `plan.json`."""
        setups = {trial.part: digest_of(trial.subject.scenario) for trial in self.planned}
        return [{"name": name, "digest": setups[name]} for name in self.expected]


def names(patterns: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return the shipped scenarios with their variants; only the matching ones if there is a pattern.

    Raises `UsageError` if nothing matches.
    """
    globs = list(patterns) or ["*"]
    found = [
        (name, variant)
        for name, variant in sides()
        if any(fnmatch.fnmatchcase(text, glob) for glob in globs for text in (name, part_name(name, variant)))
    ]
    if not found:
        raise UsageError(f"no shipped scenario is named {' or '.join(globs)}; `python -m chaos list` shows them")
    return found


def part_name(scenario: str, variant: str) -> str:
    """Return the name for people: `leader-kill`, `retry-duplicate/idempotent`."""
    return f"{scenario}/{variant}" if variant else scenario


def scenarios(chosen: Sequence[tuple[str, str]], repeat: int = 1, seed: int | None = None) -> Scenarios:
    """Return the plan to run each scenario with its variant so often, round after round, grouped by cluster."""
    expected: dict[str, str] = {}
    trials: list[Trial] = []
    for name, variant in chosen:
        part, scenario = part_name(name, variant), load(find(name), variant=variant)
        expected[part] = expected_anomalies(scenario)
        first = Trial(
            run_id="",
            subject=Subject(name, name, scenario, seed=0),
            part=part,
            title=part,
            given=stages.ScenarioRequest(name, seed=seed),
            variant=variant,
            listed=(name, variant),
            cluster=cluster_of(scenario),
        )
        trials += [first.repeated(n, "-".join(filter(None, [name, variant, str(n)]))) for n in range(1, repeat + 1)]
    trials.sort(key=lambda t: t.n)
    order = list(dict.fromkeys(t.cluster for t in trials))
    return Scenarios(sorted(trials, key=lambda t: order.index(t.cluster)), expected)


def expected_anomalies(scenario: Scenario) -> str:
    """Return the anomalies that the contract demands: `lost_write at least 1`, or `none`."""
    bounds = {anomaly_name(*key): bound for key, bound in contract(scenario).counts().items()}
    bounds |= {effect_anomaly(kind, name): b for (name, kind), b in scenario.expect.effect_counts().items()}
    demanded = [f"{name} {bound.describe()}" for name, bound in bounds.items() if bound.min > 0]
    return ", ".join(demanded) or NOTHING


def run_catalogue(
    asked: CatalogueRequest, listener: ProgressListener, report: Report[PartsResult] | None = None
) -> PartsResult:
    """Run the chosen scenarios, and write the result. Raises `UsageError` for bad input, else as `Lab.drive`."""
    asked = resumed(asked, KIND)
    Budget.parse(asked.budget)
    repeat = asked.repeat or 1
    plan = scenarios(names(asked.only), repeat, asked.seed)
    folder = Folder.planned(asked, KIND, KIND, plan.parts())
    words = ["python -m chaos catalogue", *(f"--only '{glob}'" for glob in asked.only), f"--repeat {repeat}"]
    command = " ".join([*words, *([f"--seed {asked.seed}"] if asked.seed is not None else [])])

    def judge(runs: list[TrialRun]) -> PartsResult:
        return _judged(plan, runs, repeat, asked.seed, command)

    return conduct(plan, folder, asked, listener, judge, report)


def _judged(plan: Scenarios, runs: list[TrialRun], repeat: int, seed: int | None, command: str) -> PartsResult:
    parts = [tally(name, [r for r in runs if r.part == name], plan.expected[name]) for name in plan.expected]
    missing = len({trial.run_id for trial in plan.planned} - {run.run_id for run in runs})
    incomplete: list[Verdict] = ["inconclusive"] if missing else []
    passed = sum(run.verdict == "pass" for run in runs)
    notes = [f"{missing} of {len(plan.planned)} runs are missing: continue with --resume"] if missing else []
    return PartsResult(
        kind=KIND,
        title="Shipped scenarios",
        verdict=merge([*(run.verdict for run in runs), *incomplete]),
        sentence=f"{passed} of {len(plan.planned)} runs kept their contract.",
        command=command,
        machine=this_machine(),
        made_us=now_us(),
        seed=seed,
        repeat=repeat,
        notes=notes,
        parts=parts,
    )
