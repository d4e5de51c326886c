"""The comparison of client libraries as a use case: plan it, run what is missing, put the runs side by side."""

from __future__ import annotations

import os
import platform
import shlex
from dataclasses import dataclass
from pathlib import Path

from chaos.campaign.clients import all_clients, parse_choice
from chaos.campaign.releases import check_release
from chaos.comparison.judge import client_name, side_by_side
from chaos.errors import AftershockError, UsageError
from chaos.gate import matrix
from chaos.gate.folder import GateFolder
from chaos.gate.gate import run_missing
from chaos.gate.judge import GateJudge
from chaos.gate.model import Gate
from chaos.lab.progress import ProgressListener
from chaos.processes.python_module import run_module
from chaos.run import ranks
from chaos.run.client_comparison import ClientComparison, ScenarioComparison
from chaos.run.directory import new_run_id, write_atomically
from chaos.run.events import now_us
from chaos.run.gate_result import Machine
from chaos.run.result import merge
from chaos.scenario.resolve import new_seed

SHIPPED = ("leader-kill", "coordinator-loss", "slow-consumer", "consumer-crash", "rolling-restart", "transactions")
"""The scenarios of a comparison that names none."""
NAME, RESULT = "clients", "clients.json"
MARGIN, CONFIDENCE = 1.25, 0.95


@dataclass(frozen=True)
class CompareRequest:
    """A comparison. scenarios: names, name/variant or files; the shipped set if empty. clients: all known if empty.

    against: the library that the others are compared with; the first one if empty. into: the folder to use or to
    continue; if None, a new one below `runs_dir`. jobs: runs at once. margin: a factor, up to which values are equal.
    """

    runs_dir: Path
    scenarios: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    against: str = ""
    kafka: str | None = None
    repeat: int = 1
    seed: int | None = None
    jobs: int = 1
    margin: float = MARGIN
    into: Path | None = None


@dataclass(frozen=True)
class Plan:
    """A comparison that can run. The gate over its cells has no reference, so it judges only the records."""

    request: CompareRequest
    gate: GateJudge
    against: str


def plan(request: CompareRequest) -> Plan:
    """Check a comparison; nothing is started or written. Seed and repetitions of a continued folder apply.

    Raises `ScenarioError`, `UsageError` or `RunDirError` for bad input, also if no library can run any scenario.
    """
    if request.kafka:
        check_release("kafka", request.kafka)
    clients = [parse_choice(text).describe() for text in request.clients] or [c.describe() for c in all_clients()]
    against = parse_choice(request.against).describe() if request.against else clients[0]
    if against not in clients:
        raise UsageError(f"--against {request.against}: it is not compared; compared are {', '.join(clients)}")
    earlier = GateFolder(request.into).plan() if request.into and GateFolder(request.into).has_plan else None
    seed = request.seed if request.seed is not None else earlier.seed if earlier else new_seed()
    repeat = max(request.repeat, earlier.repeat) if earlier else request.repeat
    gate = Gate(
        title="Client libraries",
        scenarios=list(request.scenarios or SHIPPED),
        kafka=[request.kafka] if request.kafka else None,
        clients=clients,
        repeat=repeat,
        seed=seed,
    )
    planned = matrix.plan(gate, Path())
    options = [f"--clients {','.join(clients)}", f"--repeat {repeat}", f"--seed {seed}"]
    options += [f"--kafka {request.kafka}"] if request.kafka else []
    options += [f"--against {against}"] if against != clients[0] else []
    options += [f"--jobs {request.jobs}"] if request.jobs > 1 else []
    options += [f"--margin {request.margin:g}"] if request.margin != MARGIN else []
    command = " ".join(["python -m chaos compare-clients", *map(shlex.quote, gate.scenarios), *options])
    return Plan(request, GateJudge(gate, NAME, command, seed, planned.cells, [], None, planned.left_out), against)


def compare_clients(request: CompareRequest, listener: ProgressListener) -> ClientComparison:
    """Run each scenario with each library that can, and write clients.json, summary.md and report.html.

    Finished runs are stored at once. After an interruption they are compared, too. Raises as `plan` and `Lab.drive`.
    """
    planned = plan(request)
    return run_plan(planned, open_folder(planned), listener)


