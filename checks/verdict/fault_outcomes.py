"""How each fault of the scenario went, from its rows in the ledger."""

from __future__ import annotations

from chaos.run.directory import Run
from chaos.run.result import FaultOutcome
from chaos.scenario.resolve import Resolved
from checks.verdict.audit_rows import Row, audit_rows, json_object, ledger_rows


def fault_outcomes(run: Run, resolved: Resolved) -> list[FaultOutcome]:
    """One outcome for each fault of the scenario, also for one that never came."""
    rows = sorted(
        ledger_rows(run, "faults", ["fault", "kind", "target", "phase", "evidence", "at_us"]), key=lambda r: r["at_us"]
    )
    metrics = [r for r in audit_rows(run, "metrics") if r["stat"] == "max" and r["value_us"] is not None]
    outcomes = []
    for fault in resolved.scenario.faults:
        outcome = FaultOutcome(
            name=fault.name, kind=fault.kind, trigger=fault.when.words(), target=fault.target.words()
        )
        for row in rows:
            if row["fault"] == fault.name:
                _enter(outcome, row)
        for metric in ("produce_unavailability", "consume_unavailability"):
            worst = max(
                (r["value_us"] for r in metrics if r["metric"] == metric and r["fault"] == fault.name), default=None
            )
            setattr(outcome, f"{metric}_us", worst)
        outcomes.append(outcome)
    return outcomes


def missing_proof(fault: FaultOutcome) -> str:
    """Why a fault proves nothing, and what to change; empty for one that took effect and was healed."""
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
    """Take over one row; the first of each phase counts, but an error of any."""
    evidence = json_object(row["evidence"])
    outcome.resolved = str(evidence.get("resolved") or outcome.resolved)
    words, at = str(evidence.get("words") or ""), row["at_us"]
    match row["phase"]:
        case "injected":
            outcome.injected_us = outcome.injected_us or at
        case "proven":
            if outcome.proven_us is None:
                outcome.proven_us, outcome.proof = at, words
        case "healed":
            outcome.healed_us = outcome.healed_us or at
        case "failed":
            outcome.error = outcome.error or words or "a step of the fault failed without a reason on record"
