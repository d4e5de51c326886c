"""Statistics of runs: whether times exceed earlier ones by a margin, and whether shares of runs differ.

A one-sided rank test judges times. Let x be the times of the runs now, y those before, and
y' = margin · y + resolution (below which a difference is not significant). The statistic is Mann and Whitney's U, the
number of pairs with x > y'. It uses ranks because times are skewed and one bad run moves a mean; its distribution is
exact because runs are few. A tie counts against the claim.

- *slower*: a time within the margin gives such a U with a probability below alpha = 1 - confidence. Holm's correction
  over all times of the gate (S. Holm, Scand. J. Statist. 6, 1979) keeps the probability of any false alarm below alpha.
- *within*: the reversed test shows that the time is not beyond the margin, at alpha for this time alone.
- *undecided*: neither.
- *too few*: the claim could not be shown even if all values were worse: C(n + m, n) < times of the gate / alpha.

Fisher's exact test judges in which share of runs something occurs; it is exact for few runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

EXACT = 40
"""Largest number of values on each side for the exact distribution; beyond it, the normal one is as good."""


def greater(high: Sequence[float], low: Sequence[float]) -> float:
    """Return the p-value of `high` being stochastically above `low`. Both must have values."""
    from scipy.stats import mannwhitneyu  # imported on use: slow, and most commands need no statistics

    # ranks without ties: of equal values, values of `low` count as the larger ones
    ordered = sorted([(value, 0, i) for i, value in enumerate(high)] + [(value, 1, i) for i, value in enumerate(low)])
    ranks: tuple[list[int], list[int]] = ([], [])
    for rank, (_, side, _) in enumerate(ordered):
        ranks[side].append(rank)
    method = "exact" if max(len(high), len(low)) <= EXACT else "asymptotic"
    return float(mannwhitneyu(*ranks, alternative="greater", method=method).pvalue)


def beyond(now: Sequence[float], then: Sequence[float], margin: float, resolution: float) -> tuple[float, float]:
    """Return the p-values of two claims: the values are beyond the margin, and they are within it.

    now, then, resolution: in one unit, such as microseconds. margin: a factor.
    """
    bound = [margin * value + resolution for value in then]
    return greater(now, bound), greater(bound, now)


def unequal(count: int, of: int, other: int, of_other: int) -> float:
    """Return the two-sided p-value of Fisher's exact test that an event has one rate: `count` of `of` runs show it,
    and `other` of `of_other`.
    """
    from scipy.stats import fisher_exact  # imported on use: slow, and most commands need no statistics

    return float(fisher_exact([[count, of - count], [other, of_other - other]]).pvalue)


def smallest(now: int, then: int) -> float:
    """Return the smallest p-value that these numbers of values can give."""
    return 1 / math.comb(now + then, now) if now and then else 1.0


def needed(alpha: float, tests: int) -> int:
    """Return the number of values on each side with which one of `tests` tests can be significant at all."""
    n = 1
    while smallest(n, n) > alpha / tests:
        n += 1
    return n


def holm(values: Sequence[float], alpha: float) -> list[bool]:
    """Return which p-values are significant by Holm's correction: the probability of any false one is below alpha."""
    significant = [False] * len(values)
    for i, index in enumerate(sorted(range(len(values)), key=lambda k: values[k])):
        if values[index] > alpha / (len(values) - i):
            break
        significant[index] = True
    return significant
