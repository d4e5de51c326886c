"""Tables of the report. Any table may be missing, so that a run that failed early still has a report.

Reading them needs no Spark: the audit aggregates large tables into buckets of time and bins of latency.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from chaos.run.directory import Run

Row = dict[str, Any]


def _schema(texts: str, numbers: str) -> pa.Schema:
    types = {name: pa.string() for name in texts.split()} | {name: pa.int64() for name in numbers.split()}
    return pa.schema(list(types.items()))


AUDIT = {
    "series": _schema("series scope", "at_us").append(pa.field("value", pa.float64())),
    "latency": _schema("series scope", "at_us bin_us count"),
    "ownership": _schema("group topic consumer end_reason", "partition incarnation generation begin_us end_us"),
    "anomalies": _schema("check split scope topic mechanism", "partition at_us"),
    "group_lives": _schema("group", "life begin_us end_us first_generation last_generation"),
}
APPS = {
    "app_ownership": AUDIT["ownership"],
    "app_series": AUDIT["series"],
}
"""Tables of the audit that only runs with applications have; their rows join the tables of the same columns."""
LEDGER = {
    "cluster": _schema("entity key value", "at_us"),
    "faults": _schema("fault phase evidence", "at_us"),
    "lifecycle": _schema("client role event detail", "incarnation at_us"),
    "apps": _schema("app event detail", "instance incarnation at_us"),
}
OPTIONAL = {"ledger/apps.parquet", "wire/connections.parquet", *(f"audit/{name}" for name in APPS)}


@dataclass(frozen=True)
class Tables:
    """The tables with the columns that the report uses. missing: which could not be read, and why, as text."""

    series: pa.Table
    latency: pa.Table
    ownership: list[Row]
    anomalies: pa.Table
    cluster: list[Row]
    faults: list[Row]
    lifecycle: list[Row]
    group_lives: list[Row] = field(default_factory=list)
    apps: list[Row] = field(default_factory=list)
    connections: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def read_tables(run: Run) -> Tables:
    """Read all available tables of a run."""
    files = {f"audit/{name}": (name, schema) for name, schema in (AUDIT | APPS).items()}
    files["wire/connections.parquet"] = ("connections", _schema("instance library library_version client_id", ""))
    files |= {f"ledger/{name}.parquet": (name, schema) for name, schema in LEDGER.items()}
    tables: dict[str, pa.Table] = {}
    unwritten, unreadable = [], []
    for file, (name, schema) in files.items():
        tables[name] = schema.empty_table()
        if not (run.path / file).exists():
            unwritten += [file] if file not in OPTIONAL else []
            continue
        try:
            tables[name] = _read(run.path / file, schema)
        except (pa.ArrowException, OSError, ValueError) as e:
            unreadable.append(f"{file} cannot be read: {str(e).splitlines()[0]}")
    owned = pa.concat_tables([tables["ownership"], tables["app_ownership"]]).to_pylist()
    return Tables(
        series=pa.concat_tables([tables["series"], tables["app_series"]]),
        latency=tables["latency"],
        ownership=[r for r in owned if r["begin_us"] is not None and r["topic"] is not None],
        anomalies=tables["anomalies"],
        cluster=list(_parsed(_in_order(tables["cluster"]))),
        faults=_in_order(tables["faults"]),
        lifecycle=_in_order(tables["lifecycle"]),
        group_lives=tables["group_lives"].sort_by([("group", "ascending"), ("life", "ascending")]).to_pylist(),
        apps=_in_order(tables["apps"]),
        connections=tables["connections"].to_pylist(),
        missing=[f"Not written: {', '.join(unwritten)}"] * bool(unwritten) + unreadable,
    )


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a table with exactly the columns of the schema."""
    data = ds.dataset(path, format="parquet")
    if absent := [c for c in schema.names if c not in data.schema.names]:
        raise ValueError(f"it has no column {', '.join(absent)}")
    return data.to_table(columns=schema.names).cast(schema)


def _in_order(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.filter(pc.is_valid(table["at_us"])).sort_by("at_us").to_pylist()
    return rows


def _parsed(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows with their value parsed. Leave out rows without a JSON value."""
    for row in rows:
        with suppress(TypeError, ValueError):
            yield row | {"value": json.loads(row["value"])}
