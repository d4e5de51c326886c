"""What rules report: findings, all in one row format, and the reasons for which a rule cannot decide a row.

Counts are exact, the rows shown are capped. A reason has what decides such rows in another run, if anything does. These
are the reasons of several modules. A reason of one module stands there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Finding = dict[str, Any]
"""check, split, scope, the columns of `COLUMNS`, and evidence as JSON."""

CAP = 200
"""Maximum number of findings shown per check, split and scope."""

UNDECIDED = "undecided"
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


@dataclass(frozen=True)
class Reason:
    """A reason. why: why rows are undecided, as a clause; advice: what to change, empty if nothing helps."""

    why: str
    advice: str = ""


COMMITS = "commits"
"""In table `undecided`, in place of a check: the commits of unknown outcome that every check leaves out."""
WIRE = "wire"
"""In table `undecided`, in place of a check: why what passed on the wire decides nothing."""
STALLED = ("stalled_delivery", "stalled_share")
"""Checks of what a reader has left at the end: that says something only after a drain."""

UNREAD = Reason("their partition is not in the log that was read back")
SEVERAL_LIVES = Reason(
    "their topic was deleted and created again at that time, and neither the final log nor offsets show which of the "
    "topics they belong to"
)
NO_END = Reason("their producer did not learn the end of a transaction that may concern them")
OPEN = Reason(
    "a transaction was open when the log was read back, so whether readers see its records is unknown",
    "set a transaction.timeout.ms that ends it before the run does",
)
NO_BEGIN = Reason("where their reader began is unknown")
