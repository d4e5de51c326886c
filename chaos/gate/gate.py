"""The use cases of a gate: plan it, run it or some of its cells, and judge its stored runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.campaign import trials
from chaos.errors import AftershockError, UsageError
from chaos.gate import baseline, matrix, runner
from chaos.gate.folder import GateFolder
from chaos.gate.judge import GateJudge
from chaos.gate.model import find, load
from chaos.history.recording import record
from chaos.lab.progress import ProgressListener
from chaos.processes.python_module import run_module
from chaos.run.directory import Run, new_run_id, write_atomically
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


def plan_gate(request: GateRequest) -> GateJudge:
    """Check a gate, its baseline and every cell, and return its judge; nothing is started or written.

    Seed and repetitions of a continued folder apply unless the request has others.
    Raises `ScenarioError`, `UsageError` or `RunDirError` for bad input.
    """
    file = find(request.gate)
    earlier = GateFolder(request.into).plan() if request.into and GateFolder(request.into).has_plan else None
    seed, repeat = (earlier.seed, earlier.repeat) if earlier else (None, None)
    gate = load(file, repeat=request.repeat or repeat, seed=seed if request.seed is None else request.seed)
    planned = matrix.plan(gate, file.parent)
    cells = planned.cells
    stored_path = request.baseline or (file.parent / gate.baseline if gate.baseline else None)
    stored = baseline.read(stored_path) if stored_path else None
    pairs = baseline.pairs(gate, cells, stored, planned.left_out)
    if unknown := set(request.cells) - {cell.number for cell in cells}:
        raise UsageError(f"there is no cell {min(unknown)}; the gate has {len(cells)}, see --plan")
    seed = new_seed() if gate.seed is None else gate.seed
    options = [f"--baseline {shlex.quote(str(request.baseline))}"] if request.baseline else []
    options += [f"--repeat {gate.repeat} --seed {seed}"]
    command = " ".join(["python -m chaos gate", shlex.quote(request.gate), *options])
    return GateJudge(gate, file.stem, command, seed, cells, pairs, stored, planned.left_out)


def open_folder(judge: GateJudge, request: GateRequest) -> GateFolder:
    """Open or make the folder of a gate and write the plan there. Raises `UsageError` for another gate's folder."""
    path = request.into or request.runs_dir / new_run_id(f"gate-{judge.name}")
    return GateFolder.planned(path, judge.name, judge.seed, judge.gate.repeat, judge.cells)


def run_gate(
    whole: GateJudge, folder: GateFolder, listener: ProgressListener, selected: Sequence[int] = ()
) -> GateResult:
    """Run what is not stored yet, judge all stored runs, and write the result.

    After an interruption the finished runs are judged, too. selected: numbers of the only cells to run; then nothing is
    written but their runs. Raises as `Lab.drive`.
    """
    judge = whole
    if selected:
        cells = [cell for cell in whole.cells if cell.number in selected]
        judge = replace(whole, cells=cells, pairs=[], stored=None)
    try:
        run_missing(judge, folder, listener)
    except BaseException:
        if not selected:
            judge_gate(whole, folder)
        listener.say(f"the finished runs are stored; continue with --into {folder.path}")
        raise
    return _result(judge, folder) if selected else judge_gate(whole, folder)


def run_missing(judge: GateJudge, folder: GateFolder, listener: ProgressListener, jobs: int = 1) -> None:
    """Run and store what is not stored yet. jobs: runs at once, each on its own cluster. Raises as `Lab.drive`."""
    planned = runner.remaining(judge.cells, judge.gate, judge.seed, folder)
    listener.say(f"{len(judge.cells)} cells, {len(planned)} runs, in {folder.path}")
    matrix.fetch_releases(judge.cells, listener.say)
    with trials.TrialLab(folder.path, listener, workers=jobs) as lab:
        for done, (run, stored) in enumerate(runner.run_all(lab, planned, folder, jobs), 1):
            listener.say(f"{done} of {len(planned)}, {run.cell.key.name}, {run.n}: {_describe(stored)}")
            if stored.ran:
                key = run.cell.key
                scenario, _, side = key.scenario.partition("/")
                variant = " ".join(filter(None, [side, "" if key.settings == "default" else key.settings]))
                directory = Run(folder.path / run.cell.run_id(run.n))
                record([directory], folder.path.parent, listener.say, named=(scenario, variant))


def run_cells(request: GateRequest, listener: ProgressListener) -> GateResult:
    """Plan a gate and run the cells of the request in its folder. Raises as `plan_gate` and `run_gate`."""
    judge = plan_gate(request)
    return run_gate(judge, open_folder(judge, request), listener, request.cells)


def _describe(run: CellRun) -> str:
    detail = describe_anomalies(run.anomalies, none="no anomaly") if run.conclusive else run.sentence
    return f"{run.verdict}, {detail} ({run.seconds:.0f} s)"


def judge_gate(judge: GateJudge, folder: GateFolder) -> GateResult:
    """Judge the stored runs, and write gate.json, summary.md, junit.xml and report.html. Raises `AftershockError`."""
    result = _result(judge, folder)
    write_atomically(folder.path / "gate.json", result.model_dump_json(indent=1) + "\n")
    done = run_module("checks.report", "gate", str(folder.path))
    if done.returncode:
        reason = (done.stderr.strip() or "no reason was given").splitlines()[-1]
        raise AftershockError(f"gate.json is in {folder.path}, but its pages could not be written: {reason}")
    return result


def _result(judge: GateJudge, folder: GateFolder) -> GateResult:
    return judge.result({cell.number: folder.runs(cell) for cell in judge.cells})