def run_plan(planned: Plan, folder: GateFolder, listener: ProgressListener) -> ClientComparison:
    """Run what is not stored in the folder yet, and write the comparison. Raises as `Lab.drive`."""
    for out in planned.gate.left_out:
        listener.say(f"left out: {client_name(out.key.client)} in {out.key.scenario}: {out.reason}")
    try:
        run_missing(planned.gate, folder, listener, planned.request.jobs)
    except BaseException:
        write(planned, folder)
        listener.say(f"the finished runs are stored; continue with --out {folder.path}")
        raise
    return write(planned, folder)


def open_folder(planned: Plan) -> GateFolder:
    """Open or make the folder of a comparison. Raises `UsageError` for that of another one."""
    path = planned.request.into or planned.request.runs_dir / new_run_id(f"compare-{NAME}")
    gate = planned.gate
    return GateFolder.planned(path, NAME, gate.seed, gate.gate.repeat, gate.cells)


def write(planned: Plan, folder: GateFolder) -> ClientComparison:
    """Compare the stored runs and write the result with its pages. Raises `AftershockError`."""
    comparison = _comparison(planned, folder)
    write_atomically(folder.path / RESULT, comparison.model_dump_json(indent=1) + "\n")
    done = run_module("checks.report", NAME, str(folder.path))
    if done.returncode:
        reason = (done.stderr.strip() or "no reason was given").splitlines()[-1]
        raise AftershockError(f"{RESULT} is in {folder.path}, but its pages could not be written: {reason}")
    return comparison


def _comparison(planned: Plan, folder: GateFolder) -> ClientComparison:
    gate = planned.gate
    cells = gate.result({cell.number: folder.runs(cell) for cell in gate.cells}).cells
    titles = {cell.key.scenario: "" for cell in gate.cells} | {out.key.scenario: "" for out in gate.left_out}
    titles |= {cell.key.scenario: cell.subject.scenario.title for cell in gate.cells}
    table = side_by_side(cells, gate.left_out, titles, planned.against, planned.request.margin, CONFIDENCE)
    verdict = merge(scenario.verdict for scenario in table.scenarios if any(c.cell for c in scenario.columns))
    return ClientComparison(
        verdict=verdict,
        sentence=_sentence(table.scenarios),
        command=gate.command,
        machine=Machine(platform=platform.platform(), cpus=os.cpu_count() or 1),
        made_us=now_us(),
        seed=gate.seed,
        repeat=gate.gate.repeat,
        jobs=planned.request.jobs,
        kafka=list(dict.fromkeys(cell.key.kafka for cell in gate.cells)),
        margin=planned.request.margin,
        confidence=CONFIDENCE,
        tests=table.tests,
        scenarios=table.scenarios,
        notes=_notes(planned, table.tests),
    )


def _sentence(scenarios: list[ScenarioComparison]) -> str:
    """Return the summary: libraries by verdict, those left out, and the number of differences."""
    cells = [(s.scenario, column) for s in scenarios for column in s.columns]
    ran = [(scenario, column, column.cell) for scenario, column in cells if column.cell]
    kept = sum(cell.verdict == "pass" for _, _, cell in ran)
    parts = [f"{kept} of {len(ran)} combinations of library and scenario kept the contract."]
    for verdict, label in (("fail", "broke it"), ("inconclusive", "inconclusive")):
        if found := [f"{column.client} in {name}" for name, column, cell in ran if cell.verdict == verdict]:
            parts.append(f"{len(found)} {label}: {'; '.join(found[:4])}{' …' if len(found) > 4 else ''}.")
    if out := [(name, column.client) for name, column in cells if column.cell is None]:
        parts.append(f"{len(out)} could not run and were left out ({', '.join(dict.fromkeys(c for _, c in out))}).")
    differences = [m.difference for s in scenarios for row in s.rows for m in row.values.values() if m.difference]
    shown = sum(difference != "not shown" for difference in differences)
    parts.append(f"Of {len(differences)} compared values, {shown} are shown to differ from the reference.")
    return " ".join(parts)


def _notes(planned: Plan, tests: int) -> list[str]:
    notes = []
    repeat, jobs = planned.gate.gate.repeat, planned.request.jobs
    if tests and repeat < (needed := ranks.needed(1 - CONFIDENCE, tests)):
        notes.append(f"repeat is {repeat}: too few to show any difference; {tests} tests take {needed} runs of each")
    if jobs > 1:
        notes.append(f"{jobs} runs at once shared the CPUs: times and CPU times are larger than of single runs.")
    return notes
