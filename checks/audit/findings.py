"""Findings: the one shape in which every check reports, and how they are counted exactly and shown in part."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

Finding = dict[str, Any]
"""check, split, scope, the columns of `COLUMNS`, and evidence as JSON."""

CAP = 200
"""Findings shown of each check, split and scope. The counts are exact whatever the cap."""

UNDETERMINED = "undetermined"
"""The split of rows for which a rule could not be decided: counted apart, never shown as an anomaly."""

COLUMNS = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "producer": "string",
    "incarnation": "int",
    "seq": "bigint",
    "consumer": "string",
    "at_us": "bigint",
}
_ALL = ["check", "split", "scope", *COLUMNS, "evidence"]


def finding(check: str, scope: str, split: str = "", evidence: dict[str, Any] | None = None, **columns: Any) -> Finding:
    """One finding; columns that are not given are null, and so is what is null in the evidence left out."""
    assert columns.keys() <= COLUMNS.keys(), columns
    told = {name: value for name, value in (evidence or {}).items() if value is not None}
    row: Finding = {"check": check, "split": split, "scope": scope, **dict.fromkeys(COLUMNS), **columns}
    return row | {"evidence": json.dumps(told)}


def cap(findings: Iterable[Finding]) -> list[Finding]:
    """At most CAP of the findings of one check, split and scope: the lowest places and times first."""
    return sorted(findings, key=rank)[:CAP]


def rank(row: Finding) -> list[tuple[bool, Any]]:
    """The order of findings: by check, split, scope, then place and time, what is not known first."""
    return [(row[name] is not None, row[name]) for name in _ALL]


def report(
    rows: DataFrame, check: str, scope: str, split: str = "''", evidence: Sequence[str] = (), **columns: str
) -> DataFrame:
    """Turn the rows that break a rule into findings.

    scope and split are SQL expressions; so are the given columns, by default the row's own column of that name where
    it has one. evidence: SQL expressions with names (`x AS acked_offset`) that go into the JSON; nulls are left out.
    """
    own = set(rows.columns)
    chosen = {name: columns.get(name, f"`{name}`" if name in own else "NULL") for name in COLUMNS}
    return rows.selectExpr(
        f"'{check}' AS check",
        f"{split} AS split",
        f"CAST({scope} AS STRING) AS scope",
        *(f"CAST({expression} AS {COLUMNS[name]}) AS {name}" for name, expression in chosen.items()),
        f"to_json(struct({', '.join(evidence)})) AS evidence" if evidence else "'{}' AS evidence",
    )


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """All findings of several checks."""
    return reduce(DataFrame.unionAll, parts)


def capped(findings: DataFrame) -> DataFrame:
    """At most CAP rows of each check, split and scope, the lowest places and times first, each with the exact total."""
    group = "PARTITION BY check, split, scope"
    order = ", ".join([*COLUMNS, "evidence"])
    return (
        findings.selectExpr(
            *_ALL, f"count(*) OVER ({group}) AS total", f"row_number() OVER ({group} ORDER BY {order}) AS rank"
        )
        .filter(f"rank <= {CAP}")
        .orderBy("check", "split", "scope", "rank")
        .drop("rank")
    )
