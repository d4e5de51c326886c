"""Throughput, CPU time and memory of the clients of a run."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.errors import AftershockError
from chaos.run.directory import Run, json_object
from chaos.run.result import Counts, EntryKind, EntryUsage, Load
from chaos.scenario.resolve import Resolved
from chaos.setup.clients import Entry, Processor, Producer
from checks.evidence import ledger_rows


def measure_load(run: Run, resolved: Resolved, counts: Counts) -> Load:
    """Return the load of a run. Ledgers without rows `usage` give no entries."""
    return Load(
        acked_per_s=_rate(counts.acked, _span_us(run, "sends", "completed_us")),
        delivered_per_s=_rate(
            sum(reader.delivered for reader in counts.readers),
            _span_us(run, "deliveries", "processed_us"),
        ),
        entries=_entries(run, resolved),
    )


def _rate(records: int, span_us: int) -> float | None:
    return records / span_us * 1e6 if span_us > 0 else None


def _span_us(run: Run, table: str, column: str) -> int:
    """Return the time from the first to the last row of a sealed table, from the footers of its parts; 0 if unknown."""
    bounds: list[int] = []
    try:
        for groups in map(pq.read_metadata, (run.ledger / f"{table}.parquet").glob("*.parquet")):
            place = groups.schema.names.index(column)
            for i in range(groups.num_row_groups):
                if (found := groups.row_group(i).column(place).statistics) and found.has_min_max:
                    bounds += [found.min, found.max]
    except (AftershockError, pa.ArrowException, OSError, ValueError):
        return 0
    return max(bounds) - min(bounds) if bounds else 0


def _entries(run: Run, resolved: Resolved) -> list[EntryUsage]:
    found = {entry.name: EntryUsage(entry=entry.name, kind=_kind(entry)) for entry in resolved.scenario.entries}
    for row in ledger_rows(run, "lifecycle", ["client", "event", "detail"]):
        usage = found.get(str(row["client"]).rpartition("/")[0])
        if row["event"] == "usage" and usage is not None:
            detail = json_object(row["detail"])
            start_us = int(detail.get("start_us", 0))
            usage.processes += 1
            usage.records += int(detail.get("acked" if usage.kind == "producer" else "delivered", 0))
            usage.start_cpu_us += start_us
            usage.cpu_us += int(detail.get("user_us", 0)) + int(detail.get("system_us", 0)) - start_us
            usage.peak_rss_bytes = max(usage.peak_rss_bytes, int(detail.get("peak_rss_bytes", 0)))
    return [usage for usage in found.values() if usage.processes]


def _kind(entry: Entry) -> EntryKind:
    return "producer" if isinstance(entry, Producer) else "processor" if isinstance(entry, Processor) else "consumer"
