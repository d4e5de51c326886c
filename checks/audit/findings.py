"""Findings: the one shape in which every check reports, and how they are counted exactly and shown in part."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Finding = dict[str, Any]
"""check, split, scope, the columns of `COLUMNS`, and evidence as JSON."""

CAP = 200
"""Findings shown of each check, split and scope. The counts are exact whatever the cap."""

UNDETERMINED = "undetermined"
"""The split of rows for which a rule could not be decided: counted apart, never shown as an anomaly."""

COLUMNS = ("topic", "partition", "offset", "producer", "incarnation", "seq", "consumer", "at_us")
_ALL = ["check", "split", "scope", *COLUMNS, "evidence"]


def finding(check: str, scope: str, split: str = "", evidence: dict[str, Any] | None = None, **columns: Any) -> Finding:
    """One finding; columns that are not given are null, and so is what is null in the evidence left out."""
    assert columns.keys() <= set(COLUMNS), columns
    told = {name: value for name, value in (evidence or {}).items() if value is not None}
    row: Finding = {"check": check, "split": split, "scope": scope, **dict.fromkeys(COLUMNS), **columns}
    return row | {"evidence": json.dumps(told)}


def cap(findings: Iterable[Finding]) -> list[Finding]:
    """At most CAP of the findings of one check, split and scope: the lowest places and times first."""
    return sorted(findings, key=rank)[:CAP]


def rank(row: Finding) -> list[tuple[bool, Any]]:
    """The order of findings: by check, split, scope, then place and time, what is not known first."""
    return [(row[name] is not None, row[name]) for name in _ALL]
