"""Runs and comparisons of client libraries that nobody ran."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from chaos.campaign.compare import Table, side_by_side
from chaos.run.campaign import Cell, ClientComparison, Key, LeftOut, Machine, TrialRun
from chaos.run.result import EntryUsage, Load, Metric, Verdict, merge

SCENARIO = "leader-kill"


def metric(name: str, value_us: float, stat: str = "max", fault: str = "kill", scope: str = "orders") -> Metric:
    return Metric(metric=name, scope=scope, fault=fault, stat=stat, value_us=round(value_us))


def usage(entry: str, kind: str, cpu_us: float, peak_mib: float = 90) -> EntryUsage:
    return EntryUsage(
        entry=entry, kind=kind, processes=2, records=10_000, start_cpu_us=900_000, cpu_us=round(cpu_us),
        peak_rss_bytes=round(peak_mib * 2**20),
    )  # type: ignore[arg-type]  # fmt: skip


def runs(
    count: int = 8,
    *,
    us: float = 5e6,
    cpu_us: float = 2e6,
    verdict: Verdict = "pass",
    salt: str = "",
    sigma: float = 0.03,
) -> list[TrialRun]:
    """Runs that take about so long and need about so much CPU time."""
    draw = random.Random(f"{us} {cpu_us} {salt}")
    return [
        TrialRun(
            n=n,
            seed=n,
            verdict=verdict,
            sentence=f"it is {verdict}",
            anomalies={"duplicate_delivery legal": n % 3} if n % 3 else {},
            times=[metric("produce_unavailability", us * draw.lognormvariate(0, sigma))],
            load=Load(
                acked_per_s=1000 * draw.lognormvariate(0, sigma),
                entries=[
                    usage("shop", "producer", cpu_us * draw.lognormvariate(0, sigma)),
                    usage("billing", "consumer", 1.5e6 * draw.lognormvariate(0, sigma), 40),
                ],
            ),
            report=f"cell-01-{n}/report.html",
        )
        for n in range(1, count + 1)
    ]


def cell(number: int, client: str, of: Sequence[TrialRun], scenario: str = SCENARIO) -> Cell:
    conclusive = sum(run.conclusive for run in of)
    failed = sum(run.verdict == "fail" for run in of)
    return Cell(
        number=number, key=Key(scenario=scenario, kafka="4.3.1", client=client, settings="default"), setup="s",
        verdict=merge(run.verdict for run in of), sentence=f"{failed} of {conclusive} broke it.", runs=list(of),
        failed=failed, conclusive=conclusive, low=0, high=0.3,
    )  # fmt: skip


def left_out(client: str, reason: str, scenario: str = SCENARIO) -> LeftOut:
    return LeftOut(key=Key(scenario=scenario, kafka="4.3.1", client=client, settings="default"), reason=reason)


def table(
    by_client: Mapping[str, Sequence[TrialRun]], out: Sequence[LeftOut] = (), reference: str = "", margin: float = 1.25
) -> Table:
    cells = [cell(n, client, of) for n, (client, of) in enumerate(by_client.items(), 1)]
    return side_by_side(cells, out, {SCENARIO: "The leader of a partition crashes"}, reference, margin, 0.95)


def comparison(of: Table, sentence: str = "3 of 3 kept the contract.") -> ClientComparison:
    verdict = merge(column.cell.verdict for s in of.scenarios for column in s.columns if column.cell)
    return ClientComparison(
        verdict=verdict, sentence=sentence, command="python -m chaos compare-clients leader-kill --seed 7",
        machine=Machine(platform="Linux", cpus=2), made_us=1_700_000_000_000_000, seed=7, repeat=8, jobs=1,
        kafka=["4.3.1"], margin=1.25, confidence=0.95, tests=of.tests, scenarios=of.scenarios, notes=[],
    )  # fmt: skip
