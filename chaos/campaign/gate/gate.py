"""The use cases of a gate: plan it, run it or some of its cells, and judge its stored runs.

Each repetition is a round through all cells, so that slow changes of the machine affect all of them alike. Within a
round, cells that need the same cluster follow one another on one cluster. The groups swap places from round to round
(A B, B A), and each round starts on a new cluster. A run on a warm cluster is faster, so the first cell of a group
rotates with each round. The n-th run has the same seed in every cell. A cell that cannot run is inconclusive, and the
others go on.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.campaign.engine import Budget, Listed, Report, Trial, conduct, observed, run_campaign
from chaos.campaign.folder import Asked, Folder, lasting, resumed
from chaos.campaign.gate import matrix
from chaos.campaign.gate.judge import GateJudge
from chaos.campaign.gate.matrix import PlannedCell
from chaos.campaign.gate.model import find, load
from chaos.errors import UsageError
from chaos.lab.lab import FinishedRun
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import GateResult, TrialRun
from chaos.scenario.resolve import new_seed, seeds

KIND = "gate"


@dataclass(frozen=True, kw_only=True)
class GateRequest(Asked):
    """A gate and the values that replace values of its file.

    gate: a shipped name or a file. cells: numbers of the only cells to run; their records are judged, their times are
    not.
    """

    gate: str = ""
    baseline: Path | None = None
    cells: tuple[int, ...] = ()


@dataclass
class Cells(Listed):
    """The runs of the cells. A run with other releases than its cell is inconclusive."""

    cells: dict[str, PlannedCell]

    def observe(self, trial: Trial, finished: FinishedRun, folder: Folder) -> TrialRun:
        """Return what is stored of a run."""
        run, key = observed(trial, finished, folder.path), self.cells[trial.part].key
        if (run.kafka, run.client) == (key.kafka, key.client) or not run.conclusive or not finished.run.result.exists():
            return run
        reason = f"It ran with Kafka {run.kafka} and clients {run.client}, which is not its cell: {run.sentence}"
        return run.model_copy(update={"verdict": "inconclusive", "sentence": reason})


def trials_of(cells: Sequence[PlannedCell], repeat: int, seed: int) -> Cells:
    """Return the runs of the cells in the order of the module's description."""
    groups: dict[str, list[PlannedCell]] = {}
    for cell in cells:
        groups.setdefault(cell.cluster, []).append(cell)
    planned = []
    for n, run_seed in enumerate(seeds(seed, repeat), 1):
        for group in list(groups.values())[:: 1 if n % 2 else -1]:
            first = (n - 1) % len(group)
            ordered = (*group[first:], *group[:first])
            planned += [_trial(cell, n, run_seed, n if len(groups) > 1 else 0) for cell in ordered]
    return Cells(planned, {cell.file: cell for cell in cells})


def _trial(cell: PlannedCell, n: int, seed: int, round_: int) -> Trial:
    scenario, _, side = cell.key.scenario.partition("/")
    settings = "" if cell.key.settings == "default" else cell.key.settings
    return Trial(
        run_id=cell.run_id(n),
        subject=cell.subject,
        part=cell.file,
        n=n,
        title=f"{cell.key.name}, {n}",
        seed=seed,
        listed=(scenario, " ".join(filter(None, [side, settings]))),
        tier=(n, cell.cluster),
        cluster=cell.cluster,
        round=round_,
        optional=True,
    )


def plan_gate(request: GateRequest) -> tuple[GateJudge, GateRequest]:
    """Check a gate, its baseline and every cell; return its judge, and the request with all values.

    Nothing is started or written. Seed and repetitions of a gate that goes on apply unless the request has others.
    Raises `ScenarioError`, `UsageError` or `RunDirError` for bad input.
    """
    asked = resumed(request, KIND)
    if not asked.gate:
        raise UsageError("name a gate, or --resume with the folder of one")
    file = find(asked.gate)
    Budget.parse(asked.budget)
    gate = load(file, repeat=asked.repeat, seed=asked.seed)
    planned = matrix.plan(gate, file.parent)
    cells = planned.cells
    stored_path = asked.baseline or (file.parent / gate.baseline if gate.baseline else None)
    stored = matrix.read_baseline(stored_path) if stored_path else None
    pairs = matrix.pairs(gate, cells, stored, planned.left_out)
    if unknown := set(asked.cells) - {cell.number for cell in cells}:
        raise UsageError(f"there is no cell {min(unknown)}; the gate has {len(cells)}, see --plan")
    seed = new_seed() if gate.seed is None else gate.seed
    options = [f"--baseline {shlex.quote(str(asked.baseline.absolute()))}"] if asked.baseline else []
    options += [f"--repeat {gate.repeat} --seed {seed}"]
    command = " ".join(["python -m chaos gate", shlex.quote(lasting(asked.gate)), *options])
    judge = GateJudge(gate, file.stem, command, seed, cells, pairs, stored, planned.left_out)
    earlier = asked.baseline.absolute() if asked.baseline else None
    return judge, replace(asked, gate=lasting(asked.gate), repeat=gate.repeat, seed=seed, baseline=earlier)


def open_folder(judge: GateJudge, asked: GateRequest) -> Folder:
    """Make the folder of a gate, or open an earlier folder to go on. Raises `UsageError` for another gate's folder."""
    return Folder.planned(asked, KIND, f"gate-{judge.name}", parts_of(judge.cells))


def parts_of(cells: Sequence[PlannedCell]) -> list[dict[str, str]]:
    """Return the key and the setup of each cell, as `plan.json` has them."""
    return [{**cell.key.model_dump(), "setup": cell.setup} for cell in cells]


def run_gate(
    judge: GateJudge,
    folder: Folder,
    asked: GateRequest,
    listener: ProgressListener,
    report: Report[GateResult] | None = None,
) -> GateResult:
    """Run what is not stored yet, judge all stored runs, and write the result.

    Of selected cells nothing is written but their runs. Raises as `run_campaign`.
    """
    cells = [cell for cell in judge.cells if cell.number in asked.cells or not asked.cells]
    plan = trials_of(cells, judge.gate.repeat, judge.seed)
    matrix.fetch_releases(cells, listener.say)
    if not asked.cells:
        return conduct(plan, folder, asked, listener, lambda runs: judged(judge, runs), report)
    run_campaign(plan, folder, listener, asked.jobs, Budget.parse(asked.budget), whole=False)
    result = judged(replace(judge, cells=cells, pairs=[], stored=None), folder.runs())
    if report is not None:
        report(result, folder.path)
    return result


def judge_gate(judge: GateJudge, folder: Folder) -> GateResult:
    """Judge the stored runs, and write the result with its pages. Raises `AftershockError`."""
    return folder.write(judged(judge, folder.runs()))


def judged(judge: GateJudge, runs: Sequence[TrialRun]) -> GateResult:
    """Return the decision over stored runs."""
    return judge.result({cell.number: [run for run in runs if run.part == cell.file] for cell in judge.cells})
