"""Findings: the one row format in which every rule reports. Counts are exact, the rows shown are capped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Finding = dict[str, Any]
"""check, split, scope, the columns of `COLUMNS`, and evidence as JSON."""

CAP = 200
"""Maximum number of findings shown per check, split and scope."""

UNDETERMINED = "undetermined"
"""The split of rows for which a rule could not be decided: counted separately, never shown as an anomaly."""

POSITION = ("topic", "partition", "offset", "producer", "incarnation", "seq")
COLUMNS = (*POSITION, "consumer", "at_us")
_ORDER = ["check", "split", "scope", *COLUMNS, "evidence"]


def finding(check: str, scope: str, split: str = "", evidence: dict[str, Any] | None = None, **columns: Any) -> Finding:
    """Return one finding. Columns that are not passed are null; null values are left out of the evidence."""
    assert columns.keys() <= set(COLUMNS), columns
    present = {name: value for name, value in (evidence or {}).items() if value is not None}
    row: Finding = {"check": check, "split": split, "scope": scope, **dict.fromkeys(COLUMNS), **columns}
    return row | {"evidence": json.dumps(present)}


def cap(findings: Iterable[Finding]) -> list[Finding]:
    """Return the first `CAP` findings of one check, split and scope in the order of `rank`."""
    return sorted(findings, key=rank)[:CAP]


def rank(row: Finding) -> list[tuple[bool, Any]]:
    """Return the sort key of a finding: check, split, scope, then position and time, nulls first."""
    return [(row[name] is not None, row[name]) for name in _ORDER]
