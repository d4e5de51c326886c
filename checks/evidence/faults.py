"""Outcome of each fault of the scenario, from its rows in the ledger."""

from __future__ import annotations

from chaos.run.directory import Run
from chaos.run.result import FaultOutcome
from chaos.scenario.resolve import Resolved
from checks.evidence.tables import Row, audit_rows, json_object, ledger_rows


def fault_outcomes(run: Run, resolved: Resolved) -> list[FaultOutcome]:
    """Return one outcome for each fault of the scenario, including faults that were never injected."""
    columns = ["fault", "kind", "target", "phase", "evidence", "at_us"]
    rows = sorted(ledger_rows(run, "faults", columns), key=lambda r: r["at_us"])
    longest: dict[tuple[str, str], int] = {}
    for row in audit_rows(run, "metrics"):
        if row["stat"] == "max" and row["value_us"] is not None:
            key = row["metric"], row["fault"]
            longest[key] = max(longest.get(key, 0), row["value_us"])
    outcomes = []
    for fault in resolved.scenario.faults:
        outcome = FaultOutcome(
            name=fault.name, kind=fault.kind, trigger=fault.when.describe(), target=fault.target.describe()
        )
        for row in rows:
            if row["fault"] == fault.name:
                _enter(outcome, row)
        outcome.produce_unavailability_us = longest.get(("produce_unavailability", fault.name))
        outcome.consume_unavailability_us = longest.get(("consume_unavailability", fault.name))
        outcomes.append(outcome)
    return outcomes


def missing_proof(fault: FaultOutcome) -> str:
    """Return why a fault proves nothing and what to change; empty if the fault took effect."""
    if fault.error:
        return f"{fault.error}; look at logs/ and at the fault's target"
    if fault.injected_us is None:
        return (
            f"fault {fault.name} was never injected: its trigger ({fault.trigger}) did not come; "
            "set it earlier or raise limits.drive"
        )
    if fault.proven_us is None:
        hit = f" on {fault.resolved}" if fault.resolved else ""
        return (
            f"fault {fault.name} was injected{hit}, but no effect was seen from outside; raise limits.proof, "
            "keep the load running for longer after it, or aim it at something that the load depends on"
        )
    return ""


def _enter(outcome: FaultOutcome, row: Row) -> None:
    """Apply one row to the outcome. The first row of each phase counts; any row may add the error."""
    evidence = json_object(row["evidence"])
    outcome.resolved = str(evidence.get("resolved") or outcome.resolved)
    text, at = str(evidence.get("words") or ""), row["at_us"]
    match row["phase"]:
        case "injected":
            outcome.injected_us = outcome.injected_us or at
        case "proven":
            if outcome.proven_us is None:
                outcome.proven_us, outcome.proof = at, text
        case "healed":
            outcome.healed_us = outcome.healed_us or at
        case "failed":
            outcome.error = outcome.error or text or "a step of the fault failed without a recorded reason"
