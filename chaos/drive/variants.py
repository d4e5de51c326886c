"""A/B runs: one run per variant of a scenario, with the same seed and timeline.

The run directory of an A/B scenario, `runs/<id>/`, contains the complete run directories of its variants.
`comparison.json` lists them; `checks.verdict.comparison` writes `result.json`, `report.html` and `junit.xml` with the
variants side by side.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.drive import stages
from chaos.run.directory import Run, make_folder, new_run_id, write_json
from chaos.scenario.load import find
from chaos.scenario.resolve import new_seed


@dataclass(frozen=True)
class VariantRuns:
    """The run directory of an A/B scenario, and the runs of its variants by name."""

    run: Run
    by_variant: dict[str, Run]


def prepare(request: stages.ScenarioRequest, runs_dir: Path, run_id: str | None = None) -> VariantRuns:
    """Make the run directories of an A/B scenario and of each variant. Starts nothing."""
    scenario = request.load()
    seed = request.seed if request.seed is not None else scenario.seed
    seeded = replace(request, seed=new_seed() if seed is None else seed)
    run = Run(runs_dir.absolute() / (run_id or new_run_id(find(request.scenario).stem)))
    make_folder(run.path)
    by_variant = {
        name: stages.prepare(seeded, runs_dir=run.path, variant=name, run_id=variant_run_id(run.run_id, name))
        for name in scenario.variants
    }
    _write_comparison(run, scenario.title, seeded, {name: variant.run_id for name, variant in by_variant.items()})
    return VariantRuns(run, by_variant)


def variant_run_id(run_id: str, variant: str) -> str:
    """Return the run id of one variant of an A/B run."""
    return f"{run_id}-{variant}"


def _write_comparison(run: Run, title: str, request: stages.ScenarioRequest, folders: dict[str, str]) -> None:
    """Write `comparison.json`: the command that repeats the runs, and the run directory of each variant."""
    given = {
        "kafka": request.kafka,
        "driver": request.driver,
        "bootstrap": request.bootstrap,
        "client": request.client,
    }
    options = "".join(f" --{name} {value}" for name, value in given.items() if value)
    options += "".join(f" --set {shlex.quote(text)}" for text in request.sets)
    options += " --i-own-this-cluster" if request.i_own_this_cluster else ""
    data = {
        "scenario": request.scenario,
        "title": title,
        "command": f"python -m chaos run {request.scenario} --seed {request.seed}{options}",
        "variants": folders,
    }
    write_json(run.comparison, data)
