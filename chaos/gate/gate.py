"""The use cases of a gate: plan it, run it or some of its cells, and judge its stored runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.errors import AftershockError, UsageError
from chaos.gate import baseline, matrix, runner
from chaos.gate.folder import GateFolder
from chaos.gate.judge import GateJudge, repeat_warning
from chaos.gate.model import find, load
from chaos.incident import trials
from chaos.lab.progress import ProgressListener
from chaos.processes.python_module import run_module
from chaos.run.directory import new_run_id, write_atomically
from chaos.run.gate_result import CellRun, GateResult
from chaos.run.result import describe_anomalies
from chaos.scenario.resolve import new_seed


@dataclass(frozen=True)
class GateRequest:
    """A gate and the values that replace those of its file.

    gate: a shipped name or a file. into: the folder to use or to continue; when None, a new one below `runs_dir`.
    cells: numbers of the only cells to run; their records are judged, their times are not.
    """

    gate: str
    runs_dir: Path
    baseline: Path | None = None
    repeat: int | None = None
    seed: int | None = None
    into: Path | None = None
    cells: tuple[int, ...] = ()


@dataclass(frozen=True)
class GatePlan:
    """A checked gate with its judge. warning: a note for the user, or empty."""

    judge: GateJudge
    request: GateRequest
    warning: str

    @property
    def cells(self) -> Sequence[matrix.PlannedCell]:
        """All cells of the gate."""
        return self.judge.cells

    @property
    def repeat(self) -> int:
        """The number of runs of each cell."""
        return self.judge.gate.repeat

    def folder(self) -> GateFolder:
        """Open or make the folder of the gate and write the plan there. Raises `UsageError` for another gate's."""
        name = self.judge.name
        path = self.request.into or self.request.runs_dir / new_run_id(f"gate-{name}")
        folder = GateFolder.open_or_make(path)
        folder.write_plan(name, self.judge.seed, self.repeat, self.cells)
        return folder


def plan_gate(request: GateRequest) -> GatePlan:
    """Check a gate, its baseline and every cell; nothing is started or written.

    Seed and repetitions of a continued folder apply unless the request has others.
    Raises `ScenarioError`, `UsageError` or `RunDirError` for bad input.
    """
    file = find(request.gate)
    earlier = GateFolder(request.into).seed_and_repeat() if request.into else None
    seed, repeat = earlier or (None, None)
    gate = load(file, repeat=request.repeat or repeat, seed=seed if request.seed is None else request.seed)
    cells = matrix.cells(gate, file.parent)
    stored_path = request.baseline or (file.parent / gate.baseline if gate.baseline else None)
    stored = baseline.read(stored_path) if stored_path else None
    pairs = baseline.pairs(gate, cells, stored)
    if unknown := set(request.cells) - {cell.number for cell in cells}:
        raise UsageError(f"there is no cell {min(unknown)}; the gate has {len(cells)}, see --plan")
    seed = new_seed() if gate.seed is None else gate.seed
    options = [f"--baseline {shlex.quote(str(request.baseline))}"] if request.baseline else []
    options += [f"--repeat {gate.repeat} --seed {seed}"]
    command = " ".join(["python -m chaos gate", shlex.quote(request.gate), *options])
    judge = GateJudge(gate, file.stem, command, seed, cells, pairs, stored)
    return GatePlan(judge, request, repeat_warning(gate, pairs))


def run_gate(plan: GatePlan, folder: GateFolder, listener: ProgressListener) -> GateResult:
    """Run what is not stored yet, judge all stored runs, and write the result.

    After an interruption the finished runs are judged, too. With `cells` in the request, only these run, and nothing is
    written but their runs. Raises as `Lab.drive`.
    """
    judge = plan.judge
    if selected := plan.request.cells:
        cells = [cell for cell in plan.cells if cell.number in selected]
        judge = replace(judge, cells=cells, pairs=[], stored=None)
    planned = runner.remaining(judge.cells, judge.gate, judge.seed, folder)
    listener.say(f"{len(judge.cells)} cells, {len(planned)} runs, in {folder.path}")
    matrix.fetch_releases(judge.cells, listener.say)
    try:
        with trials.TrialLab(folder.path, listener) as lab:
            for done, (run, stored) in enumerate(runner.run_all(lab, planned, folder), 1):
                listener.say(f"{done} of {len(planned)}, {run.cell.key.name}, {run.n}: {_describe(stored)}")
    except BaseException:
        if not selected:
            judge_gate(plan, folder)
        listener.say(f"the finished runs are stored; continue with --into {folder.path}")
        raise
    return _result(judge, folder) if selected else judge_gate(plan, folder)


def run_cells(request: GateRequest, listener: ProgressListener) -> GateResult:
    """Plan a gate and run the cells of the request in its folder. Raises as `plan_gate` and `run_gate`."""
    plan = plan_gate(request)
    return run_gate(plan, plan.folder(), listener)


def _describe(run: CellRun) -> str:
    detail = describe_anomalies(run.anomalies, none="no anomaly") if run.conclusive else run.sentence
    return f"{run.verdict}, {detail} ({run.seconds:.0f} s)"


def judge_gate(plan: GatePlan, folder: GateFolder) -> GateResult:
    """Judge the stored runs, and write gate.json, summary.md, junit.xml and report.html. Raises `AftershockError`."""
    result = _result(plan.judge, folder)
    write_atomically(folder.path / "gate.json", result.model_dump_json(indent=1) + "\n")
    done = run_module("checks.report.gate", str(folder.path))
    if done.returncode:
        reason = (done.stderr.strip() or "no reason was given").splitlines()[-1]
        raise AftershockError(f"gate.json is in {folder.path}, but its pages could not be written: {reason}")
    return result


def _result(judge: GateJudge, folder: GateFolder) -> GateResult:
    return judge.result({cell.number: folder.runs(cell) for cell in judge.cells})
