"""What was seen and yet breaks nothing, each with the reason: the one place where something is let pass."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.run.result import Count, Counts
from chaos.scenario.model import Scenario

REASONS = {
    ("duplicate_delivery", "legal"): "a group goes on at its committed offset, and what comes after that is delivered "
    "again (at least once)",
}
"""Where the promise of Kafka itself allows it; everything else is allowed by the scenario alone."""

UNKNOWN = "no answer came to the producer, so neither being in the log nor being absent is an anomaly"


def tolerated(scenario: Scenario, totals: Sequence[Count], counts: Counts) -> list[str]:
    """A line for each kind that was found and may appear but need not, and one for writes of unknown outcome."""
    lines = []
    for (kind, split), bound in scenario.expect.counts().items():
        seen = sum(t.count for t in totals if (t.check, t.split) == (kind, split))
        if seen and not bound.min and bound.holds(seen):
            named = f"{kind}: {split}" if split else kind
            reason = REASONS.get((kind, split), "what this scenario does may show it")
            lines.append(f"{named}, {seen:,} ({bound.describe()} allowed by `expect`): {reason}.")
    if counts.unknown:
        lines.append(f"Writes of unknown outcome, {counts.unknown:,}: {UNKNOWN}.")
    return lines
