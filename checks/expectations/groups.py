"""What was seen of a group: the most members at once, and its rebalances while the load ran."""

from __future__ import annotations

import json
from typing import Any

from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.scenario.resolve import Resolved
from checks.evidence.tables import ledger_rows
from checks.expectations.seen import Seen, unseen

Window = tuple[int, int]


def members_at_most(run: Run, group: str) -> Seen:
    """The most members that the observer ever saw at once."""
    rows = ledger_rows(run, "cluster", ["entity", "key", "value"])
    sizes = [_size(r["value"]) for r in rows if r["entity"] == f"group:{group}" and r["key"] == "members"]
    known = [size for size in sizes if size is not None]
    if not known:
        return unseen(
            "not observed",
            f"the observer never got an answer about the members of group {group}: look at the rows `observer` and "
            f"`group:{group}` of ledger/cluster.parquet, and give the coordinator time between faults",
        )
    return Seen(max(known), f"{max(known):,}", f"over {len(known):,} observed changes")


def rebalances(run: Run, resolved: Resolved, group: str) -> Seen:
    """Generations that came after all clients were up, when the group had formed, and before the clients were stopped.

    Generations are counted by their numbers, so one that no member lived to see counts too. One in which nothing was
    handed out anew (cooperative members kept what they had) is known from what members say when they are stopped.
    """
    if all(c.mode == "assign" for c in resolved.scenario.readers if c.group == group):
        return Seen(0, "0", "assign-mode consumers are in no group, so none can rebalance")
    columns = ["consumer", "group", "mode", "generation", "event", "at_us"]
    rows = [
        r
        for r in ledger_rows(run, "assignments", columns)
        if r["group"] == group and r["mode"] == "subscribe" and r["generation"] is not None
    ]
    if not rows:
        return unseen(
            "not observed", f"no member of group {group} was assigned a partition: see the consumers' files in logs/"
        )
    began, ended = _load_window(run)
    before = [r["generation"] for r in rows if r["at_us"] < began]
    during = [r["generation"] for r in rows if began <= r["at_us"] <= ended]
    formed = max(before, default=min(r["generation"] for r in rows))
    last = max(formed, *during, _generation_at_stop([r for r in rows if r["at_us"] > ended]))
    count = max(0, last - formed)
    return Seen(count, f"{count:,}", f"formed as generation {formed}, stopped as generation {last}")


def _generation_at_stop(after: list[dict[str, Any]]) -> int:
    """The generation when the order to stop came, as far as members that gave up their partitions then tell it; else 0.

    The first that leaves starts another generation for the others. So the least counts, of those members only whose
    first row it is: nothing was handed out to them after the order.
    """
    first: dict[str, dict[str, Any]] = {}
    for row in sorted(after, key=lambda r: r["at_us"]):
        first.setdefault(row["consumer"], row)
    return min((r["generation"] for r in first.values() if r["event"] != "assigned"), default=0)


def _load_window(run: Run) -> Window:
    """From the moment that all clients were up to the order to stop; all of the run where either is not on record."""
    begins = {
        e["stage"]: e["at_us"] for e in read_events(run) if e.get("kind") == "stage" and e.get("state") == "begin"
    }
    return begins.get("load", 0), begins.get("stop", 2**62)


def _size(value: str) -> int | None:
    """The number of members, from a list of them or a number."""
    try:
        members = json.loads(value)
    except (TypeError, ValueError):
        return None
    if isinstance(members, list):
        return len(members)
    return members if isinstance(members, int) else None
