"""The values of a run that are compared between client libraries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaos.history.trends import RESOLUTION_US, SAMPLED_US
from chaos.run.campaign import TrialRun, Unit
from chaos.run.result import EntryKind, EntryUsage

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
