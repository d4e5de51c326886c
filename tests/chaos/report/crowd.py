"""A run far larger than a page: hundreds of partitions, hours, many readers, thousands of anomalies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.run.directory import Run
from chaos.run.result import Count, Counts, Finding, Result
from chaos.scenario.resolve import Resolved
from tests.chaos.report.story import BEGAN, at
from tests.chaos.report.synthetic import SCENARIO, expectations, ledger, result, start, write

HOURS = 4
PARTITIONS = 900
READERS = 14


def crowded_run(directory: Path) -> tuple[Run, Result, Resolved]:
    """Write a run with too much of everything."""
    run, resolved = start(directory, "crowd", SCENARIO.replace("partitions: 6", f"partitions: {PARTITIONS}"))
    ledger(run, "cluster", leaders())
    ledger(run, "faults", [])
    ledger(run, "lifecycle", [])
    write(run.audit / "ownership", owners())
    buckets(run)
    findings = [
        Finding(
            check="lost_write",
            scope="orders",
            topic="orders",
            partition=(i * 7) % PARTITIONS,
            offset=i,
            seq=i,
            at_us=at(60 + i * 0.4),
            evidence={"note": "x" * 5_000},
            mechanism=f"cause {chr(0x4E00 + i % 70)}",
        )
        for i in range(12_000)
    ]
    write(run.audit / "anomalies", [f.model_dump(exclude={"evidence"}) for f in findings])
    found = result(
        run,
        resolved,
        verdict="fail",
        sentence="Too much went wrong.",
        counts=Counts(sent=10**9, acked=10**9, in_log=10**9),
        expectations=expectations(12_000),
        totals=[Count(check="lost_write", scope="orders", count=1_000_000, examined=10**9)],
        findings=findings,
    )
    return run, found, resolved


def leaders() -> list[dict[str, Any]]:
    """Return a leader change of each partition every ten minutes."""
    rows = []
    for minute in range(0, HOURS * 60, 10):
        for p in range(PARTITIONS):
            row = {"at_us": at(minute * 60 + 5), "entity": f"orders/{p}"}
            rows.append(row | {"key": "leader", "value": json.dumps((p + minute // 10) % 9 + 1)})
            rows.append(row | {"key": "isr", "value": "[1,2,3]"})
    return rows


def owners() -> list[dict[str, Any]]:
    """Return two groups of fifty members that rebalance every 15 minutes."""
    return [
        {
            "group": group,
            "topic": "orders",
            "partition": p,
            "consumer": f"{group}/{(p + turn) % 50 + 1}",
            "incarnation": 1,
            "member_id": "m",
            "generation": turn + 1,
            "begin_us": at(turn * 900 + 6),
            "end_us": at(turn * 900 + 900),
            "end_reason": "revoked",
        }
        for group in ("billing", "ledger")
        for p in range(PARTITIONS)
        for turn in range(HOURS * 4)
    ]


def buckets(run: Run) -> None:
    """Write series and latency for every 250 ms."""
    slots = HOURS * 3600 * 4
    when = BEGAN + np.arange(slots, dtype=np.int64) * 250_000
    generator = np.random.default_rng(3)
    parts: dict[str, list[pa.Table]] = {"series": [], "latency": []}
    for i in range(READERS):
        for series in ("delivered", "lag"):
            names = {"series": [series] * slots, "scope": [f"reader/{i}"] * slots}
            values = generator.integers(0, 5_000, slots).astype(float)
            parts["series"].append(pa.table({"at_us": when, **names, "value": values}))
        # the audit uses wider columns in a long run: at most 400
        at_us, size = np.repeat(when[::144], 40), slots // 144 * 40
        edges = (10 ** (np.tile(np.arange(40), slots // 144) / 4)).astype(np.int64)
        names = {"series": ["end_to_end"] * size, "scope": [f"reader/{i}"] * size}
        counts = generator.integers(1, 400, size)
        parts["latency"].append(pa.table({"at_us": at_us, **names, "bin_us": edges, "count": counts}))
    for table, pieces in parts.items():
        (run.audit / table).mkdir(parents=True)
        pq.write_table(pa.concat_tables(pieces), run.audit / table / "part-0.parquet")
