"""A/B runs: runs of each variant of a scenario, with the same seed and timeline for all variants of a round.

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
from chaos.scenario.resolve import new_seed, seeds


@dataclass(frozen=True)
class VariantRuns:
    """The run directory of an A/B scenario, and the rounds of its runs: in each, one run of every variant by name."""

    run: Run
    rounds: list[dict[str, Run]]

    @property
    def runs(self) -> list[Run]:
        """All runs, round after round, so that a machine that becomes slower treats the variants alike."""
        return [run for one in self.rounds for run in one.values()]


def prepare(request: stages.ScenarioRequest, runs_dir: Path, run_id: str | None = None, repeat: int = 1) -> VariantRuns:
    """Make the run directories of an A/B scenario and of `repeat` runs of each variant. Starts nothing.

    Each round has another seed.
    """
    scenario = request.load()
    seed = request.seed if request.seed is not None else scenario.seed
    seeded = replace(request, seed=(first := new_seed() if seed is None else seed))
    run = Run(runs_dir.absolute() / (run_id or new_run_id(find(request.scenario).stem)))
    make_folder(run.path)
    rounds = [
        {
            name: stages.prepare(
                replace(seeded, seed=drawn),
                runs_dir=run.path,
                variant=name,
                run_id=variant_run_id(run.run_id, name, number),
            )
            for name in scenario.variants
        }
        for number, drawn in enumerate(seeds(first, repeat), 1)
    ]
    folders = {name: [one[name].run_id for one in rounds] for name in scenario.variants}
    _write_comparison(run, scenario.title, seeded, folders, repeat)
    return VariantRuns(run, rounds)


def variant_run_id(run_id: str, variant: str, number: int = 1) -> str:
    """Return the run id of one variant of an A/B run. number: of the round."""
    return f"{run_id}-{variant}" + (f"-{number}" if number > 1 else "")


def _write_comparison(
    run: Run, title: str, request: stages.ScenarioRequest, folders: dict[str, list[str]], repeat: int
) -> None:
    """Write `comparison.json`: the command that repeats the runs, and the run directories of each variant."""
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
        "title": title,
        "command": f"python -m chaos run {request.scenario} --seed {request.seed}{options}",
        "variants": folders,
    }
    write_json(run.comparison, data)
