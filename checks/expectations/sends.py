"""Observed values of the terms about sends: how many were not acknowledged, and the lowest share over time."""

from __future__ import annotations

from collections import Counter

from chaos.run.directory import Run
from chaos.units import format_percent
from checks.evidence import audit_rows
from checks.expectations.contract import duration
from checks.expectations.judge import Observation

AUDIT_AGAIN = "audit the run again"
_COUNTS = {"fail": "failed", "unknown": "unknown"}
_OUTCOMES = {"fail": "failed for good", "unknown": "have an unknown outcome"}


def failures(run: Run, outcome: str) -> Observation:
    """Return the number of sends with this outcome, over all topics.

    `unknown` includes records that are in the log although the row of their send was lost with the producer.
    """
    counts = [r for r in audit_rows(run, "counts") if r["name"] == _COUNTS[outcome]]
    if not counts:
        return Observation.missing("not counted", f"the audit counted no sends; {AUDIT_AGAIN}")
    total = sum(r["value"] for r in counts)
    text = ", ".join(f"{r['scope']}: {r['value']:,}" for r in counts if r["value"])
    return Observation(total, f"{total:,}", f"{total:,} sends {_OUTCOMES[outcome]} ({text})" if total else "no send")


def lowest_success(run: Run, window_us: int) -> Observation:
    """Return the lowest share of acknowledged sends in a window of a topic, in millionths, rounded down.

    A send belongs to the window of its call. The windows of a topic follow each other from its first send (rounded down
    to 250 ms); the last window counts with the sends that it has. Windows without sends do not count.
    """
    series = audit_rows(run, "series")
    if not any(r["series"] == "called" for r in series):
        return Observation.missing("not measured", f"no send is in the table `series` of the audit; {AUDIT_AGAIN}")
    shares = []
    for topic in sorted({_topic(r["scope"]) for r in series if r["series"] == "called"}):
        calls = [r for r in series if r["series"] == "called" and _topic(r["scope"]) == topic]
        first_us = min(r["at_us"] for r in calls)
        called, unacked = Counter[int](), Counter[int]()
        for row in series:
            if row["series"] in ("called", "unacked") and _topic(row["scope"]) == topic:
                counter = called if row["series"] == "called" else unacked
                counter[(row["at_us"] - first_us) // window_us] += row["value"]
        shares += [((n - unacked[w]) * 1_000_000 // n, -n, w, topic) for w, n in called.items()]
    share, negative, window, topic = min(shares)
    begin = duration(window * window_us)
    reason = f"{format_percent(share)} of {-negative:,} sends in the window {begin} after the first send to {topic}"
    return Observation(share, f"{format_percent(share)} of {-negative:,} sends", reason)


def _topic(scope: str) -> str:
    """Return the name of a topic, without the note of a life that has ended."""
    return scope.partition(" (deleted")[0]
