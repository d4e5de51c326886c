"""Errors that clients recorded in the ledger table `lifecycle`."""

from __future__ import annotations

from chaos.run.directory import Run
from checks.evidence.tables import json_object, ledger_rows
from checks.expectations.observation import Observation
from checks.expectations.phrases import listed


def clients_with_error(run: Run, entry: str, text: str) -> Observation:
    """Count the clients of an entry that reported an error containing the text; repeated errors count once."""
    rows = ledger_rows(run, "lifecycle", ["client", "event", "detail"])
    of_entry = [r for r in rows if str(r["client"]).rpartition("/")[0] == entry]
    if not of_entry:
        reason = f"the ledger has no client of {entry}: see the stages of the drive in events.jsonl"
        return Observation.missing("not recorded", reason)
    errors = [
        (str(r["client"]), str(json_object(r["detail"]).get("error", ""))) for r in of_entry if r["event"] == "error"
    ]
    clients = sorted({client for client, error in errors if text in error})
    others = sorted({error for _, error in errors if text not in error})
    reason = f"reported by {listed(clients)}" if clients else "reported by no client"
    return Observation(
        len(clients), f"{len(clients)}", reason + (f"; other errors: {listed(others)}" if others else "")
    )
