"""Comparison of outcomes: when two runs show the same, and how several runs become one outcome."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.anomalies import ANOMALIES
from chaos.errors import UsageError
from chaos.run.result import RunOutcome, anomaly_name
from chaos.scenario.expect import Expect


def parse_anomaly(text: str) -> str:
    """Return the name of an anomaly that a user wrote (`lost_write`, `duplicate_delivery.illegal`).

    Raises `UsageError` with the known names.
    """
    kind, _, split = text.strip().replace(".", " ").partition(" ")
    if kind not in ANOMALIES or (split and split not in ANOMALIES[kind].splits):
        raise UsageError(f"there is no anomaly {text!r}; known are {', '.join(ANOMALIES)}")
    return anomaly_name(kind, split)


def unconstrained(expect: Expect) -> set[str]:
    """Return the anomalies of which a contract allows any number: their presence is chance."""
    return {anomaly_name(*key) for key, bound in expect.counts().items() if bound.min == 0 and bound.max is None}


def signature(outcome: RunOutcome, expect: Expect) -> frozenset[str]:
    """Return the verdict and the anomalies that the contract constrains; equal signatures are the same outcome."""
    return frozenset({f"verdict {outcome.verdict}", *(set(outcome.anomalies) - unconstrained(expect))})


def differences(before: RunOutcome, after: RunOutcome, expect: Expect) -> list[str]:
    """Return a phrase for each difference between two outcomes; empty if they are the same."""
    verdicts = f"the verdict was {before.verdict} and is {after.verdict}"
    phrases = [verdicts] if before.verdict != after.verdict else []
    old, new = (set(outcome.anomalies) - unconstrained(expect) for outcome in (before, after))
    phrases += [f"{name} is gone ({before.anomalies[name]:,} then)" for name in sorted(old - new)]
    phrases += [f"{name} is new ({after.anomalies[name]:,})" for name in sorted(new - old)]
    return phrases


def merge(outcomes: Iterable[RunOutcome]) -> RunOutcome:
    """Merge the outcomes of several runs of one scenario: a failure if any failed, the largest count of each anomaly.

    Inconclusive outcomes are ignored unless all are inconclusive.
    """
    every = list(outcomes)
    conclusive = [outcome for outcome in every if outcome.conclusive]
    if not conclusive:
        return every[0]
    counts: dict[str, int] = {}
    for outcome in conclusive:
        for name, count in outcome.anomalies.items():
            counts[name] = max(count, counts.get(name, 0))
    worst = next((outcome for outcome in conclusive if outcome.verdict == "fail"), conclusive[0])
    return worst.model_copy(update={"anomalies": counts})
