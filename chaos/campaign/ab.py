"""A/B: runs of each variant of a scenario, or of one scenario with and without changed settings, with the same seeds.

Each run has its own brokers, and the next one begins when the verdict is known: a warm cluster or an audit at the same
time would change the times of one side. The folder contains the complete run directories of all variants;
`chaos.campaign.comparison` puts them side by side.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from chaos.campaign.comparison import compare
from chaos.campaign.engine import Budget, Listed, Trial, digest_of, run_campaign
from chaos.campaign.folder import Asked, Folder, kept_request, lasting, resumed
from chaos.campaign.subject import Raw, Request, Subject, dump, load_subject, raw_of
from chaos.drive import stages
from chaos.errors import AftershockError, UsageError
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import Comparison
from chaos.run.directory import Run, new_run_id, write_atomically
from chaos.scenario.load import find, parse
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import check_owner, new_seed, seeds

KIND = "ab"
UNCHANGED, CHANGED = "as-it-was", "with-the-change"
NOTHING = stages.ScenarioRequest("")


@dataclass(frozen=True, kw_only=True)
class VariantsRequest(Asked):
    """The runs of a scenario with variants. given: the scenario with the options of the user."""

    given: stages.ScenarioRequest = NOTHING
    spark_master: str | None = None


@dataclass(frozen=True)
class Variants:
    """Planned runs of variants, and their folder."""

    folder: Folder
    plan: Listed
    asked: VariantsRequest

    @property
    def runs(self) -> list[Run]:
        """The runs of the variants, begun or not."""
        return [Run(self.folder.path / trial.run_id) for trial in self.plan.planned]


def trials_of(
    given: stages.ScenarioRequest, sides: Mapping[str, Scenario], run_id: str, repeat: int = 1
) -> list[Trial]:
    """Return the runs of an A/B scenario, round after round, so that a slow machine treats the variants alike.

    All variants of a round have one seed, and each round has another one. given: with the seed of the first round.
    sides: the scenario of each variant.
    """
    first = given.seed or 0
    return [
        Trial(
            variant_run_id(run_id, name, n),
            Subject(name, given.scenario, side, first),
            name,
            n,
            title=f"{name}, {n}",
            given=replace(given, seed=seed),
            variant=name,
            alone=True,
        )
        for n, seed in enumerate(seeds(first, repeat), 1)
        for name, side in sides.items()
    ]


def variant_run_id(run_id: str, variant: str, number: int = 1) -> str:
    """Return the run id of one variant of an A/B run. number: of the round."""
    return f"{run_id}-{variant}" + (f"-{number}" if number > 1 else "")


def plan_variants(request: VariantsRequest) -> Variants:
    """Check the scenario, and make the folder, or open an earlier folder to go on. Starts nothing.

    Raises `UsageError` or `ScenarioError` for bad input.
    """
    asked = resumed(request, KIND)
    given = replace(asked.given, scenario=lasting(asked.given.scenario))
    if not given.scenario:
        raise UsageError("name a scenario, or --resume with the folder of an A/B run")
    Budget.parse(asked.budget)
    scenario = given.load()
    check_owner(scenario, given.i_own_this_cluster)
    seed = next((s for s in (asked.seed, given.seed, scenario.seed) if s is not None), None)
    given = replace(given, seed=new_seed() if seed is None else seed)
    asked = replace(asked, given=given, seed=given.seed)
    sides = {name: given.load(name) for name in scenario.variants}
    parts = [{"name": name, "digest": digest_of(side)} for name, side in sides.items()]
    folder = Folder.planned(asked, KIND, find(given.scenario).stem, parts)
    return Variants(folder, Listed(trials_of(given, sides, folder.path.name, asked.repeat or 1)), asked)


def prepare(request: VariantsRequest) -> Path:
    """Make the folder and the run directories of all variants, for tasks that run them, and return it.

    Raises as `plan_variants`.
    """
    planned = plan_variants(request)
    for trial in planned.plan.planned:
        assert trial.given is not None  # `trials_of` gives it
        stages.prepare(trial.given, runs_dir=planned.folder.path, variant=trial.variant, run_id=trial.run_id)
    return planned.folder.path


def run_variants(planned: Variants, listener: ProgressListener) -> Comparison:
    """Run what is not stored yet, and write the comparison. Raises as `run_campaign` and `write_comparison`."""
    budget, master = Budget.parse(planned.asked.budget), planned.asked.spark_master
    run_campaign(planned.plan, planned.folder, listener, budget=budget, spark_master=master)
    return write_comparison(planned.folder.path)


def write_comparison(path: Path) -> Comparison:
    """Compare the runs in a folder, write the result with its page and `junit.xml`, and return it.

    Raises `AftershockError` if a run has no result.
    """
    from chaos.report.junit import merged  # imported on use, as the pages

    folder = Folder.open(path, KIND)
    asked = kept_request(folder, VariantsRequest)
    numbers = range(1, (asked.repeat or 1) + 1)
    runs = {part["name"]: [variant_run_id(path.name, part["name"], n) for n in numbers] for part in folder.plan.parts}
    if missing := [run for names in runs.values() for run in names if not (path / run / "result.json").exists()]:
        raise AftershockError(
            f"{path / missing[0]} has no result, so the variants cannot be compared; continue with --resume {path}"
        )
    result = folder.write(compare(path, runs, _command(asked.given, len(numbers))))
    write_atomically(path / "junit.xml", merged(path, result))
    return result


def _command(given: stages.ScenarioRequest, repeat: int) -> str:
    """Return the command that repeats the runs."""
    values = {"kafka": given.kafka, "driver": given.driver, "bootstrap": given.bootstrap, "client": given.client}
    options = "".join(f" --{name} {value}" for name, value in values.items() if value)
    options += "".join(f" --set {shlex.quote(text)}" for text in given.sets)
    options += f" --repeat {repeat}" if repeat > 1 else ""
    options += " --i-own-this-cluster" if given.i_own_this_cluster else ""
    return f"python -m chaos run {shlex.quote(lasting(given.scenario))} --seed {given.seed}{options}"


def plan_ab(request: Request) -> Variants:
    """Check the changes, and make the folder with the scenario of both sides.

    Raises `UsageError` or `ScenarioError` for changes that are invalid or change nothing.
    """
    values = {name: getattr(request, name) for name in ("runs_dir", "into", "resume", "repeat", "budget")}
    if request.resume is not None:
        return plan_variants(VariantsRequest(**values, spark_master=request.spark_master))
    if not request.overrides:
        raise UsageError("ab needs --set: what the two sides differ in, such as producers.shop.config.acks=all")
    if not request.source:
        raise UsageError("name a bundle, a run directory or a scenario")
    subject = load_subject(request.source, request.variant, seed=request.seed)
    check_changes(subject, request.overrides)
    into = (request.into or request.runs_dir / new_run_id(f"{KIND}-{subject.name}")).absolute()
    if into.exists():
        raise UsageError(f"{into} exists already; name a new folder with --into, or go on with --resume")
    into.parent.mkdir(parents=True, exist_ok=True)
    file = into.with_name(f"{into.name}.yaml")
    write_atomically(file, dump(_with_sides(subject, request.overrides)))
    given = stages.ScenarioRequest(str(file), seed=subject.seed)
    values["into"] = into
    return plan_variants(VariantsRequest(**values, given=given, spark_master=request.spark_master))


def check_changes(subject: Subject, changes: Sequence[str]) -> None:
    """Raise `UsageError` or `ScenarioError` for a setting that does not exist, or if nothing changes."""
    changed = subject.set(*changes)
    if changed.scenario == subject.scenario:
        raise UsageError(f"--set {' '.join(changes)} changes nothing: {subject.source} already has these values")
    parse(dump(_with_sides(subject, changes)), subject.source)  # refuses what a variant may not set


def _with_sides(subject: Subject, changes: Sequence[str]) -> Raw:
    raw = raw_of(subject.scenario)
    values = {path.strip(): yaml.safe_load(text) for path, _, text in (change.partition("=") for change in changes)}
    raw["variants"] = {UNCHANGED: {}, CHANGED: {"set": values}}
    return raw
