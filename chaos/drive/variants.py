"""A/B runs: runs of each variant of a scenario, with the same seed and timeline for all variants of a round.

The run directory of an A/B scenario, `runs/<id>/`, contains the complete run directories of its variants.
`comparison.json` lists them; `chaos.campaign.comparison` writes `result.json`, `report.html` and `junit.xml` with the
variants side by side.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.drive import stages
from chaos.run.directory import Run, make_folder, new_run_id, write_json
from chaos.scenario.load import find
from chaos.scenario.resolve import new_seed, seeds


@dataclass(frozen=True)
class Side:
    """One run of a variant: the name of the variant, the round, from 1, the request with its seed, and the run id."""

    variant: str
    number: int
    request: stages.ScenarioRequest
    run_id: str


def sides(request: stages.ScenarioRequest, run_id: str, repeat: int = 1) -> list[Side]:
    """Return the runs of an A/B scenario, round after round, so that a slow machine treats the variants alike.

    All variants of a round have one seed, and each round has another one. Raises `ScenarioError`.
    """
    scenario = request.load()
    seed = request.seed if request.seed is not None else scenario.seed
    return [
        Side(name, number, replace(request, seed=drawn), variant_run_id(run_id, name, number))
        for number, drawn in enumerate(seeds(new_seed() if seed is None else seed, repeat), 1)
        for name in scenario.variants
    ]


def prepare(request: stages.ScenarioRequest, runs_dir: Path, run_id: str | None = None) -> Run:
    """Make the run directories of an A/B scenario and of a run of each variant. Starts nothing."""
    run = Run(runs_dir.absolute() / (run_id or new_run_id(find(request.scenario).stem)))
    make_folder(run.path)
    planned = sides(request, run.run_id)
    for one in planned:
        stages.prepare(one.request, runs_dir=run.path, variant=one.variant, run_id=one.run_id)
    write_comparison(run, planned)
    return run


def variant_run_id(run_id: str, variant: str, number: int = 1) -> str:
    """Return the run id of one variant of an A/B run. number: of the round."""
    return f"{run_id}-{variant}" + (f"-{number}" if number > 1 else "")


def write_comparison(run: Run, planned: Sequence[Side]) -> None:
    """Write `comparison.json`: the command that repeats the runs, and the run directories of each variant."""
    request, repeat = planned[0].request, planned[-1].number
    folders: dict[str, list[str]] = {}
    for one in planned:
        folders.setdefault(one.variant, []).append(one.run_id)
    given = {
        "kafka": request.kafka,
        "driver": request.driver,
        "bootstrap": request.bootstrap,
        "client": request.client,
    }
    options = "".join(f" --{name} {value}" for name, value in given.items() if value)
    options += "".join(f" --set {shlex.quote(text)}" for text in request.sets)
    options += f" --repeat {repeat}" if repeat > 1 else ""
    options += " --i-own-this-cluster" if request.i_own_this_cluster else ""
    data = {
        "scenario": request.scenario,
        "title": request.load().title,
        "command": f"python -m chaos run {request.scenario} --seed {request.seed}{options}",
        "variants": folders,
    }
    write_json(run.comparison, data)
