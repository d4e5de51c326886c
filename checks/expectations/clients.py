"""Observed values of a consumer group (highest number of members, rebalances under load), and errors of clients."""

from __future__ import annotations

import json
from typing import Any

from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.scenario.resolve import Resolved
from checks.evidence.tables import json_object, ledger_rows
from checks.expectations.observation import Observation, listed

Window = tuple[int, int]


def most_members(run: Run, group: str) -> Observation:
    """Return the highest number of members that the observer saw at one time."""
    rows = ledger_rows(run, "cluster", ["entity", "key", "value"])
    sizes = [_size(r["value"]) for r in rows if r["entity"] == f"group:{group}" and r["key"] == "members"]
    answers = [size for size in sizes if size is not None]
    if not answers:
        return Observation.missing(
            "not observed",
            f"the observer never got an answer about the members of group {group}: look at the rows `observer` and "
            f"`group:{group}` of ledger/cluster.parquet, and give the coordinator time between faults",
        )
    return Observation(max(answers), f"{max(answers):,}", f"over {len(answers):,} observed changes")


def rebalances(run: Run, resolved: Resolved, group: str) -> Observation:
    """Count the generations between the forming of the group and the order to stop the clients.

    The count uses the numbers of the generations, so it includes generations that no member lived to report. Members
    report a generation without any reassignment (cooperative members kept their partitions) when they stop.
    """
    if all(c.mode == "assign" for c in resolved.scenario.readers if c.group == group):
        return Observation(0, "0", "assign-mode consumers are in no group, so they never rebalance")
    columns = ["consumer", "group", "mode", "generation", "event", "at_us"]
    rows = [
        r
        for r in ledger_rows(run, "assignments", columns)
        if r["group"] == group and r["mode"] == "subscribe" and r["generation"] is not None
    ]
    if not rows:
        reason = f"no member of group {group} was assigned a partition: see the consumers' files in logs/"
        return Observation.missing("not observed", reason)
    began, ended = _load_window(run)
    before = [r["generation"] for r in rows if r["at_us"] < began]
    during = [r["generation"] for r in rows if began <= r["at_us"] <= ended]
    formed = max(before, default=min(r["generation"] for r in rows))
    last = max(formed, *during, _generation_at_stop([r for r in rows if r["at_us"] > ended]))
    count = max(0, last - formed)
    return Observation(count, f"{count:,}", f"formed as generation {formed}, stopped as generation {last}")


def _generation_at_stop(after: list[dict[str, Any]]) -> int:
    """Return the generation at the order to stop, from the members that revoked their partitions after it; else 0.

    The first member to leave starts a new generation for the others. The result is therefore the lowest generation of
    the members whose first row after the order is not an assignment.
    """
    first: dict[str, dict[str, Any]] = {}
    for row in sorted(after, key=lambda r: r["at_us"]):
        first.setdefault(row["consumer"], row)
    return min((r["generation"] for r in first.values() if r["event"] != "assigned"), default=0)


def _load_window(run: Run) -> Window:
    """Return the time from the start of the load to the order to stop; unbounded on a side that was not recorded."""
    begins = {
        e["stage"]: e["at_us"] for e in read_events(run) if e.get("kind") == "stage" and e.get("state") == "begin"
    }
    return begins.get("load", 0), begins.get("stop", 2**62)


def _size(value: str) -> int | None:
    """Return the number of members from a JSON list or number; None for anything else."""
    try:
        members = json.loads(value)
    except (TypeError, ValueError):
        return None
    if isinstance(members, list):
        return len(members)
    return members if isinstance(members, int) else None


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
