"""Findings that break nothing, each with its reason: the only place that tolerates a finding."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.run.result import Count, Counts
from chaos.scenario.model import Scenario

REASONS = {
    ("duplicate_delivery", "legal"): "a group resumes at its committed offset, so later records are delivered "
    "again (at least once)",
}
"""Findings that the guarantees of Kafka allow; the scenario alone allows all others."""

UNKNOWN = "the producer got no response, so their presence in the log is no anomaly, nor is their absence"


def tolerated(scenario: Scenario, totals: Sequence[Count], counts: Counts) -> list[str]:
    """Return a line for each kind that was found and is optional, and one for writes of unknown outcome."""
    lines = []
    for (kind, split), bound in scenario.expect.counts().items():
        count = sum(t.count for t in totals if (t.check, t.split) == (kind, split))
        if count and not bound.min and bound.holds(count):
            name = f"{kind}: {split}" if split else kind
            reason = REASONS.get((kind, split), "the scenario may cause it")
            lines.append(f"{name}, {count:,} ({bound.describe()} allowed by `expect`): {reason}.")
    if counts.unknown:
        lines.append(f"Writes of unknown outcome, {counts.unknown:,}: {UNKNOWN}.")
    return lines
