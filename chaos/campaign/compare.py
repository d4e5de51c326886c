"""The comparison of client libraries: the same scenarios with each library that can run them, side by side.

Cells and trials are made as for a gate. Each library is compared with the reference, in both directions, by the rank
test of gates (`chaos.run.ranks`): a value is higher, or lower, if it differs by more than the margin, and Holm's
correction over all tests of the comparison keeps the probability of any false difference below 1 - confidence.
Everything else is not shown.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.campaign.clients import all_clients, parse_choice
from chaos.campaign.engine import Budget, Report, conduct
from chaos.campaign.folder import Asked, Folder, resumed
from chaos.campaign.gate import matrix
from chaos.campaign.gate.gate import judged, parts_of, trials_of
from chaos.campaign.gate.judge import GateJudge
from chaos.campaign.gate.model import Gate
from chaos.campaign.releases import check_release
from chaos.campaign.score import this_machine
from chaos.errors import UsageError
from chaos.history.trends import RESOLUTION_US, SAMPLED_US
from chaos.lab.progress import ProgressListener
from chaos.run import ranks
from chaos.run.campaign import (
    AnomalySum,
    Cell,
    ClientColumn,
    ClientComparison,
    Difference,
    LeftOut,
    Measured,
    MeasureRow,
    ScenarioComparison,
    TrialRun,
    Unit,
)
from chaos.run.events import now_us
from chaos.run.result import EntryKind, EntryUsage, merge
from chaos.scenario.resolve import new_seed

GROUPS = ("Recovery", "Records", "Latency", "CPU time and memory")
"""The groups of measures, in the order in which they are shown."""
RECOVERY, RECORDS, LATENCY, COST = GROUPS
_TIMES: dict[tuple[str, str], tuple[str, str]] = {
    ("produce_unavailability", "max"): (RECOVERY, "no writes, longest"),
    ("consume_unavailability", "max"): (RECOVERY, "no reads, longest"),
    ("rebalance_duration", "max"): (RECOVERY, "rebalance, longest"),
    ("ack_latency", "p50"): (LATENCY, "acknowledgement, median"),
    ("ack_latency", "p99"): (LATENCY, "acknowledgement, 99th percentile"),
    ("end_to_end_latency", "p50"): (LATENCY, "end to end, median"),
    ("end_to_end_latency", "p99"): (LATENCY, "end to end, 99th percentile"),
}
"""Group and name of each measured time, by metric and statistic. The times of the brokers are left out."""
_KINDS: tuple[EntryKind, ...] = ("producer", "consumer", "processor")
TICK_US = 10_000
"""Resolution of CPU times."""
_SMALL = {"us/1000": 1_000.0, "per second": 1.0, "records": 0.5, "bytes": float(2**20)}


@dataclass(frozen=True)
class Measure:
    """What is compared. resolution: a difference up to it is not significant."""

    group: str
    name: str
    fault: str
    unit: Unit
    resolution: float


def measures(run: TrialRun) -> dict[Measure, float]:
    """Return the values of a conclusive run. Of several scopes, such as topics, the longest time counts."""
    values: dict[Measure, float] = {}
    for time in run.times:
        if named := _TIMES.get((time.metric, time.stat)):
            measure = Measure(*named, time.fault, "us", RESOLUTION_US.get(time.metric, SAMPLED_US))
            values[measure] = max(time.value_us, values.get(measure, 0))
    return values | dict(_of_records(run)) | dict(_of_processes(run))


def _of_records(run: TrialRun) -> Iterator[tuple[Measure, float]]:
    rates = {"acknowledged": run.load.acked_per_s, "delivered": run.load.delivered_per_s}
    for name, rate in rates.items():
        if rate is not None:
            yield _measure(RECORDS, name, "per second"), rate
    yield _measure(RECORDS, "legal redeliveries", "records"), run.anomalies.get("duplicate_delivery legal", 0)


def _of_processes(run: TrialRun) -> Iterator[tuple[Measure, float]]:
    for kind in _KINDS:
        usages = [usage for usage in run.load.entries if usage.kind == kind]
        if not usages:
            continue
        if records := sum(usage.records for usage in usages):
            cpu_us = sum(usage.cpu_us for usage in usages)
            yield _measure(COST, f"{kind}s, CPU per 1,000 records", "us/1000"), 1000 * cpu_us / records
        yield Measure(COST, f"{kind}s, CPU to start a process", "", "us", TICK_US), _per_process(usages)
        yield _measure(COST, f"{kind}s, memory of a process", "bytes"), max(usage.peak_rss_bytes for usage in usages)


def _measure(group: str, name: str, unit: Unit) -> Measure:
    return Measure(group, name, "", unit, _SMALL[unit])


def _per_process(usages: list[EntryUsage]) -> float:
    return sum(usage.start_cpu_us for usage in usages) / sum(usage.processes for usage in usages)


Values = dict[Measure, list[float]]


@dataclass(frozen=True)
class _Test:
    """One measure of one library, compared with the reference, with the p-values of both directions."""

    scenario: str
    client: str
    measure: Measure
    higher_p: float
    lower_p: float


@dataclass(frozen=True)
class Table:
    """The scenarios side by side, and the number of tests."""

    scenarios: list[ScenarioComparison]
    tests: int


def client_name(key: str) -> str:
    """Return the library of a cell's key, in which confluent-kafka is a release alone: `confluent:2.16.1`."""
    return f"confluent:{key}" if key[:1].isdigit() else key


