"""Client libraries side by side: each measure with its median and spread, and the differences that are shown.

Each library is compared with the reference, in both directions, by the rank test of gates (`chaos.run.ranks`): a value
is higher, or lower, if it differs by more than the margin, and Holm's correction over all tests of the comparison keeps
the probability of any false difference below 1 - confidence. Everything else is not shown.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.campaign.compare.measures import GROUPS, Measure, measures
from chaos.run import ranks
from chaos.run.campaign import (
    AnomalySum,
    Cell,
    ClientColumn,
    Difference,
    LeftOut,
    Measured,
    MeasureRow,
    ScenarioComparison,
)
from chaos.run.result import merge

Values = dict[Measure, list[float]]


@dataclass(frozen=True)
class _Test:
    """One measure of one library, beside the reference, with the p-values of both directions."""

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
    against: str,
    margin: float,
    confidence: float,
) -> Table:
    """Compare the cells of each scenario.

    titles: by scenario, in their order. against: the library to compare with, if it ran; else the first one that did.
    """
    columns = {name: _columns(name, cells, left_out) for name in titles}
    values = {name: {column.client: _values(column) for column in columns[name]} for name in titles}
    references = {name: _reference(columns[name], against) for name in titles}
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


def _reference(columns: list[ClientColumn], against: str) -> str:
    ran = [column.client for column in columns if column.cell and column.cell.conclusive]
    return against if against in ran else next(iter(ran), "")


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
