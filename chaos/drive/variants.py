"""A/B: one scenario as several runs, with the same seed and timeline, that differ in what its variants set.

`runs/<id>/` is the run directory of the whole: `comparison.json` names the variants and their run directories, which
lie below it and are complete ones; `result.json`, `report.html` and `junit.xml` put them side by side
(`checks.verdict.comparison`).
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.drive import stages
from chaos.run.directory import Run, make_folder, new_run_id, write_atomically
from chaos.scenario.load import find
from chaos.scenario.resolve import new_seed


@dataclass(frozen=True)
class VariantRuns:
    """The run directory of an A/B scenario, and those of its sides by variant."""

    run: Run
    sides: dict[str, Run]


def of(given: stages.ScenarioRequest) -> list[str]:
    """The names of a scenario's variants; none for one that is a single run."""
    return list(given.load().variants)


def prepare(given: stages.ScenarioRequest, runs_dir: Path, run_id: str | None = None) -> VariantRuns:
    """Make the run directories of the whole and of every side; nothing is started."""
    scenario = given.load()
    seed = given.seed if given.seed is not None else scenario.seed
    seeded = replace(given, seed=new_seed() if seed is None else seed)
    run = Run(runs_dir.absolute() / (run_id or new_run_id(find(given.scenario).stem)))
    make_folder(run.path)
    sides = {
        name: stages.prepare(seeded, runs_dir=run.path, variant=name, run_id=side_id(run.run_id, name))
        for name in scenario.variants
    }
    index(run, scenario.title, seeded, {name: side.run_id for name, side in sides.items()})
    return VariantRuns(run, sides)


def side_id(run_id: str, variant: str) -> str:
    """The run id of one side of an A/B run."""
    return f"{run_id}-{variant}"


def index(run: Run, title: str, given: stages.ScenarioRequest, folders: dict[str, str]) -> None:
    """Write down which directory is that of which variant, for who compares them."""
    kafka = f" --kafka {given.kafka}" if given.kafka else ""
    kafka += f" --client {given.client}" if given.client else ""
    sets = "".join(f" --set {shlex.quote(text)}" for text in given.sets)
    name = given.scenario
    data = {
        "scenario": name,
        "title": title,
        "command": f"python -m chaos run {name} --seed {given.seed}{kafka}{sets}",
        "variants": folders,
    }
    write_atomically(run.comparison, json.dumps(data, indent=1) + "\n")