def side_by_side(
    cells: Sequence[Cell],
    left_out: Sequence[LeftOut],
    titles: Mapping[str, str],
    reference: str,
    margin: float,
    confidence: float,
) -> Table:
    """Compare the cells of each scenario.

    titles: by scenario, in their order. reference: the library to compare with, if it ran; else the first one that did.
    """
    columns = {name: _columns(name, cells, left_out) for name in titles}
    values = {name: {column.client: _values(column) for column in columns[name]} for name in titles}
    references = {name: _reference(columns[name], reference) for name in titles}
    tests = [test for name in titles for test in _tests(name, values[name], columns[name], references[name], margin)]
    shown = _shown(tests, 1 - confidence)
    scenarios = [
        ScenarioComparison(
            scenario=name,
            title=titles[name],
            verdict=merge(column.cell.verdict for column in columns[name] if column.cell),
            reference=references[name],
            columns=columns[name],
            rows=list(_rows(name, values[name], references[name], shown)),
        )
        for name in titles
    ]
    return Table(scenarios, 2 * len(tests))


def _columns(scenario: str, cells: Sequence[Cell], left_out: Sequence[LeftOut]) -> list[ClientColumn]:
    found = [
        ClientColumn(client=client_name(o.key.client), left_out=o.reason)
        for o in left_out
        if o.key.scenario == scenario
    ]
    for cell in cells:
        if cell.key.scenario == scenario:
            name, ran = client_name(cell.key.client), any(run.ran for run in cell.runs)
            if cell.runs and not ran:
                found.append(ClientColumn(client=name, left_out=cell.runs[0].sentence))
            else:
                found.append(ClientColumn(client=name, cell=cell, anomalies=_anomalies(cell)))
    return sorted(found, key=lambda column: column.cell is None)


def _anomalies(cell: Cell) -> dict[str, AnomalySum]:
    sums: dict[str, AnomalySum] = {}
    for run in cell.runs:
        for name, count in run.anomalies.items() if run.conclusive else ():
            before = sums.get(name, AnomalySum(count=0, runs=0))
            sums[name] = AnomalySum(count=before.count + count, runs=before.runs + 1)
    return sums


def _values(column: ClientColumn) -> Values:
    values: Values = {}
    for run in column.cell.runs if column.cell else ():
        for measure, value in measures(run).items() if run.conclusive else ():
            values.setdefault(measure, []).append(value)
    return values


def _reference(columns: list[ClientColumn], reference: str) -> str:
    ran = [column.client for column in columns if column.cell and column.cell.conclusive]
    return reference if reference in ran else next(iter(ran), "")


def _tests(
    scenario: str, values: Mapping[str, Values], columns: list[ClientColumn], reference: str, margin: float
) -> Iterator[_Test]:
    """Yield a test for each measure that both sides have in at least half of their runs."""
    conclusive = {column.client: column.cell.conclusive for column in columns if column.cell}
    for client in [client for client in conclusive if client != reference]:
        for measure, then in values.get(reference, {}).items():
            now = values[client].get(measure, [])
            if now and len(now) * 2 >= conclusive[client] and len(then) * 2 >= conclusive[reference]:
                higher, _ = ranks.beyond(now, then, margin, measure.resolution)
                lower, _ = ranks.beyond(then, now, margin, measure.resolution)
                yield _Test(scenario, client, measure, higher, lower)


