"""What clients reported: the errors on record in `lifecycle`."""

from __future__ import annotations

from chaos.run.directory import Run
from checks.evidence.tables import json_object, ledger_rows
from checks.expectations.phrases import listed
from checks.expectations.seen import Seen, unseen


def clients_that_reported(run: Run, entry: str, words: str) -> Seen:
    """How many clients of an entry reported an error with these words, however often each did."""
    rows = ledger_rows(run, "lifecycle", ["client", "event", "detail"])
    mine = [r for r in rows if str(r["client"]).rpartition("/")[0] == entry]
    if not mine:
        return unseen(
            "not recorded", f"the ledger knows of no client of {entry}: see the drive's stages in events.jsonl"
        )
    said = [(str(r["client"]), str(json_object(r["detail"]).get("error", ""))) for r in mine if r["event"] == "error"]
    who = sorted({client for client, error in said if words in error})
    others = sorted({error for _, error in said if words not in error})
    told = f"reported by {listed(who)}" if who else "reported by nobody"
    return Seen(len(who), f"{len(who)}", told + (f"; other errors: {listed(others)}" if others else ""))
