"""A/B: runs of each variant of a scenario, or of one scenario with and without changed settings, with the same seeds.

Each run has its own brokers, and the next one begins when the verdict is known: a warm cluster or an audit at the same
time would change the times of one side. `chaos.campaign.comparison` puts the sides side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import yaml

from chaos.campaign.engine import Budget, Listed, Trial, digest_of, run_campaign
from chaos.campaign.folder import Asked, Folder, lasting, resumed
from chaos.campaign.subject import Raw, Request, Subject, dump, load_subject, raw_of
from chaos.drive import stages, variants
from chaos.errors import AftershockError, UsageError
from chaos.lab.progress import ProgressListener
from chaos.run.directory import Run, new_run_id, write_atomically
from chaos.scenario.load import find, parse
from chaos.scenario.resolve import check_owner, new_seed

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
    def run(self) -> Run:
        """The run directory of the comparison."""
        return Run(self.folder.path)

    @property
    def runs(self) -> list[Run]:
        """The runs of the variants, begun or not."""
        return [Run(self.folder.path / trial.run_id) for trial in self.plan.planned]


def plan_variants(request: VariantsRequest) -> Variants:
    """Check the scenario, and make the folder, or open the one that goes on. Starts nothing.

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
    planned = variants.sides(given, folder.path.name, asked.repeat or 1)
    variants.write_comparison(Run(folder.path), planned)
    trials = [
        Trial(
            one.run_id,
            Subject(one.variant, given.scenario, sides[one.variant], given.seed or 0),
            one.variant,
            one.number,
            title=f"{one.variant}, {one.number}",
            given=one.request,
            variant=one.variant,
            alone=True,
        )
        for one in planned
    ]
    return Variants(folder, Listed(trials), asked)


def run_variants(planned: Variants, listener: ProgressListener) -> Run:
    """Run what is not stored yet, and return the run of the comparison.

    Raises `AftershockError` if a run has no result, else as `run_campaign`.
    """
    budget, master = Budget.parse(planned.asked.budget), planned.asked.spark_master
    run_campaign(planned.plan, planned.folder, listener, budget=budget, spark_master=master)
    for run in planned.runs:
        if not run.result.exists():
            raise AftershockError(
                f"{run.path} has no result, so the variants cannot be compared; continue with --resume "
                f"{planned.folder.path}"
            )
    return planned.run


def ab(request: Request, listener: ProgressListener) -> Run:
    """Run both sides with the same seeds, `request.repeat` times each, and return their run for the comparison.

    Raises `UsageError` or `ScenarioError` for changes that are invalid or change nothing.
    """
    planned = plan_ab(request)
    listener.say(f"run directory: {planned.folder.path}")
    return run_variants(planned, listener)


def plan_ab(request: Request) -> Variants:
    """Check the changes, and make the folder with the scenario of both sides. Raises as `ab`."""
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
