"""Observed values of the terms about sends: how many were not acknowledged, and the lowest share over time."""

from __future__ import annotations

from collections import Counter

from chaos.run.directory import Run
from chaos.units import format_percent
from checks.audit.facts.topic_lives import topic_of
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
    series = [(topic_of(r["scope"]), r) for r in audit_rows(run, "series") if r["series"] in ("called", "unacked")]
    first_us: dict[str, int] = {}
    for topic, row in series:
        if row["series"] == "called":
            first_us[topic] = min(row["at_us"], first_us.get(topic, row["at_us"]))
    if not first_us:
        return Observation.missing("not measured", f"no send is in the table `series` of the audit; {AUDIT_AGAIN}")
    sends = {"called": Counter[tuple[str, int]](), "unacked": Counter[tuple[str, int]]()}
    for topic, row in series:
        if topic in first_us:
            sends[row["series"]][topic, (row["at_us"] - first_us[topic]) // window_us] += row["value"]
    called, unacked = sends["called"], sends["unacked"]
    shares = [((n - unacked[key]) * 1_000_000 // n, -n, key[1], key[0]) for key, n in called.items()]
    share, negative, window, topic = min(shares)
    begin = duration(window * window_us)
    reason = f"{format_percent(share)} of {-negative:,} sends in the window {begin} after the first send to {topic}"
    return Observation(share, f"{format_percent(share)} of {-negative:,} sends", reason)
