"""Rows of a run that need no Spark: tables of the audit, small tables of the ledger, and outcomes of the faults.

A missing table reads as empty, so that a run that broke off early still has a report. Spark reads the large tables of
the ledger (sends, deliveries, commits, log).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from chaos.ledger.files import ledger_files, read_file
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd
from chaos.run.directory import Run, json_object
from chaos.run.events import DRIVING, OVERDUE, read_events, stages_broken_off
from chaos.run.result import FaultOutcome
from chaos.scenario.resolve import Resolved

Row = dict[str, Any]


def audit_rows(run: Run, table: str) -> list[Row]:
    """Return all rows of a table of the audit."""
    return _rows(run.audit / table, None)


def ledger_rows(run: Run, table: str, columns: Sequence[str]) -> list[Row]:
    """Return the given columns of a sealed table of the ledger; None for columns that an older version lacks."""
    return _rows(run.ledger / f"{table}.parquet", columns)


def last_send_error(run: Run, topics: Sequence[str]) -> tuple[str, str] | None:
    """Return the producer and the error of the last send to some topics that failed with one; None without one."""
    try:
        stored = ds.dataset(run.ledger / "sends.parquet", format="parquet")
        here = ds.field("topic").isin(list(topics)) & ds.field("error").is_valid()
        found = stored.to_table(["producer", "error", "completed_us"], filter=here)
    except (pa.ArrowException, OSError):
        return None
    if not found.num_rows:
        return None
    last = found.sort_by([("completed_us", "descending")]).slice(0, 1).to_pylist()[0]
    return last["producer"], last["error"]


def _rows(path: Path, columns: Sequence[str] | None) -> list[Row]:
    if not path.exists():
        return []
    try:
        stored = ds.dataset(path, format="parquet")
        absent = dict.fromkeys(c for c in columns or () if c not in stored.schema.names)
        rows: list[Row] = stored.to_table(columns and [c for c in columns if c not in absent]).to_pylist()
    except (pa.ArrowException, OSError):
        return []  # terms that need these rows are then inconclusive: nothing reads as zero
    return [row | absent for row in rows] if absent else rows


def fault_outcomes(run: Run, resolved: Resolved) -> list[FaultOutcome]:
    """Return one outcome for each fault of the scenario, including faults that were never injected.

    If the drive was killed before it sealed the ledger, the rows are what it had written until then.
    """
    columns = ["fault", "kind", "target", "phase", "evidence", "at_us"]
    found = ledger_rows(run, "faults", columns) or _unsealed_rows(run, "faults")
    events = list(read_events(run))
    rows, ended = sorted(found, key=lambda r: r["at_us"]), bool(stages_broken_off(events, DRIVING))
    overdue = {str(event["fault"]): str(event["words"]) for event in events if event.get("kind") == OVERDUE}
    longest: dict[tuple[str, str], int] = {}
    for row in audit_rows(run, "metrics"):
        if row["stat"] == "max" and row["value_us"] is not None:
            key = row["metric"], row["fault"].partition(":")[0]  # the longest after any of its steps
            longest[key] = max(longest.get(key, 0), row["value_us"])
    counts: Counter[str] = Counter()
    for row in audit_rows(run, "counts"):
        counts[row["name"]] += row["value"] if row["name"] in ("acked", "sent") else 0
    outcomes = []
    for fault in resolved.scenario.every_fault:
        outcome = FaultOutcome(
            name=fault.name,
            kind=fault.kind,
            trigger=fault.when.describe(),
            target=fault.aimed_at,
            drive_broke_off=ended,
            overdue=overdue.get(fault.name, ""),
        )
        for row in rows:
            if row["fault"] == fault.name:
                _enter(outcome, row)
        if fault.when.acked is not None and counts["acked"] < counts["sent"]:
            outcome.sends = f"{counts['acked']:,} of {counts['sent']:,} records sent were acknowledged"
        outcome.produce_unavailability_us = longest.get(("produce_unavailability", fault.name))
        outcome.consume_unavailability_us = longest.get(("consume_unavailability", fault.name))
        outcomes.append(outcome)
    return outcomes


def _unsealed_rows(run: Run, table: str) -> list[Row]:
    """Return the complete rows of a table in the files of its writers, which a drive that was killed left."""
    files = ledger_files(run.ledger / table)
    try:
        return [
            row for path in files for batch in read_file(path, TABLES[table], StreamEnd()) for row in batch.to_pylist()
        ]
    except (pa.ArrowException, OSError, ValueError):
        return []


def _enter(outcome: FaultOutcome, row: Row) -> None:
    """Apply one row to the outcome. The first row of each phase counts; any row may add the error."""
    evidence = json_object(row["evidence"])
    outcome.resolved = str(evidence.get("resolved") or outcome.resolved)
    text, at = str(evidence.get("words") or ""), row["at_us"]
    match row["phase"]:
        case "injecting":
            outcome.begun_us = outcome.begun_us or at
        case "injected":
            outcome.begun_us = outcome.begun_us or at
            outcome.injected_us = outcome.injected_us or at
        case "proven":
            if outcome.proven_us is None:
                outcome.proven_us, outcome.proof = at, text
        case "healed":
            outcome.healed_us = outcome.healed_us or at
        case "failed":
            text = text or "a step of the fault failed without a recorded reason"
            if evidence.get("act") == "heal":
                outcome.heal_error = outcome.heal_error or text
            else:
                outcome.error = outcome.error or text
