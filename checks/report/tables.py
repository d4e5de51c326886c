"""Tables of the report. Any table may be missing, so that a run that failed early still has a report.

Reading them needs no Spark: the audit aggregates large tables into buckets of time and bins of latency.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from chaos.run.directory import Run

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
    """The tables with the columns that the report uses. unwritten, unreadable: names and errors of missing tables."""

    series: pa.Table
    latency: pa.Table
    ownership: list[Row]
    anomalies: pa.Table
    cluster: list[Row]
    faults: list[Row]
    lifecycle: list[Row]
    unwritten: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[str]:
        """The missing tables and the reasons, as text."""
        return [f"Not written: {', '.join(self.unwritten)}"] * bool(self.unwritten) + self.unreadable


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Return the rows by key, in their order."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def read_tables(run: Run) -> Tables:
    """Read all available tables of a run."""
    sources = {name: (run.audit / name, f"audit/{name}", columns) for name, columns in AUDIT.items()}
    sources |= {
        name: (run.ledger / f"{name}.parquet", f"ledger/{name}.parquet", columns) for name, columns in LEDGER.items()
    }
    tables: dict[str, pa.Table] = {}
    unwritten, unreadable = [], []
    for name, (path, title, columns) in sources.items():
        tables[name] = pa.schema(list(columns.items())).empty_table()
        if not path.exists():
            unwritten.append(title)
            continue
        try:
            tables[name] = _read(path, columns)
        except (pa.ArrowException, OSError, ValueError) as e:
            unreadable.append(f"{title} cannot be read: {str(e).splitlines()[0]}")
    return Tables(
        series=tables["series"],
        latency=tables["latency"],
        ownership=[r for r in tables["ownership"].to_pylist() if r["begin_us"] is not None and r["topic"] is not None],
        anomalies=tables["anomalies"],
        cluster=[row | {"value": v} for row in _in_order(tables["cluster"]) if (v := _json(row)) is not _BROKEN],
        faults=_in_order(tables["faults"]),
        lifecycle=_in_order(tables["lifecycle"]),
        unwritten=unwritten,
        unreadable=unreadable,
    )


def _read(path: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Read a table with exactly these columns."""
    data = ds.dataset(path, format="parquet")
    if absent := [c for c in columns if c not in data.schema.names]:
        raise ValueError(f"it has no column {', '.join(absent)}")
    return data.to_table(columns=list(columns)).cast(pa.schema(list(columns.items())))


def _in_order(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.filter(pc.is_valid(table["at_us"])).sort_by("at_us").to_pylist()
    return rows


_BROKEN = object()


def _json(row: Row) -> Any:
    try:
        return json.loads(row["value"])
    except (TypeError, ValueError):
        return _BROKEN
