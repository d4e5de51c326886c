"""Number of rebalances of a group, from the generations that its members report."""

from __future__ import annotations

from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.scenario.resolve import Resolved
from checks.evidence import Row, ledger_rows
from checks.expectations.judge import Observation


def count_rebalances(run: Run, resolved: Resolved, group: str) -> Observation:
    """Count the generations between the forming of the group and the order to stop the clients.

    The count uses the numbers of the generations, so it includes generations that no member lived to report. Members
    report a generation without any reassignment (cooperative members kept their partitions) when they stop.
    """
    if all(c.mode == "assign" for c in resolved.scenario.readers if c.group == group):
        return Observation(0, "0", "assign-mode consumers are in no group, so they never rebalance")
    columns = ["consumer", "group", "mode", "generation", "event", "at_us"]
    subscribed = [r for r in ledger_rows(run, "assignments", columns) if r["mode"] == "subscribe"]
    assigned = [r for r in subscribed if r["group"] == group]
    rows = [r for r in assigned if r["generation"] is not None]
    if not rows:
        reason = f"no member of group {group} was assigned a partition: see the consumers' files in logs/"
        if assigned:
            reason = f"the members of group {group} report no generation: their client library does not give it"
        return Observation.missing("not observed", reason)
    events = [e for e in read_events(run) if e.get("kind") == "stage" and e.get("state") == "begin"]
    begins = {e["stage"]: e["at_us"] for e in events}
    began, ended = begins.get("load", 0), begins.get("stop", 2**62)
    before = [r["generation"] for r in rows if r["at_us"] < began]
    during = [r["generation"] for r in rows if began <= r["at_us"] <= ended]
    formed = max(before, default=min(r["generation"] for r in rows))
    last = max(formed, *during, _generation_at_stop([r for r in rows if r["at_us"] > ended]))
    count = max(0, last - formed)
    return Observation(count, f"{count:,}", f"formed as generation {formed}, stopped as generation {last}")


def _generation_at_stop(after: list[Row]) -> int:
    """Return the generation at the order to stop, from the members that revoked their partitions after it; else 0.

    The first member to leave starts a new generation for the others. The result is therefore the lowest generation of
    the members that have no assignment as their first row after the order.
    """
    first: dict[str, Row] = {}
    for row in sorted(after, key=lambda r: r["at_us"]):
        first.setdefault(row["consumer"], row)
    return min((r["generation"] for r in first.values() if r["event"] != "assigned"), default=0)
