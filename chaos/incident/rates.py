"""Rates of events in repeated runs, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.run.result import RunOutcome

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rate:
    """An event in `count` of `of` runs. The true rate is between `low` and `high` at 95 % confidence."""

    name: str
    count: int
    of: int
    low: float
    high: float


def interval(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a rate (Clopper and Pearson, 1934).

    The interval is computed from the binomial distribution and never covers the true rate less often than stated.
    Wilson's interval is narrower on average, but can be too narrow for few runs and for rates near 0 or 1, which are
    the usual case here. If no run or every run shows the event, the interval is one-sided: `0 of 50` excludes rates of
    5.8 % and more. Without runs the interval is 0 to 1.
    """
    if of == 0:
        return 0.0, 1.0
    if count in (0, of):
        bound = float((1 - CONFIDENCE) ** (1 / of))
        return (0.0, 1 - bound) if count == 0 else (bound, 1.0)
    from scipy.stats import beta  # imported on use: slow, and most commands need no statistics

    tail = (1 - CONFIDENCE) / 2
    return float(beta.ppf(tail, count, of - count + 1)), float(beta.ppf(1 - tail, count + 1, of - count))


def rates(outcomes: Sequence[RunOutcome]) -> list[Rate]:
    """Return the rate of broken contracts, then the rates of all anomalies, the most frequent first.

    Only conclusive runs count: an anomaly that an inconclusive run does not show may have happened.
    """
    conclusive = [outcome for outcome in outcomes if outcome.conclusive]

    def rate(name: str, count: int) -> Rate:
        return Rate(name, count, len(conclusive), *interval(count, len(conclusive)))

    names = dict.fromkeys(name for outcome in conclusive for name in outcome.anomalies)
    anomalies = [rate(name, sum(name in outcome.anomalies for outcome in conclusive)) for name in names]
    failed = rate("a broken contract", sum(outcome.verdict == "fail" for outcome in conclusive))
    return [failed, *sorted(anomalies, key=lambda r: (-r.count, r.name))]
