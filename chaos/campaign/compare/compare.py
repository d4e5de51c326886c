"""The comparison of client libraries as a use case: plan it, run what is missing, put the runs side by side."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.campaign.clients import all_clients, parse_choice
from chaos.campaign.compare.side_by_side import client_name, side_by_side
from chaos.campaign.engine import Budget, Report, conduct
from chaos.campaign.folder import Asked, Folder, resumed
from chaos.campaign.gate import matrix
from chaos.campaign.gate.gate import judged, parts_of, trials_of
from chaos.campaign.gate.judge import GateJudge
from chaos.campaign.gate.model import Gate
from chaos.campaign.releases import check_release
from chaos.campaign.score import this_machine
from chaos.errors import UsageError
from chaos.lab.progress import ProgressListener
from chaos.run import ranks
from chaos.run.campaign import ClientComparison, ScenarioComparison, TrialRun
from chaos.run.events import now_us
from chaos.run.result import merge
from chaos.scenario.resolve import new_seed

SHIPPED = ("leader-kill", "coordinator-loss", "slow-consumer", "consumer-crash", "rolling-restart", "transactions")
"""The scenarios of a comparison that names none."""
KIND = "clients"
MARGIN, CONFIDENCE = 1.25, 0.95


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Asked):
    """A comparison. scenarios: names, name/variant or files; the shipped set if empty. clients: all known if empty.

    against: the library that the others are compared with; the first one if empty. margin: a factor, up to which values
    are equal.
    """

    scenarios: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    against: str = ""
    kafka: str | None = None
    margin: float = MARGIN


@dataclass(frozen=True)
class Compared:
    """A comparison that can run. The gate over its cells has no reference, so it judges only the records."""

    request: CompareRequest
    gate: GateJudge
    against: str


def plan(request: CompareRequest) -> Compared:
    """Check a comparison; nothing is started or written. Seed and repetitions of one that goes on apply.

    Raises `ScenarioError`, `UsageError` or `RunDirError` for bad input, also if no library can run any scenario.
    """
    asked = resumed(request, KIND)
    Budget.parse(asked.budget)
    if asked.kafka:
        check_release("kafka", asked.kafka)
    clients = [parse_choice(text).describe() for text in asked.clients] or [c.describe() for c in all_clients()]
    against = parse_choice(asked.against).describe() if asked.against else clients[0]
    if against not in clients:
        raise UsageError(f"--against {asked.against}: it is not compared; compared are {', '.join(clients)}")
    seed = new_seed() if asked.seed is None else asked.seed
    repeat = asked.repeat or 1
    gate = Gate(
        title="Client libraries",
        scenarios=list(asked.scenarios or SHIPPED),
        kafka=[asked.kafka] if asked.kafka else None,
        clients=clients,
        repeat=repeat,
        seed=seed,
    )
    planned = matrix.plan(gate, Path())
    options = [f"--clients {','.join(clients)}", f"--repeat {repeat}", f"--seed {seed}"]
    options += [f"--kafka {asked.kafka}"] if asked.kafka else []
    options += [f"--against {against}"] if against != clients[0] else []
    options += [f"--jobs {asked.jobs}"] if asked.jobs > 1 else []
    options += [f"--margin {asked.margin:g}"] if asked.margin != MARGIN else []
    command = " ".join(["python -m chaos compare-clients", *map(shlex.quote, gate.scenarios), *options])
    judge = GateJudge(gate, KIND, command, seed, planned.cells, [], None, planned.left_out)
    return Compared(replace(asked, repeat=repeat, seed=seed), judge, against)


def open_folder(planned: Compared) -> Folder:
    """Make the folder of a comparison, or open the one that goes on. Raises `UsageError`."""
    return Folder.planned(planned.request, KIND, f"compare-{KIND}", parts_of(planned.gate.cells))


def compare_clients(
    planned: Compared, folder: Folder, listener: ProgressListener, report: Report[ClientComparison] | None = None
) -> ClientComparison:
    """Run each scenario with each library that can, and write the comparison. Raises as `run_campaign`."""
    gate = planned.gate
    for out in gate.left_out:
        listener.say(f"left out: {client_name(out.key.client)} in {out.key.scenario}: {out.reason}")
    matrix.fetch_releases(gate.cells, listener.say)
    trials = trials_of(gate.cells, gate.gate.repeat, gate.seed)
    return conduct(trials, folder, planned.request, listener, lambda runs: _comparison(planned, runs), report)


def _comparison(planned: Compared, runs: list[TrialRun]) -> ClientComparison:
    gate = planned.gate
    cells = judged(gate, runs).cells
    titles = {cell.key.scenario: "" for cell in gate.cells} | {out.key.scenario: "" for out in gate.left_out}
    titles |= {cell.key.scenario: cell.subject.scenario.title for cell in gate.cells}
    table = side_by_side(cells, gate.left_out, titles, planned.against, planned.request.margin, CONFIDENCE)
    verdict = merge(scenario.verdict for scenario in table.scenarios if any(c.cell for c in scenario.columns))
    return ClientComparison(
        verdict=verdict,
        sentence=_sentence(table.scenarios),
        command=gate.command,
        machine=this_machine(),
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


def _notes(planned: Compared, tests: int) -> list[str]:
    notes = []
    repeat, jobs = planned.gate.gate.repeat, planned.request.jobs
    if tests and repeat < (needed := ranks.needed(1 - CONFIDENCE, tests)):
        notes.append(f"repeat is {repeat}: too few to show any difference; {tests} tests take {needed} runs of each")
    if jobs > 1:
        notes.append(f"{jobs} runs at once shared the CPUs: times and CPU times are larger than of single runs.")
    return notes
