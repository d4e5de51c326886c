"""The small tables a report is drawn from. Any may be missing: a run that failed early still has a report.

Nothing here needs Spark: the audit has aggregated what is large (buckets of time, bins of latency).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from chaos.rundir import RunDir

Row = dict[str, Any]

_TEXT, _INT, _FLOAT = pa.string(), pa.int64(), pa.float64()
AUDIT: dict[str, dict[str, pa.DataType]] = {
    "series": {"at_us": _INT, "series": _TEXT, "scope": _TEXT, "value": _FLOAT},
    "latency": {"at_us": _INT, "series": _TEXT, "scope": _TEXT, "bin_us": _INT, "count": _INT},
    "ownership": {
        "group": _TEXT,
        "topic": _TEXT,
        "partition": _INT,
        "consumer": _TEXT,
        "incarnation": _INT,
        "generation": _INT,
        "begin_us": _INT,
        "end_us": _INT,
        "end_reason": _TEXT,
    },
    "anomalies": {
        "check": _TEXT,
        "split": _TEXT,
        "scope": _TEXT,
        "topic": _TEXT,
        "partition": _INT,
        "at_us": _INT,
        "mechanism": _TEXT,
    },
}
LEDGER: dict[str, dict[str, pa.DataType]] = {
    "cluster": {"at_us": _INT, "entity": _TEXT, "key": _TEXT, "value": _TEXT},
    "faults": {"fault": _TEXT, "phase": _TEXT, "evidence": _TEXT, "at_us": _INT},
    "lifecycle": {"client": _TEXT, "role": _TEXT, "incarnation": _INT, "event": _TEXT, "detail": _TEXT, "at_us": _INT},
}


@dataclass(frozen=True)
class Tables:
    """What was found, in the columns that the report uses; `missing` says what was not, and why."""

    series: pa.Table
    latency: pa.Table
    ownership: list[Row]
    anomalies: pa.Table
    cluster: list[Row]
    faults: list[Row]
    lifecycle: list[Row]
    missing: list[str] = field(default_factory=list)


def read_tables(run: RunDir) -> Tables:
    """Read every table that is there."""
    missing: list[str] = []
    found = {name: _read(run.audit / name, f"audit/{name}", columns, missing) for name, columns in AUDIT.items()}
    for name, columns in LEDGER.items():
        found[name] = _read(run.ledger / f"{name}.parquet", f"ledger/{name}.parquet", columns, missing)
    cluster = [row | {"value": value} for row in _in_order(found["cluster"]) if (value := _json(row)) is not _BROKEN]
    return Tables(
        series=found["series"],
        latency=found["latency"],
        ownership=[r for r in found["ownership"].to_pylist() if r["begin_us"] is not None and r["topic"] is not None],
        anomalies=found["anomalies"],
        cluster=cluster,
        faults=_in_order(found["faults"]),
        lifecycle=_in_order(found["lifecycle"]),
        missing=missing,
    )


def _read(path: Path, name: str, columns: Mapping[str, pa.DataType], missing: list[str]) -> pa.Table:
    """One table in exactly these columns; an empty one, and a line in `missing`, where it cannot be had."""
    schema = pa.schema(list(columns.items()))
    if not path.exists():
        missing.append(f"{name} was not written")
        return schema.empty_table()
    try:
        data = ds.dataset(path, format="parquet")
        if absent := [c for c in columns if c not in data.schema.names]:
            missing.append(f"{name} has no column {', '.join(absent)}")
            return schema.empty_table()
        return data.to_table(columns=list(columns)).cast(schema)
    except (pa.ArrowException, OSError, ValueError) as e:
        missing.append(f"{name} cannot be read: {str(e).splitlines()[0]}")
        return schema.empty_table()


def _in_order(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.filter(pc.is_valid(table["at_us"])).sort_by("at_us").to_pylist()
    return rows


_BROKEN = object()


def _json(row: Row) -> Any:
    try:
        return json.loads(row["value"])
    except (TypeError, ValueError):
        return _BROKEN