def _shown(tests: list[_Test], alpha: float) -> dict[tuple[str, str, Measure], tuple[_Test, Difference]]:
    significant = ranks.holm([p for test in tests for p in (test.higher_p, test.lower_p)], alpha)
    found: dict[tuple[str, str, Measure], tuple[_Test, Difference]] = {}
    for test, higher, lower in zip(tests, significant[::2], significant[1::2], strict=True):
        difference: Difference = "higher" if higher else "lower" if lower else "not shown"
        found[test.scenario, test.client, test.measure] = (test, difference)
    return found


def _rows(
    scenario: str,
    values: Mapping[str, Values],
    reference: str,
    shown: Mapping[tuple[str, str, Measure], tuple[_Test, Difference]],
) -> Iterator[MeasureRow]:
    """Yield the rows of a scenario by group, in the order in which their measures first occur."""
    every = dict.fromkeys(measure for of_client in values.values() for measure in of_client)
    for measure in sorted(every, key=lambda m: GROUPS.index(m.group)):
        row: dict[str, Measured] = {}
        then = values.get(reference, {}).get(measure)
        for client, of_client in values.items():
            if not (now := of_client.get(measure)):
                continue
            row[client] = Measured(n=len(now), median=statistics.median(now), low=min(now), high=max(now))
            if client != reference and then and statistics.median(then):
                row[client] = row[client].model_copy(update={"ratio": row[client].median / statistics.median(then)})
            if found := shown.get((scenario, client, measure)):
                test, difference = found
                update = {"difference": difference, "higher_p": test.higher_p, "lower_p": test.lower_p}
                row[client] = row[client].model_copy(update=update)
        yield MeasureRow(group=measure.group, name=measure.name, fault=measure.fault, unit=measure.unit, values=row)


SHIPPED = ("leader-kill", "coordinator-loss", "slow-consumer", "consumer-crash", "rolling-restart", "transactions")
"""The scenarios of a comparison that names none."""
KIND = "clients"
MARGIN, CONFIDENCE = 1.25, 0.95


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Asked):
    """A comparison. scenarios: names, name/variant or files; the shipped set if empty. clients: all known if empty.

    reference: the library that each other one is compared with; the first if empty. margin: a factor, up to which two
    values are equal.
    """

    scenarios: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    reference: str = ""
    kafka: str | None = None
    margin: float = MARGIN


@dataclass(frozen=True)
class Compared:
    """A comparison that can run. The gate over its cells has no reference, so it judges only the records."""

    request: CompareRequest
    gate: GateJudge
    reference: str


def plan(request: CompareRequest) -> Compared:
    """Check a comparison; nothing is started or written. Seed and repetitions of one that goes on apply.

    Raises `ScenarioError`, `UsageError` or `RunDirError` for bad input, also if no library can run any scenario.
    """
    asked = resumed(request, KIND)
    Budget.parse(asked.budget)
    if asked.kafka:
        check_release("kafka", asked.kafka)
    clients = [parse_choice(text).describe() for text in asked.clients] or [c.describe() for c in all_clients()]
    reference = parse_choice(asked.reference).describe() if asked.reference else clients[0]
    if reference not in clients:
        raise UsageError(f"--reference {asked.reference}: it is not compared; compared are {', '.join(clients)}")
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
    options += [f"--reference {reference}"] if reference != clients[0] else []
    options += [f"--jobs {asked.jobs}"] if asked.jobs > 1 else []
    options += [f"--margin {asked.margin:g}"] if asked.margin != MARGIN else []
    command = " ".join(["python -m chaos compare-clients", *map(shlex.quote, gate.scenarios), *options])
    judge = GateJudge(gate, KIND, command, seed, planned.cells, [], None, planned.left_out)
    return Compared(replace(asked, repeat=repeat, seed=seed), judge, reference)


def open_folder(planned: Compared) -> Folder:
    """Make the folder of a comparison, or open an earlier folder to go on. Raises `UsageError`."""
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
    table = side_by_side(cells, gate.left_out, titles, planned.reference, planned.request.margin, CONFIDENCE)
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
